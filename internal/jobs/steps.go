package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/limit"
)

// refusals are the reasons that refuse one event, and let a job go on with the others.
var refusals = []error{
	driver.ErrOpen, driver.ErrRedacted, driver.ErrBodyPruned, driver.ErrRequestReused, driver.ErrNoteNeeded, driver.ErrModeNeeded, driver.ErrNoRoute, driver.ErrPassed,
	driver.ErrUndecided, driver.ErrLockTimeout, driver.ErrNotFound, driver.ErrBadRow, driver.ErrNotStored,
}

// refusalOf returns the refusal that err is about, or nil.
func refusalOf(err error) error {
	for _, refusal := range refusals {
		if errors.Is(err, refusal) {
			return refusal
		}
	}
	return nil
}

// mayBeOfRow reports whether one event may be why a step failed.
func mayBeOfRow(err error) bool { return refusalOf(err) != nil || errors.Is(err, driver.ErrRefused) }

// Mode returns the mode of a replay of events by its name, and the destination that the name holds.
func Mode(name string) (mode driver.ReplayMode, to string, err error) {
	switch name {
	case "":
		return driver.ReplayPlain, "", nil
	case "as_new":
		return driver.ReplayAsNew, "", nil
	case "same_id":
		return driver.ReplaySameID, "", nil
	case "reroute":
		return driver.ReplayReroute, "", nil
	}
	if to, ok := strings.CutPrefix(name, driver.JobTo); ok && to != "" {
		return driver.ReplayTo, to, nil
	}
	return 0, "", fmt.Errorf("%q is not a mode; use as_new, same_id, reroute or to", name)
}

// task is a job with its parsed texts.
type task struct {
	*Runner
	job  *driver.Job
	sel  driver.JobSelection
	pace *limit.Bucket
	how  How
	past past
	most int       // events in a row that it passes over
	held time.Time // when the lease was renewed
}

// maxRefused is how many events in a row a job passes over before it takes the database for the reason. After each wait it
// passes over twice as many.
const maxRefused = 20

// past is work of a job that is not recorded yet. The database has refused some events for a reason that may concern all.
// Once another event was changed, the refusals are their own fault. Until then the job stays at its place, and the task goes on.
type past struct {
	step    driver.JobStep // counts
	refused int
	err     error  // the last refusal
	changed bool   // another event was changed
	cursor  string // where the task goes on, or ""
	limit   int    // of the next call that undoes letters
}

// steps works on a job until an error. That is errEnded at its end. tries counts the calls that did not move the job.
func (r *Runner) steps(ctx context.Context, job *driver.Job, tries int) error {
	t := &task{Runner: r, job: job, most: maxRefused << min(tries, 16), held: time.Now()}
	filter := json.NewDecoder(strings.NewReader(job.Filter))
	filter.DisallowUnknownFields() // without a key of a newer version the job would change more
	err := filter.Decode(&t.sel)
	if err == nil {
		t.pace, err = r.Pace(&job.JobSpec)
	}
	if err == nil {
		t.how = How{Note: t.sel.Note, RequestID: job.ID}
		t.how.Mode, t.how.To, err = Mode(job.Mode)
	}
	if err != nil {
		return brokenError{err}
	}
	step := t.letters
	switch {
	case job.Of == driver.JobOfDeadLetters && job.Action == driver.JobUndo:
		step = t.undo
	case job.Of == driver.JobOfEvents && job.Action == driver.JobReplay:
		step = t.events
	case job.Of != driver.JobOfDeadLetters || job.Action != driver.JobReplay && job.Action != driver.JobDiscard:
		return brokenError{fmt.Errorf("this version knows no job of %q with the action %q", job.Of, job.Action)}
	}
	for {
		began := time.Now()
		if err := step(ctx); err != nil {
			return err
		}
		if err := r.rest(ctx, began); err != nil {
			return err
		}
	}
}

// at returns the place where the job goes on.
func (t *task) at() (place, error) {
	p, err := parsePlace(cmp.Or(t.past.cursor, t.job.Cursor))
	if err == nil && p.Part >= parts(&t.sel) {
		err = fmt.Errorf("the job has no part %d", p.Part)
	}
	if err != nil {
		return p, brokenError{err}
	}
	return p, nil
}

// record records a step, unless the refusals of the task may concern all. next is where the job goes on if there is more.
func (t *task) record(ctx context.Context, next string, more bool, letters []driver.DeadLetter) ([]bool, error) {
	ok, err := t.judge(more)
	if err == nil && !ok {
		t.past.cursor = next
		err = t.renew(ctx)
	}
	if err != nil || !ok {
		return nil, err
	}
	s := t.past.step
	s.Letters, s.Action = refsOf(letters), t.job.Action
	if s.Cursor = next; !more {
		s.Cursor, s.End = "", driver.JobDone
	}
	done, err := t.stepLetters(ctx, t.job, &s)
	if err != nil {
		return nil, err
	}
	if t.past, t.held = (past{}), time.Now(); !more {
		err = errEnded
	}
	return done, err
}

// renew renews the lease once per slice, for work that records no step. The error is errLost after a cancellation.
func (t *task) renew(ctx context.Context) error {
	if time.Since(t.held) < slice {
		return nil
	}
	t.held = time.Now()
	return t.step(ctx, t.job, &driver.JobStep{})
}

// judge reports whether the refused events are at fault by themselves: another one was changed, or there is no other one.
// The error says that the database may be the reason, at the end of the job or after too many refusals. If the
// job has dealt with others, a few refused ones at its end are at fault.
func (t *task) judge(more bool) (bool, error) {
	few := t.job.Done+t.job.Skipped+t.past.step.Skipped > 0 && (t.past.refused <= maxRefused || t.most > maxRefused<<5)
	switch {
	case t.past.refused == 0, t.past.changed, !more && (t.past.refused == 1 || few):
		return true, nil
	case !more || t.past.refused > t.most:
		return false, t.past.err
	}
	return false, nil
}

// refuse counts an event that the database refuses for a reason that may concern all.
func (t *task) refuse(source, eventID string, err error) error {
	t.past.refused, t.past.err = t.past.refused+1, err
	fail(&t.past.step, source, eventID, driver.ErrBadRow)
	if _, err := t.judge(true); err != nil {
		return err
	}
	return nil
}

// letters works on the dead letters of one page, or of several parts with few.
func (t *task) letters(ctx context.Context) error {
	p, err := t.at()
	if err != nil {
		return err
	}
	allowed, err := t.tokens(ctx, t.job, t.pace, driver.MaxJobStep)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	var step []driver.DeadLetter
	for began, left := time.Now(), allowed; ; {
		page, err := t.page(limited, p, left)
		if err != nil {
			return err
		}
		if p.Cursor == "" && len(page.DeadLetters) == 0 && page.Next.IsZero() && named(&t.sel) > 0 {
			t.past.step.Skipped++ // nothing of this name is dead
		}
		step, left = append(step, page.DeadLetters...), left-len(page.DeadLetters)
		next, more := p.next(page.Next.String(), parts(&t.sel))
		if !more || left == 0 || !page.Next.IsZero() || time.Since(began) > slice {
			t.pace.GiveBack(left)
			return t.change(ctx, next.String(), more, step)
		}
		p = next
	}
}

// page lists at most n of the letters at a place.
func (t *task) page(ctx context.Context, p place, n int) (*driver.DeadLetterPage, error) {
	after, err := driver.ParseCursor(p.Cursor)
	if err != nil {
		return nil, brokenError{err}
	}
	filter := letterFilter(&t.sel, p.Part)
	filter.Limit, filter.After = n, after
	return t.store.DeadLetters(ctx, filter)
}

// change changes letters, and records the step; see record.
func (t *task) change(ctx context.Context, next string, more bool, letters []driver.DeadLetter) error {
	changed := letters[:0]
	for i := range letters {
		l := &letters[i]
		switch {
		case l.FailedAt.After(t.job.StartedAt):
			// It died after the job began, perhaps after this job had replayed it.
		case t.job.Action == driver.JobReplay && undecided(l):
			if err := t.replay(ctx, l.Source, l.EventID); err != nil {
				return err
			}
		default:
			changed = append(changed, *l)
		}
	}
	if t.past.refused == 0 {
		done, err := t.record(ctx, next, more, changed)
		if len(changed) == 0 || !mayBeOfRow(err) {
			t.worked(changed, done)
			return err
		}
	}
	if err := t.halves(ctx, changed); err != nil {
		return err
	}
	_, err := t.record(ctx, next, more, nil)
	return err
}

// halves changes letters in small steps, because the database refuses one of them. The job stays at its place.
func (t *task) halves(ctx context.Context, letters []driver.DeadLetter) error {
	half := len(letters) / 2
	for _, part := range [][]driver.DeadLetter{letters[:half], letters[half:]} {
		if len(part) == 0 {
			continue
		}
		if err := t.renew(ctx); err != nil {
			return err
		}
		done, err := t.stepLetters(ctx, t.job, &driver.JobStep{Action: t.job.Action, Letters: refsOf(part)})
		switch refusal := refusalOf(err); {
		case err == nil:
			t.past.changed = t.past.changed || slices.Contains(done, true)
			t.worked(part, done)
		case !mayBeOfRow(err):
			return err
		case len(part) == 1 && refusal != nil:
			fail(&t.past.step, part[0].Source, part[0].EventID, refusal)
		case len(part) == 1:
			if err := t.refuse(part[0].Source, part[0].EventID, err); err != nil {
				return err
			}
		default:
			if err := t.halves(ctx, part); err != nil {
				return err
			}
		}
	}
	return nil
}

func refsOf(letters []driver.DeadLetter) []driver.DeadLetterRef {
	refs := make([]driver.DeadLetterRef, len(letters))
	for i := range letters {
		refs[i] = driver.DeadLetterRef{Key: letters[i].Key, MessageID: letters[i].MessageID}
	}
	return refs
}

// worked tells of the letters that a step has changed.
func (t *task) worked(letters []driver.DeadLetter, done []bool) {
	var changed []driver.DeadLetter
	for i, ok := range done {
		if ok {
			changed = append(changed, letters[i])
		}
	}
	if len(changed) > 0 {
		t.Worked(t.job.Action, changed)
	}
}

// undecided reports whether a letter needs its routes matched again.
func undecided(l *driver.DeadLetter) bool {
	return l.MessageID == "" && strings.HasPrefix(l.LastError, driver.NoteUndecided)
}

// replay replays one event, and counts it. It waits for a message that a reroute has to skip while it is being sent.
func (t *task) replay(ctx context.Context, source, eventID string) error {
	if err := t.renew(ctx); err != nil {
		return err
	}
	stayed, err := t.replayOnce(ctx, source, eventID)
	for errors.Is(err, driver.ErrSending) {
		if err := t.hold(ctx, t.job, slice); err != nil {
			return err
		}
		stayed, err = t.replayOnce(ctx, source, eventID)
	}
	switch refusal := refusalOf(err); {
	case stayed:
		t.past.step.Skipped++
	case err == nil:
		t.past.step.Done++
		t.past.changed = true
	case refusal != nil:
		fail(&t.past.step, source, eventID, refusal)
	case errors.Is(err, driver.ErrRefused):
		return t.refuse(source, eventID, err)
	default:
		return err
	}
	return nil
}

// fail counts an event that was refused.
func fail(s *driver.JobStep, source, eventID string, refusal error) {
	s.Failed++
	s.LastError = clean(fmt.Sprintf("event %.60q of source %q: %s", eventID, source, refusal))
}

func (t *task) replayOnce(ctx context.Context, source, eventID string) (stayed bool, err error) {
	limited, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	return t.Replay(limited, source, eventID, &t.how)
}

// events replays events of one page, for a slice of time.
func (t *task) events(ctx context.Context) error {
	p, err := t.at()
	if err != nil {
		return err
	}
	filter := eventFilter(&t.sel, p.Part)
	if filter.After, err = driver.ParseCursor(p.Cursor); err != nil {
		return brokenError{err}
	}
	if filter.Limit, err = t.tokens(ctx, t.job, t.pace, driver.MaxJobStep); err != nil {
		return err
	}
	page, err := t.eventPage(ctx, filter)
	if err != nil {
		return err
	}
	began, cursor, came := time.Now(), page.Next, 0
	for i := range page.Events {
		ev := &page.Events[i]
		if putAway(&t.sel, ev) {
			continue
		}
		if err := t.replay(ctx, ev.Source, ev.EventID); err != nil {
			return err
		}
		came++
		if i+1 < len(page.Events) && time.Since(began) > slice {
			cursor = driver.Cursor{At: ev.ReceivedAt, Key: ev.Key}
			break
		}
	}
	t.pace.GiveBack(filter.Limit - came)
	next, more := p.next(cursor.String(), parts(&t.sel))
	_, err = t.record(ctx, next.String(), more, nil)
	return err
}

func (t *task) eventPage(ctx context.Context, filter *driver.EventFilter) (*driver.EventPage, error) {
	limited, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	return t.store.Events(limited, filter)
}

// undo makes discarded letters dead again. Job.Cursor is that of Undiscard. It takes smaller steps towards a letter that the
// database refuses to change, and passes over it.
func (t *task) undo(ctx context.Context) error {
	p := &driver.UndiscardParams{
		Operation: t.sel.RequestID, Limit: driver.MaxJobStep, After: cmp.Or(t.past.cursor, t.job.Cursor), Step: &t.past.step,
	}
	p.Step.ID, p.Step.Fence, p.Step.For = t.job.ID, t.job.Fence, lease
	if p.Unsure = t.past.refused > 0; p.Unsure {
		p.Limit = t.past.limit
	}
	undone, err := t.undoOnce(ctx, p)
	for p.Limit > 1 && mayBeOfRow(err) {
		p.Limit /= 2
		undone, err = t.undoOnce(ctx, p)
	}
	if mayBeOfRow(err) {
		undone, err = t.undoPast(ctx, p, err)
	}
	switch {
	case errors.Is(err, driver.ErrBadRow): // the cursor
		return brokenError{err}
	case err != nil:
		return err
	case !undone.Held:
		return errLost
	}
	if p.Unsure && undone.Undone == 0 {
		t.past.limit = min(2*p.Limit, driver.MaxJobStep)
		if !p.Pass {
			t.past.step.Skipped += int64(undone.Skipped)
		}
		_, err := t.record(ctx, undone.Next, undone.Next != "", nil)
		return err
	}
	if undone.Next == "" {
		return errEnded
	}
	t.job.Cursor, t.job.Done = undone.Next, t.job.Done+int64(undone.Undone)
	t.job.Skipped += int64(undone.Skipped)
	t.past, t.held = past{}, time.Now()
	return nil
}

// undoPast passes over a letter that the database refuses to change.
func (t *task) undoPast(ctx context.Context, p *driver.UndiscardParams, refusal error) (*driver.Undiscarded, error) {
	if refusalOf(refusal) == nil {
		t.past.refused, t.past.err = t.past.refused+1, refusal
	}
	t.past.step.Failed++
	t.past.step.LastError = clean(fmt.Sprintf("a letter of %q stays discarded: %s", p.Operation, cmp.Or(refusalOf(refusal), driver.ErrBadRow)))
	p.Pass, p.Unsure = true, true
	return t.undoOnce(ctx, p)
}

func (t *task) undoOnce(ctx context.Context, p *driver.UndiscardParams) (*driver.Undiscarded, error) {
	if err := t.renew(ctx); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	return t.store.Undiscard(limited, p)
}

// clean returns s as text that a store takes, of at most 1000 bytes.
func clean(s string) string {
	const most = 1000
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", " "), "\uFFFD")
	for len(s) > most {
		s = strings.ToValidUTF8(s[:most], "")
	}
	return s
}

package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
}

// steps works on a job until an error. That is errEnded at its end.
func (r *Runner) steps(ctx context.Context, job *driver.Job) error {
	t := &task{Runner: r, job: job}
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
	p, err := parsePlace(t.job.Cursor)
	if err == nil && p.Part >= parts(&t.sel) {
		err = fmt.Errorf("the job has no part %d", p.Part)
	}
	if err != nil {
		return p, brokenError{err}
	}
	return p, nil
}

// record records a step that ends at a cursor of a listing.
func (t *task) record(ctx context.Context, p place, cursor string, s *driver.JobStep) ([]bool, error) {
	next, more := p.next(cursor, parts(&t.sel))
	if s.Cursor = next.String(); !more {
		s.Cursor, s.End = "", driver.JobDone
	}
	done, err := t.stepLetters(ctx, t.job, s)
	if err == nil && !more {
		err = errEnded
	}
	return done, err
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
	s := &driver.JobStep{Action: t.job.Action}
	var step []driver.DeadLetter
	for began, left := time.Now(), allowed; ; {
		page, err := t.page(limited, p, left)
		if err != nil {
			return err
		}
		if p.Cursor == "" && len(page.DeadLetters) == 0 && page.Next.IsZero() && named(&t.sel) > 0 {
			s.Skipped++ // nothing of this name is dead
		}
		step, left = append(step, page.DeadLetters...), left-len(page.DeadLetters)
		next, more := p.next(page.Next.String(), parts(&t.sel))
		if !more || left == 0 || !page.Next.IsZero() || time.Since(began) > slice {
			t.pace.GiveBack(left)
			return t.change(ctx, p, page.Next.String(), step, s)
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

// change changes letters, and records s as the step that ends at a cursor.
func (t *task) change(ctx context.Context, p place, cursor string, letters []driver.DeadLetter, s *driver.JobStep) error {
	changed := letters[:0]
	for i := range letters {
		l := &letters[i]
		switch {
		case l.FailedAt.After(t.job.StartedAt):
			// It died after the job began, perhaps after this job had replayed it.
		case t.job.Action == driver.JobReplay && undecided(l):
			if err := t.replay(ctx, s, l.Source, l.EventID); err != nil {
				return err
			}
		default:
			changed = append(changed, *l)
		}
	}
	s.Letters = refsOf(changed)
	done, err := t.record(ctx, p, cursor, s)
	if len(changed) > 0 && (refusalOf(err) != nil || errors.Is(err, driver.ErrRefused)) {
		refused := &refusedLetters{}
		if err := t.halves(ctx, s, changed, refused); err != nil {
			return err
		}
		if err := t.judge(ctx, p, cursor, s, refused); err != nil {
			return err
		}
		s.Letters = nil
		_, err = t.record(ctx, p, cursor, s)
		return err
	}
	t.worked(changed, done)
	return err
}

// refusedLetters are letters of one step that the database refused for a reason that may concern all.
type refusedLetters struct {
	letters []driver.DeadLetter
	err     error // the last refusal
	others  bool  // another letter was changed
}

// halves changes letters in small steps, because the database refuses one of them. The job stays at its place. It counts in s
// those that are refused alone, unless the reason may concern all.
func (t *task) halves(ctx context.Context, s *driver.JobStep, letters []driver.DeadLetter, refused *refusedLetters) error {
	half := len(letters) / 2
	for _, part := range [][]driver.DeadLetter{letters[:half], letters[half:]} {
		if len(part) == 0 {
			continue
		}
		done, err := t.stepLetters(ctx, t.job, &driver.JobStep{Action: t.job.Action, Letters: refsOf(part)})
		refusal, mayBeOfAll := refusalOf(err), errors.Is(err, driver.ErrRefused)
		switch {
		case err == nil:
			t.worked(part, done)
			refused.others = true
		case refusal == nil && !mayBeOfAll:
			return err
		case len(part) == 1 && refusal != nil:
			fail(s, part[0].Source, part[0].EventID, refusal)
		case len(part) == 1:
			if refused.letters, refused.err = append(refused.letters, part[0]), err; len(refused.letters) > maxRefused && !refused.others {
				return err
			}
		default:
			if err := t.halves(ctx, s, part, refused); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxRefused is how many letters in a row a job tries before it takes the database for the reason.
const maxRefused = 20

// judge counts refused letters in s if another letter can be changed: one of the same step, or one of those behind it. The
// error says that the reason may concern all; then the job tries again later. The last letter is counted.
func (t *task) judge(ctx context.Context, p place, cursor string, s *driver.JobStep, refused *refusedLetters) error {
	behind := &refusedLetters{others: refused.others || len(refused.letters) == 0}
	next, more := p.next(cursor, parts(&t.sel))
	for looked := 0; more && !behind.others && looked < maxRefused; looked++ { // a page counts, too
		page, err := t.page(ctx, next, maxRefused)
		if err != nil {
			return err
		}
		for i := 0; i < len(page.DeadLetters) && !behind.others && looked < maxRefused; i++ {
			l := &page.DeadLetters[i]
			if l.FailedAt.After(t.job.StartedAt) || t.job.Action == driver.JobReplay && undecided(l) {
				continue
			}
			looked++
			// If it is refused, it is counted in its turn.
			if err := t.halves(ctx, &driver.JobStep{}, page.DeadLetters[i:i+1], behind); err != nil {
				return err
			}
		}
		next, more = next.next(page.Next.String(), parts(&t.sel))
	}
	if len(refused.letters)+len(behind.letters) > 1 && !behind.others {
		return refused.err
	}
	for i := range refused.letters {
		fail(s, refused.letters[i].Source, refused.letters[i].EventID, driver.ErrBadRow)
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

// replay replays one event, and counts it in s. It waits for a message that a reroute has to skip while it is
// being sent.
func (t *task) replay(ctx context.Context, s *driver.JobStep, source, eventID string) error {
	stayed, err := t.replayOnce(ctx, source, eventID)
	for errors.Is(err, driver.ErrSending) {
		if err := t.hold(ctx, t.job, slice); err != nil {
			return err
		}
		stayed, err = t.replayOnce(ctx, source, eventID)
	}
	switch refusal := refusalOf(err); {
	case stayed:
		s.Skipped++
	case err == nil:
		s.Done++
	case refusal != nil:
		fail(s, source, eventID, refusal)
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
	s, began, cursor, came := &driver.JobStep{}, time.Now(), page.Next, 0
	for i := range page.Events {
		ev := &page.Events[i]
		if putAway(&t.sel, ev) {
			continue
		}
		if err := t.replay(ctx, s, ev.Source, ev.EventID); err != nil {
			return err
		}
		came++
		if i+1 < len(page.Events) && time.Since(began) > slice {
			cursor = driver.Cursor{At: ev.ReceivedAt, Key: ev.Key}
			break
		}
	}
	t.pace.GiveBack(filter.Limit - came)
	_, err = t.record(ctx, p, cursor.String(), s)
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
		Operation: t.sel.RequestID, Limit: driver.MaxJobStep, After: t.job.Cursor,
		Step: &driver.JobStep{ID: t.job.ID, Fence: t.job.Fence, For: lease},
	}
	undone, err := t.undoOnce(ctx, p)
	for refusal := refusalOf(err); refusal != nil && !p.Pass; refusal = refusalOf(err) {
		if p.Pass = p.Limit == 1; p.Pass {
			p.Step.LastError = clean(fmt.Sprintf("a letter of %q stays discarded: %s", p.Operation, refusal))
		}
		p.Limit = max(p.Limit/2, 1)
		undone, err = t.undoOnce(ctx, p)
	}
	switch {
	case errors.Is(err, driver.ErrBadRow): // the cursor
		return brokenError{err}
	case err != nil:
		return err
	case !undone.Held:
		return errLost
	case undone.Next == "":
		return errEnded
	}
	t.job.Cursor = undone.Next
	return nil
}

func (t *task) undoOnce(ctx context.Context, p *driver.UndiscardParams) (*driver.Undiscarded, error) {
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

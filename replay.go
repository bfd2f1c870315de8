package hookonce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/operate"
	"github.com/hookonce/hookonce/internal/tell"
	"github.com/hookonce/hookonce/internal/wire"
)

// ReplayRequest names the event to replay, and how.
type ReplayRequest struct {
	Source  string
	EventID string // as shown in listings
	// Mode says whether the messages get new ids. A dead or skipped event needs none and keeps its
	// ids; a done event needs one.
	Mode driver.ReplayMode
	// Note must be driver.NoteTxEnded for an event that is dead with this note, or was when it was
	// discarded: its handler ended its transaction, so the event may have taken effect. Other notes
	// need not be named.
	Note string
	// RequestID makes the request repeatable, if it is not "": a second request with it for the
	// same event returns the first result and does nothing. At most 255 bytes without control
	// characters.
	RequestID string
}

// Replay runs a finished event again, with a new generation and full attempts: its dead parts, or,
// if it has none, all of it. An event that matched no route, or whose routes were undecided, is
// matched again with the present routes.
//
// The error matches driver.ErrNotFound; driver.ErrOpen for a pending or running event;
// driver.ErrBodyPruned, which driver.ErrRedacted matches too; driver.ErrNoteNeeded;
// driver.ErrModeNeeded; driver.ErrUndecided; or driver.ErrNoRoute. In all these cases nothing changed. After driver.ErrCommitUnknown a request
// with a RequestID can safely be repeated.
func (in *Engine) Replay(ctx context.Context, r *ReplayRequest) (*driver.Replayed, error) {
	if err := operate.CheckRequestID(r.RequestID); err != nil {
		return nil, err
	}
	began := time.Now()
	detail, err := in.store.Event(ctx, r.Source, r.EventID)
	if err != nil {
		return nil, fmt.Errorf("hookonce: replay: %w", err)
	}
	p := &driver.ReplayParams{Key: detail.Key, Mode: r.Mode, Note: r.Note, RequestID: r.RequestID}
	if err := in.decideNow(p, detail); err != nil {
		return nil, err
	}
	replayed, err := in.store.Replay(ctx, p)
	if errors.Is(err, driver.ErrBodyPruned) && detail.Redacted() {
		err = driver.ErrRedacted
	}
	if err != nil {
		return nil, fmt.Errorf("hookonce: replay event %q of source %q: %w", r.EventID, r.Source, err)
	}
	if !replayed.Repeated {
		in.log.Info("event replayed", slog.String("source", r.Source), slog.String("event_id", r.EventID),
			slog.Int("generation", replayed.Generation), slog.Int("messages", replayed.Messages))
		in.tell.EventReplayed(detail, replayed, began)
	}
	in.wakeAll()
	return replayed, nil
}

// ErrRequestID is the error of Replay and Redact for an invalid RequestID.
var ErrRequestID = operate.ErrRequestID

// decideNow fills in the messages that a claim would write now, for an event that matched no route
// or is undecided.
func (in *Engine) decideNow(p *driver.ReplayParams, detail *driver.EventDetail) error {
	src := in.setup.Load().sources[detail.Source]
	if len(detail.Messages) > 0 || detail.BodyPruned {
		return nil
	}
	if src == nil || len(src.routes) == 0 && !in.works(src) {
		p.Unknown = true
		return nil
	}
	header, body, err := wire.Stored(detail.Headers, detail.Body)
	if err != nil {
		return fmt.Errorf("hookonce: replay event %q of source %q: as it is stored: %w: %w", detail.EventID, detail.Source, driver.ErrBadRow, err)
	}
	var undecided string
	p.Routes, undecided = in.messagesFor(src, detail.Key, &Event{
		Source: detail.Source, ID: detail.EventID, Type: detail.Type,
		OccurredAt: detail.OccurredAt, Header: header, Body: body, rules: src.extractor,
	}, time.Time{})
	p.Undecided = undecided != ""
	return nil
}

// DeadLetters selects dead letters, for ReplayDead and Discard.
type DeadLetters struct {
	// Filter selects the dead letters; its State and Limit are ignored. Filter.After is the place
	// to continue at after an incomplete call, see Worked.Next.
	Filter driver.MessageFilter
	// EventIDs and MessageIDs, if not empty, narrow the selection to these events and messages;
	// Filter.Source is then the source of the events, and Filter.After is ignored.
	EventIDs   []string
	MessageIDs []string
	// Operation is the id of the request. Undo finds a discard by it. At most 255 bytes without
	// control characters; "" for a discard that cannot be undone.
	Operation string
	// Rate is the pace, evenly spaced. Defaults to DefaultReplayRate for ReplayDead, and to none for
	// Discard.
	Rate Rate
}

// Worked is the result of ReplayDead, Discard or Undo.
type Worked struct {
	Done int // number of dead letters that were replayed, discarded or undone
	// Passed is the number of skipped ones: they were not dead any more, or another session had
	// locked them, or a replay met driver.NoteTxEnded. An id without a dead letter counts as one.
	Passed int
	// Next is the place to continue at; zero if the call came to the end, or if there were ids.
	Next driver.MessageCursor
}

func (w *Worked) add(more *Worked) {
	w.Done, w.Passed, w.Next = w.Done+more.Done, w.Passed+more.Passed, more.Next
}

// ReplayDead makes dead letters due again under their ids, with a new generation and full attempts.
// Events with driver.NoteTxEnded stay dead: only Replay runs them again.
// It works in chunks, each in one transaction, newest events first, until all letters that were
// dead at the beginning are done or ctx ends. Then the error is that of ctx, and Worked says how
// far it came and where to continue. Continue there and not at the beginning: otherwise letters
// that died again would be replayed before the rest.
func (in *Engine) ReplayDead(ctx context.Context, which *DeadLetters) (Worked, error) {
	worked, err := in.workOn(ctx, which, DefaultReplayRate, &letterWork{action: tell.Replayed, do: in.store.ReplayDead, again: in.replayUndecided})
	if worked.Done+worked.Passed > 0 {
		in.log.Info("dead letters replayed", slog.Int("replayed", worked.Done), slog.Int("passed", worked.Passed))
		in.wakeAll()
	}
	if err != nil {
		return worked, fmt.Errorf("hookonce: replay dead letters: %w", err)
	}
	return worked, nil
}

// Discard gives dead letters up: they become skipped, with the note driver.NoteDiscarded, and their
// identities stay claimed. It works as ReplayDead does.
func (in *Engine) Discard(ctx context.Context, which *DeadLetters) (Worked, error) {
	worked, err := in.workOn(ctx, which, Rate(limit.Unpaced), &letterWork{action: tell.Discarded, do: in.store.Discard})
	if worked.Done+worked.Passed > 0 {
		in.log.Info("dead letters discarded", slog.Int("discarded", worked.Done), slog.Int("passed", worked.Passed))
	}
	if err != nil {
		return worked, fmt.Errorf("hookonce: discard dead letters: %w", err)
	}
	return worked, nil
}

// letterWork is the work on dead letters.
type letterWork struct {
	action    string // for the observer
	operation string
	do        func(context.Context, *driver.DeadLetterParams) ([]bool, error)
	// again works on a letter that do skipped, tells the observer, and reports whether it did. nil
	// leaves such letters alone.
	again func(context.Context, *driver.DeadLetter) (bool, error)
}

// replayUndecided replays a letter that needs its routes matched again.
func (in *Engine) replayUndecided(ctx context.Context, l *driver.DeadLetter) (bool, error) {
	if l.MessageID != "" || !strings.HasPrefix(l.LastError, driver.NoteUndecided) {
		return false, nil
	}
	_, err := in.Replay(ctx, &ReplayRequest{Source: l.Source, EventID: l.EventID})
	for _, refused := range []error{driver.ErrUndecided, driver.ErrNoRoute, driver.ErrOpen, driver.ErrModeNeeded, driver.ErrNotFound, driver.ErrBodyPruned, driver.ErrLockTimeout} {
		if errors.Is(err, refused) {
			return false, nil
		}
	}
	return err == nil, err
}

func (in *Engine) workOn(ctx context.Context, which *DeadLetters, rate Rate, work *letterWork) (Worked, error) {
	if err := errors.Join(which.Rate.check(), operate.CheckRequestID(which.Operation)); err != nil {
		return Worked{}, err
	}
	work.operation = which.Operation
	if which.Rate.Count > 0 {
		rate = which.Rate
	}
	pace := limit.NewPace(rate.Count, rate.Per)
	if len(which.EventIDs) == 0 && len(which.MessageIDs) == 0 {
		return in.workOnFiltered(ctx, which.Filter, pace, work)
	}
	var all Worked
	for _, filter := range which.filters() {
		worked, err := in.workOnFiltered(ctx, filter, pace, work)
		if err == nil && worked == (Worked{}) {
			worked.Passed = 1
		}
		worked.Next = driver.MessageCursor{}
		all.add(&worked)
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// filters returns one filter for each id.
func (d *DeadLetters) filters() []driver.MessageFilter {
	var all []driver.MessageFilter
	for _, id := range d.EventIDs {
		one := d.Filter
		one.EventID, one.After = id, driver.MessageCursor{}
		all = append(all, one)
	}
	for _, id := range d.MessageIDs {
		one := d.Filter
		one.MessageID, one.After = id, driver.MessageCursor{}
		all = append(all, one)
	}
	return all
}

// workOnFiltered goes through the listing once, starting at filter.After. A letter that died again
// after its replay stands before that place.
func (in *Engine) workOnFiltered(ctx context.Context, filter driver.MessageFilter, pace *limit.Bucket, work *letterWork) (Worked, error) {
	worked := Worked{Next: filter.After}
	for {
		chunk, err := in.workOnChunk(ctx, &filter, pace, work)
		if err != nil {
			return worked, err
		}
		worked.add(&chunk)
		if filter.After = worked.Next; filter.After.IsZero() {
			return worked, nil
		}
	}
}

// workOnChunk works on the first letters after filter.After: as many as the pace allows, and at
// most a page.
func (in *Engine) workOnChunk(ctx context.Context, filter *driver.MessageFilter, pace *limit.Bucket, work *letterWork) (Worked, error) {
	var err error
	if filter.Limit, err = pace.Await(ctx, driver.MaxLimit); err != nil {
		return Worked{}, err
	}
	page, err := in.store.DeadLetters(ctx, filter)
	if err != nil {
		return Worked{}, err
	}
	pace.GiveBack(filter.Limit - len(page.DeadLetters))
	if len(page.DeadLetters) == 0 {
		return Worked{Next: page.Next}, nil // a page may end at a bound without letters
	}
	letters := make([]driver.DeadLetterRef, len(page.DeadLetters))
	for i := range letters {
		letters[i] = driver.DeadLetterRef{Key: page.DeadLetters[i].Key, MessageID: page.DeadLetters[i].MessageID}
	}
	done, err := work.do(ctx, &driver.DeadLetterParams{Letters: letters, Operation: work.operation})
	if err != nil {
		return Worked{}, err
	}
	in.observeWorked(work.action, page.DeadLetters, done)
	worked := Worked{Next: page.Next}
	for i, ok := range done {
		if !ok && work.again != nil {
			if ok, err = work.again(ctx, &page.DeadLetters[i]); err != nil {
				return worked, err
			}
		}
		if ok {
			worked.Done++
		} else {
			worked.Passed++
		}
	}
	return worked, nil
}

// observeWorked tells the observer how many letters of each source are done.
func (in *Engine) observeWorked(action string, letters []driver.DeadLetter, done []bool) {
	counts := map[string]int{}
	for i, ok := range done {
		if ok {
			l := &letters[i]
			counts[l.Source]++
			in.tell.Changed(action, l.Source, l.EventID, l.Type, l.Destination, l.MessageID)
		}
	}
	for source, n := range counts {
		in.tell.Operated(action, source, n)
	}
}

// Undo makes the letters dead again that a request or job discarded, as they were before; see
// DeadLetters.Operation. For a job, operation is its id or that of its request. Worked.Passed counts
// letters that were replayed, discarded again or pruned since, or that another session had locked. The
// error matches driver.ErrNotFound; driver.ErrTooLate if the last one was discarded more than
// driver.UndoTime ago; or driver.ErrOpen while the job runs. After another error, repeating it is safe.
func (in *Engine) Undo(ctx context.Context, operation string) (Worked, error) {
	undone, err := in.operator.UndoHere(ctx, operation)
	if undone == nil {
		return Worked{}, err
	}
	return Worked{Done: undone.Undone, Passed: undone.Skipped}, err
}

// RetryMessage makes a pending message due at once, and a dead or skipped one due again under its
// id, with a new generation and full attempts. The error matches driver.ErrNotFound; driver.ErrOpen
// for a message that is being sent; driver.ErrSent; or driver.ErrBodyPruned.
func (in *Engine) RetryMessage(ctx context.Context, id string) error {
	if err := in.store.RetryMessage(ctx, &driver.RetryMessageParams{ID: id}); err != nil {
		return fmt.Errorf("hookonce: retry message %q: %w", id, err)
	}
	log := in.log.With(slog.String("message_id", id))
	if page, err := in.store.Messages(ctx, &driver.MessageFilter{MessageID: id}); err == nil && len(page.Messages) == 1 {
		m := &page.Messages[0]
		log = log.With(slog.String("source", m.Source), slog.String("event_id", m.EventID))
		in.tell.Changed(tell.Retried, m.Source, m.EventID, m.Type, m.Destination, m.ID)
	}
	log.Info("message retried")
	in.wakeAll()
	return nil
}

// replayForJob replays an event once for each request id.
func (in *Engine) replayForJob(ctx context.Context, source, eventID string, mode driver.ReplayMode, note, requestID string) error {
	_, err := in.Replay(ctx, &ReplayRequest{Source: source, EventID: eventID, Mode: mode, Note: note, RequestID: requestID})
	return err
}

// workedForJob tells the observer of a job's step, and wakes the relays and workers.
func (in *Engine) workedForJob(action, source string, n int) {
	if action == driver.JobDiscard {
		in.tell.Operated(tell.Discarded, source, n)
		return
	}
	in.tell.Operated(tell.Replayed, source, n)
	in.wakeAll()
}

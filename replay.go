package hookonce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"unicode"
	"unicode/utf8"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/wire"
)

// ReplayRequest says which event is to be replayed, and how.
type ReplayRequest struct {
	Source  string
	EventID string // as shown
	// Mode says under which ids. An event that is dead or skipped needs none,
	// and then keeps its ids; one that is done does.
	Mode driver.ReplayMode
	// RequestID, if it is not "", makes a repetition of the request for the
	// event return what the first one did, and do nothing. At most 255 bytes
	// without control characters.
	RequestID string
}

// Replay makes a finished event owed again, with a new generation and full
// attempts: what of it is dead, or else all of it. An event that no route had
// matched is matched again with the present routes.
//
// The error matches driver.ErrNotFound; driver.ErrOpen for an event that is
// pending or running; driver.ErrBodyPruned; driver.ErrModeNeeded; or
// driver.ErrNoRoute. In all these cases nothing was changed. After
// driver.ErrCommitUnknown a request with a RequestID may be repeated safely.
func (in *Engine) Replay(ctx context.Context, r *ReplayRequest) (*driver.Replayed, error) {
	if err := checkRequestID(r.RequestID); err != nil {
		return nil, err
	}
	detail, err := in.store.Event(ctx, r.Source, r.EventID)
	if err != nil {
		return nil, fmt.Errorf("hookonce: replay: %w", err)
	}
	routes, err := in.owedNow(detail)
	if err != nil {
		return nil, err
	}
	replayed, err := in.store.Replay(ctx, &driver.ReplayParams{
		Key: detail.Key, Mode: r.Mode, Routes: routes, RequestID: r.RequestID,
	})
	if err != nil {
		return nil, fmt.Errorf("hookonce: replay event %q of source %q: %w", r.EventID, r.Source, err)
	}
	if !replayed.Repeated {
		in.log.Info("event replayed", slog.String("source", r.Source), slog.String("event_id", r.EventID),
			slog.Int("generation", replayed.Generation), slog.Int("messages", replayed.Messages))
	}
	in.wakeAll()
	return replayed, nil
}

// ErrRequestID is what Replay returns for a RequestID that it does not take.
var ErrRequestID = errors.New("hookonce: a request id has at most 255 bytes of UTF-8 without control characters")

func checkRequestID(id string) error {
	const maxRequestID = 255
	if len(id) > maxRequestID || !utf8.ValidString(id) {
		return ErrRequestID
	}
	for _, c := range id {
		if unicode.IsControl(c) {
			return ErrRequestID
		}
	}
	return nil
}

// owedNow returns what an event that owed nothing would owe if it arrived now.
func (in *Engine) owedNow(detail *driver.EventDetail) ([]driver.NewMessage, error) {
	src := in.setup.Load().sources[detail.Source]
	if src == nil || len(detail.Messages) > 0 || detail.BodyPruned {
		return nil, nil
	}
	header, err := wire.ParseHeader(detail.Headers)
	if err != nil {
		return nil, fmt.Errorf("hookonce: replay event %q of source %q: stored headers: %w", detail.EventID, detail.Source, err)
	}
	return in.owed(src, detail.Key, &Event{
		Source: detail.Source, ID: detail.EventID, Type: detail.Type,
		OccurredAt: detail.OccurredAt, Header: header, Body: detail.Body,
	}), nil
}

// DeadLetters selects dead letters, for ReplayDead and Discard.
type DeadLetters struct {
	// Filter selects them; State and Limit of it are not looked at. After says
	// where to go on after a call that did not come to the end, see Worked.Next.
	Filter driver.MessageFilter
	// EventIDs and MessageIDs, if there are any, narrow them to those of these
	// events and these messages; Filter.Source says of which source the events
	// are. Filter.After is not looked at then.
	EventIDs   []string
	MessageIDs []string
	// Rate bounds how many are worked on in a time, evenly spaced. Defaults to
	// DefaultReplayRate for ReplayDead, and to Unpaced for Discard.
	Rate Rate
}

// Worked is what became of dead letters.
type Worked struct {
	Done int // how many were replayed, or discarded
	// Passed is how many were not, because they were not dead any more, or
	// another session had locked them. An id of which nothing is dead counts
	// as one.
	Passed int
	// Next is where to go on: zero when all were worked on, or there were ids.
	Next driver.MessageCursor
}

func (w *Worked) add(more *Worked) {
	w.Done, w.Passed, w.Next = w.Done+more.Done, w.Passed+more.Passed, more.Next
}

// ReplayDead makes dead letters due again, under the ids they had, with a new
// generation and full attempts. They are worked on in chunks, each in one
// transaction, newest events first, until all that were dead at the beginning
// are done or ctx ends: then the error is that of ctx, and Worked tells how far
// it came and where to go on. Going on there, and not from the beginning, keeps
// those that are dead again from being replayed before the rest.
func (in *Engine) ReplayDead(ctx context.Context, which *DeadLetters) (Worked, error) {
	worked, err := in.workOn(ctx, which, DefaultReplayRate, in.store.ReplayDead)
	if worked.Done+worked.Passed > 0 {
		in.log.Info("dead letters replayed", slog.Int("replayed", worked.Done), slog.Int("passed", worked.Passed))
		in.wakeAll()
	}
	if err != nil {
		return worked, fmt.Errorf("hookonce: replay dead letters: %w", err)
	}
	return worked, nil
}

// Discard gives dead letters up: they are skipped, with the note
// driver.NoteDiscarded, and their identities stay claimed. It works as
// ReplayDead does.
func (in *Engine) Discard(ctx context.Context, which *DeadLetters) (Worked, error) {
	worked, err := in.workOn(ctx, which, Unpaced, in.store.Discard)
	if worked.Done+worked.Passed > 0 {
		in.log.Info("dead letters discarded", slog.Int("discarded", worked.Done), slog.Int("passed", worked.Passed))
	}
	if err != nil {
		return worked, fmt.Errorf("hookonce: discard dead letters: %w", err)
	}
	return worked, nil
}

type workOnLetters func(context.Context, *driver.DeadLetterParams) ([]bool, error)

func (in *Engine) workOn(ctx context.Context, which *DeadLetters, rate Rate, work workOnLetters) (Worked, error) {
	if err := which.Rate.check(); err != nil {
		return Worked{}, err
	}
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

// workOnFiltered goes through the listing once, from filter.After on. A letter
// that is dead again after its replay lies behind.
func (in *Engine) workOnFiltered(ctx context.Context, filter driver.MessageFilter, pace *limit.Bucket, work workOnLetters) (Worked, error) {
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

// workOnChunk works on the first letters behind filter.After: as many as the pace
// allows, and at most a page.
func (in *Engine) workOnChunk(ctx context.Context, filter *driver.MessageFilter, pace *limit.Bucket, work workOnLetters) (Worked, error) {
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
		return Worked{}, nil
	}
	letters := make([]driver.DeadLetterRef, len(page.DeadLetters))
	for i := range letters {
		letters[i] = driver.DeadLetterRef{Key: page.DeadLetters[i].Key, MessageID: page.DeadLetters[i].MessageID}
	}
	done, err := work(ctx, &driver.DeadLetterParams{Letters: letters})
	if err != nil {
		return Worked{}, err
	}
	worked := Worked{Next: page.Next}
	for _, ok := range done {
		if ok {
			worked.Done++
		} else {
			worked.Passed++
		}
	}
	return worked, nil
}

// RetryMessage makes a pending message due at once, and a dead or skipped one
// due again under its id, with a new generation and full attempts. The error
// matches driver.ErrNotFound; driver.ErrOpen for one that is being sent;
// driver.ErrSent; or driver.ErrBodyPruned.
func (in *Engine) RetryMessage(ctx context.Context, id string) error {
	if err := in.store.RetryMessage(ctx, &driver.RetryMessageParams{ID: id}); err != nil {
		return fmt.Errorf("hookonce: retry message %q: %w", id, err)
	}
	log := in.log.With(slog.String("message_id", id))
	if page, err := in.store.Messages(ctx, &driver.MessageFilter{MessageID: id}); err == nil && len(page.Messages) == 1 {
		m := &page.Messages[0]
		log = log.With(slog.String("source", m.Source), slog.String("event_id", m.EventID))
	}
	log.Info("message retried")
	in.wakeAll()
	return nil
}

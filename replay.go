package hookonce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hookonce/hookonce/driver"
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
func (in *Inbox) Replay(ctx context.Context, r *ReplayRequest) (*driver.Replayed, error) {
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
	in.wakeAllRelays()
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
func (in *Inbox) owedNow(detail *driver.EventDetail) ([]driver.NewMessage, error) {
	src := in.setup.Load().sources[detail.Source]
	if src == nil || len(detail.Messages) > 0 || detail.BodyPruned {
		return nil, nil
	}
	header, err := parseHeader(detail.Headers)
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
	// Filter selects them; State, Limit and After of it are not looked at.
	Filter driver.MessageFilter
	// EventIDs and MessageIDs, if there are any, narrow them to those of these
	// events and these messages; Filter.Source says of which source the events
	// are.
	EventIDs   []string
	MessageIDs []string
	// Rate bounds how many are worked on in a time; the zero value does not.
	Rate Rate
}

// Worked is what became of dead letters.
type Worked struct {
	Done int // how many were replayed, or discarded
	// Passed is how many were not, because they were not dead any more, or
	// another session had locked them. An id of which nothing is dead counts
	// as one.
	Passed int
}

// ReplayDead makes dead letters due again, under the ids they had, with a new
// generation and full attempts. They are worked on in chunks, each in one
// transaction, newest events first, until all that were dead at the beginning
// are done or ctx ends: then the error is that of ctx, Worked tells how far it
// came, and calling it again goes on.
func (in *Inbox) ReplayDead(ctx context.Context, which *DeadLetters) (Worked, error) {
	worked, err := in.workOn(ctx, which, in.store.ReplayDead)
	in.log.Info("dead letters replayed", slog.Int("replayed", worked.Done), slog.Int("passed", worked.Passed))
	in.wakeAllRelays()
	if err != nil {
		return worked, fmt.Errorf("hookonce: replay dead letters: %w", err)
	}
	return worked, nil
}

// Discard gives dead letters up: they are skipped, with the note
// driver.NoteDiscarded, and their identities stay claimed. It works as
// ReplayDead does.
func (in *Inbox) Discard(ctx context.Context, which *DeadLetters) (Worked, error) {
	worked, err := in.workOn(ctx, which, in.store.Discard)
	in.log.Info("dead letters discarded", slog.Int("discarded", worked.Done), slog.Int("passed", worked.Passed))
	if err != nil {
		return worked, fmt.Errorf("hookonce: discard dead letters: %w", err)
	}
	return worked, nil
}

type workOnLetters func(context.Context, *driver.DeadLetterParams) ([]bool, error)

func (in *Inbox) workOn(ctx context.Context, which *DeadLetters, work workOnLetters) (Worked, error) {
	if err := which.Rate.check(); err != nil {
		return Worked{}, err
	}
	pace := newBucket(which.Rate)
	if len(which.EventIDs) == 0 && len(which.MessageIDs) == 0 {
		return in.workOnFiltered(ctx, which.Filter, pace, work)
	}
	var all Worked
	for _, filter := range which.filters() {
		worked, err := in.workOnFiltered(ctx, filter, pace, work)
		if err == nil && worked == (Worked{}) {
			worked.Passed = 1
		}
		all.Done, all.Passed = all.Done+worked.Done, all.Passed+worked.Passed
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
		one.EventID = id
		all = append(all, one)
	}
	for _, id := range d.MessageIDs {
		one := d.Filter
		one.MessageID = id
		all = append(all, one)
	}
	return all
}

// workOnFiltered goes through the listing once. A letter that is dead again
// after its replay lies behind.
func (in *Inbox) workOnFiltered(ctx context.Context, filter driver.MessageFilter, pace *bucket, work workOnLetters) (Worked, error) {
	var worked Worked
	filter.After = driver.MessageCursor{}
	for {
		var err error
		if filter.Limit, err = pace.await(ctx, driver.MaxLimit); err != nil {
			return worked, err
		}
		page, err := in.store.DeadLetters(ctx, &filter)
		if err != nil {
			return worked, err
		}
		pace.giveBack(filter.Limit - len(page.DeadLetters))
		letters := make([]driver.DeadLetterRef, len(page.DeadLetters))
		for i := range letters {
			letters[i] = driver.DeadLetterRef{Key: page.DeadLetters[i].Key, MessageID: page.DeadLetters[i].MessageID}
		}
		if len(letters) > 0 {
			done, err := work(ctx, &driver.DeadLetterParams{Letters: letters})
			if err != nil {
				return worked, err
			}
			for _, ok := range done {
				if ok {
					worked.Done++
				} else {
					worked.Passed++
				}
			}
		}
		if filter.After = page.Next; filter.After.IsZero() {
			return worked, nil
		}
	}
}

// await takes up to n tokens, and waits until there is one.
func (b *bucket) await(ctx context.Context, n int) (int, error) {
	for {
		if got := b.takeUpTo(n, time.Now()); got > 0 {
			return got, nil
		}
		if wait := b.take(time.Now()); wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return 0, ctx.Err()
			}
			continue
		}
		return 1, nil
	}
}

// RetryMessage makes a pending message due at once, and a dead or skipped one
// due again under its id, with a new generation and full attempts. The error
// matches driver.ErrNotFound; driver.ErrOpen for one that is being sent;
// driver.ErrSent; or driver.ErrBodyPruned.
func (in *Inbox) RetryMessage(ctx context.Context, id string) error {
	if err := in.store.RetryMessage(ctx, &driver.RetryMessageParams{ID: id}); err != nil {
		return fmt.Errorf("hookonce: retry message %q: %w", id, err)
	}
	in.log.Info("message retried", slog.String("message_id", id))
	in.wakeAllRelays()
	return nil
}

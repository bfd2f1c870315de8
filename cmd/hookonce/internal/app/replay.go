package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/limit"
)

// EventReplay selects events to replay, one after the other.
type EventReplay struct {
	Filter driver.EventFilter // Limit and After are ignored
	Mode   driver.ReplayMode
	// RequestID makes a second run skip the events that the first run replayed.
	RequestID string
	Rate      hookonce.Rate         // defaults to hookonce.DefaultReplayRate
	Progress  func(*EventsReplayed) // called after each event; may be nil
}

// EventsReplayed counts the outcomes of a replay.
type EventsReplayed struct {
	Replayed int
	Repeated int // replayed earlier by the same request
	Refused  map[*Refusal]int
}

// Total returns the number of processed events.
func (r *EventsReplayed) Total() int {
	total := r.Replayed + r.Repeated
	for _, count := range r.Refused {
		total += count
	}
	return total
}

// Refusal is a reason that refuses one event, and lets the replay of others continue.
type Refusal struct {
	Code   string // for programs
	Reason string // for people, to follow "refused: "
	err    error
}

// Refusals are the reasons that refuse an event.
var Refusals = []*Refusal{
	{"open", "not finished yet", driver.ErrOpen},
	{"body_pruned", "the body is past its retention", driver.ErrBodyPruned},
	{"request_reused", "already replayed in another mode with this request id", driver.ErrRequestReused},
	{"note_needed", "may have taken effect, because the handler ended its transaction: set --note \"" + driver.NoteTxEnded + "\"", driver.ErrNoteNeeded},
	{"mode_needed", "already done: set --as-new or --same-id", driver.ErrModeNeeded},
	{"no_route", "no route of these settings matches", driver.ErrNoRoute},
	{"undecided", "the condition of a route is still undecided", driver.ErrUndecided},
	{"locked", "in use by another session: run this again", driver.ErrLockTimeout},
	{"not_found", "removed in the meantime", driver.ErrNotFound},
}

// ReplayEvents replays the events that match the filter, newest first. If it fails, or ctx ends,
// the result still counts the processed events.
func ReplayEvents(ctx context.Context, store driver.Store, engine *hookonce.Engine, which *EventReplay) (*EventsReplayed, error) {
	result := &EventsReplayed{Refused: make(map[*Refusal]int)}
	rate := cmp.Or(which.Rate, hookonce.DefaultReplayRate)
	pace := limit.NewPace(rate.Count, rate.Per)
	filter := which.Filter
	filter.Limit, filter.After = driver.MaxLimit, driver.Cursor{}
	for {
		page, err := store.Events(ctx, &filter)
		if err != nil {
			return result, fmt.Errorf("listing events: %w", err)
		}
		for i := range page.Events {
			if _, err := pace.Await(ctx, 1); err != nil {
				return result, err
			}
			if err := result.replay(ctx, engine, which, &page.Events[i]); err != nil {
				return result, err
			}
			if which.Progress != nil {
				which.Progress(result)
			}
		}
		if filter.After = page.Next; filter.After.IsZero() {
			return result, nil
		}
	}
}

func (r *EventsReplayed) replay(ctx context.Context, engine *hookonce.Engine, which *EventReplay, ev *driver.Event) error {
	replayed, err := ReplayEvent(ctx, engine, &hookonce.ReplayRequest{
		Source: ev.Source, EventID: ev.EventID, Mode: which.Mode, Note: which.Filter.Note, RequestID: which.RequestID,
	})
	switch {
	case err == nil && replayed.Repeated:
		r.Repeated++
	case err == nil:
		r.Replayed++
	default:
		for _, refusal := range Refusals {
			if errors.Is(err, refusal.err) {
				r.Refused[refusal]++
				return nil
			}
		}
		return err
	}
	return nil
}

// ReplayEvent is Engine.Replay with retries if the commit's outcome is unknown or the database
// aborted the transaction because of a conflict. The RequestID makes that safe, and must not be "".
func ReplayEvent(ctx context.Context, engine *hookonce.Engine, r *hookonce.ReplayRequest) (*driver.Replayed, error) {
	const tries = 3
	for try := 1; ; try++ {
		replayed, err := engine.Replay(ctx, r)
		again := errors.Is(err, driver.ErrCommitUnknown) || errors.Is(err, driver.ErrSerialization)
		if !again || try == tries || ctx.Err() != nil {
			return replayed, err
		}
	}
}

package work

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/stale"
)

// orderReservation keeps reserved events from other workers until their run begins. If the process is killed before that,
// their lines wait this long.
const orderReservation = 5 * time.Second

// prepared holds facts about reserved events before their run. Other events have the zero value.
type prepared struct {
	current map[driver.Key][]byte                // results of Refetch; nil without it
	lines   map[driver.Key]*driver.ObjectVersion // of the events that are in lines; nil without order
}

// admit asks the store which of some reserved events may run now. The others wait for their turn, or are stale: admit
// records that.
func (w *Workers[T]) admit(ctx context.Context, src *Source, reserved []driver.TakenEvent, ready *prepared) ([]driver.TakenEvent, error) {
	if src.Order == nil {
		return reserved, nil
	}
	events, messages := make([]*Event, len(reserved)), make([]driver.OrderedMessage, 0, len(reserved))
	for i := range reserved {
		events[i] = w.newEvent(&reserved[i])
		m := driver.OrderedMessage{MessageLease: driver.Reserved(&reserved[i])}
		if events[i].Unreadable == nil {
			m.Order = src.Order(events[i])
		}
		messages = append(messages, m)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	admitted, err := w.askStore(ctx, events, messages)
	if err != nil {
		return nil, err
	}
	ready.lines = make(map[driver.Key]*driver.ObjectVersion)
	var left []driver.TakenEvent
	for i := range admitted {
		a, ev := &admitted[i], events[i]
		a.Line.Source = ev.Source
		switch a.Verdict {
		case driver.Passed:
			w.skipPassed(ctx, ev, a)
		case driver.Admitted:
			ready.lines[ev.Key] = &a.Line
			left = append(left, reserved[i])
		case driver.Unordered:
			left = append(left, reserved[i])
		case driver.Parked:
		}
	}
	return left, nil
}

// askStore admits events. If single rows are at fault, it tries halves. If another session keeps a row locked, which is no line,
// the source rests, and its events then go one by one.
func (w *Workers[T]) askStore(ctx context.Context, events []*Event, messages []driver.OrderedMessage) ([]driver.Admission, error) {
	admitted, err := w.db.Admit(ctx, &driver.AdmitParams{Messages: messages})
	half := len(messages) / 2
	switch {
	case !driver.FaultOfRows(err):
		return admitted, err
	case half > 0 && errors.Is(err, driver.ErrLockTimeout):
		w.troubles.refuse(takenOf(events))
		return nil, err
	case half > 0:
		first, err := w.askStore(ctx, events[:half], messages[:half])
		if err != nil {
			return nil, err
		}
		second, err := w.askStore(ctx, events[half:], messages[half:])
		if err != nil { // they are due again after their reservation; the first ones run
			about(w.log, takenOf(events[half:])).Warn("events could not be admitted; they are tried again", slog.Any("error", err))
			second = slices.Repeat([]driver.Admission{{Verdict: driver.Parked}}, len(messages)-half)
		}
		return append(first, second...), nil
	}
	w.notAdmitted(ctx, events[0], err)
	return []driver.Admission{{Verdict: driver.Parked}}, nil
}

// notAdmitted deals with an event that the database refuses to admit, as with one whose outcome it refuses: the event rests with
// its source, and fails once it is known to be the reason. It is not, if another session was in the way. The sweep of lines lets
// a line go on behind an event that is dead.
func (w *Workers[T]) notAdmitted(ctx context.Context, ev *Event, err error) {
	if errors.Is(err, driver.ErrLockTimeout) || errors.Is(err, driver.ErrSerialization) {
		about(w.log, takenOf([]*Event{ev})).Warn("a row of an event was locked; it is tried again", slog.Any("error", err))
		return // it is due again after its reservation
	}
	rest, isFault := w.troubles.refuse([]driver.TakenEvent{ev.TakenEvent})
	result := driver.WorkResult{Key: ev.Key, Outcome: driver.WorkPostponed, RetryIn: rest}
	if isFault {
		err = fmt.Errorf("the handler did not run: the database refuses the place of the event in the line of its object: %w", err)
		result = judge(&ev.TakenEvent, w.o.Retry, err)
	}
	result.ReservedUntil = ev.DueAt
	if recordErr := w.db.RecordReserved(ctx, &driver.FinishParams{Results: []driver.WorkResult{result}}); recordErr != nil {
		err = errors.Join(err, recordErr) // it is due again after its reservation
	}
	if isFault {
		w.tellFailure(ev, &result, err)
		return
	}
	about(w.log, []driver.TakenEvent{ev.TakenEvent}).Warn("the order of an event could not be kept; it is tried again",
		slog.Any("error", err), slog.Duration("rest", rest))
}

// takenOf returns events as the store returned them.
func takenOf(events []*Event) []driver.TakenEvent {
	taken := make([]driver.TakenEvent, len(events))
	for i, ev := range events {
		taken[i] = ev.TakenEvent
	}
	return taken
}

// skipPassed records that a higher version of the event's object was applied.
func (w *Workers[T]) skipPassed(ctx context.Context, ev *Event, a *driver.Admission) {
	reason := stale.Reason(&a.Line, &driver.ObjectVersion{Shown: a.Newer})
	err := w.db.RecordReserved(ctx, &driver.FinishParams{Results: []driver.WorkResult{{
		Key: ev.Key, Outcome: driver.WorkStale, Error: reason, ReservedUntil: ev.DueAt, Line: &a.Line,
	}}})
	if err != nil {
		w.log.Warn("recording a stale event failed; it is tried again", slog.String("source", ev.Source),
			slog.String("event_id", ev.EventID), slog.Any("error", err))
		return
	}
	w.Wake(ev.Source)
	w.report(&Observed{Event: ev, Outcome: skipped, Attempt: ev.Attempts + 1})
}

// takeReserved takes events by their keys.
func (w *Workers[T]) takeReserved(ctx context.Context, p *driver.TakeParams, ready *prepared) (driver.Run[T], error) {
	if len(ready.lines) > 0 {
		p.Lines = make([]driver.Key, len(p.Keys))
		for i, key := range p.Keys {
			if line := ready.lines[key]; line != nil {
				p.Lines[i] = line.Object
			}
		}
	}
	run, err := w.take(ctx, p)
	if err != nil || run == nil || len(p.Lines) == 0 {
		return run, err
	}
	return &orderedRun[T]{Run: run, lines: ready.lines, goOn: func() { w.Wake(p.Source) }}, nil
}

// orderedRun is a run with events of lines, which go on with the outcomes.
type orderedRun[T any] struct {
	driver.Run[T]
	lines map[driver.Key]*driver.ObjectVersion
	goOn  func() // after a commit
}

func (r *orderedRun[T]) inLines(p *driver.FinishParams) *driver.FinishParams {
	with := *p
	with.Results = slices.Clone(p.Results)
	for i := range with.Results {
		with.Results[i].Line = r.lines[with.Results[i].Key]
	}
	return &with
}

// Finish implements driver.Run.
func (r *orderedRun[T]) Finish(ctx context.Context, p *driver.FinishParams) error {
	defer r.goOn()
	return r.Run.Finish(ctx, r.inLines(p))
}

// Settle implements driver.Run.
func (r *orderedRun[T]) Settle(ctx context.Context, p *driver.FinishParams) error {
	defer r.goOn()
	return r.Run.Settle(ctx, r.inLines(p))
}

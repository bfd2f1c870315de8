package operate

import (
	"context"
	"errors"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/jobs"
	"github.com/hookonce/hookonce/internal/lifecycle"
)

// Foresee returns the effect that a replay of one event would have now, in a mode without a destination. A
// note that the replay must name counts as named. Refused of the plan has the reason if it would be refused.
func (o *Operator) Foresee(ctx context.Context, event *driver.Event, mode driver.ReplayMode) (*driver.JobPlan, error) {
	var tally jobs.Tally
	if err := o.foresee(mode, "", driver.NoteTxEnded)(ctx, []driver.Event{*event}, &tally); err != nil {
		return nil, err
	}
	plan := &driver.JobPlan{}
	tally.Into(plan)
	return plan, nil
}

// foresee returns a function that adds the effect that a replay of events would have now to a plan.
func (o *Operator) foresee(mode driver.ReplayMode, to, note string) jobs.Foresee {
	return func(ctx context.Context, events []driver.Event, tally *jobs.Tally) error {
		keys := make([]driver.Key, len(events))
		for i := range events {
			keys[i] = events[i].Key
		}
		found, err := o.store.EventParts(ctx, keys)
		if err != nil {
			return err
		}
		parts := make(map[driver.Key]*driver.EventParts, len(found))
		for i := range found {
			parts[found[i].Key] = &found[i]
		}
		for i := range events {
			e := parts[events[i].Key]
			if e == nil {
				continue // it was pruned meanwhile
			}
			p := &driver.ReplayParams{Key: e.Key, Mode: mode, To: to, Note: note}
			if err := o.decide(ctx, p, &events[i], e); errors.Is(err, driver.ErrNotFound) || errors.Is(err, driver.ErrBadRow) {
				tally.Add(e, nil, err)
				continue
			} else if err != nil {
				return err
			}
			for m := range e.Messages {
				e.Messages[m].Leased = false // the job waits for messages in flight
			}
			plan, err := lifecycle.For((*lifecycle.Event)(e), p)
			tally.Add(e, plan, err)
		}
		return nil
	}
}

// decide fills in the routes of p where a replay of e needs them.
func (o *Operator) decide(ctx context.Context, p *driver.ReplayParams, event *driver.Event, e *driver.EventParts) error {
	first := e.Undecided || e.State == "" && len(e.Messages) == 0
	if p.Mode == driver.ReplayTo || p.Mode != driver.ReplayReroute && !first || e.BodyPruned {
		return nil
	}
	detail := &driver.EventDetail{Event: *event, Headers: []byte("{}")}
	if o.opts.Conditional(event.Source) {
		var err error
		if detail, err = o.store.Event(ctx, event.Source, event.EventID); err != nil {
			return err
		}
	}
	return o.opts.Decide(p, detail)
}

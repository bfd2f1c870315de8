package jobs

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/lifecycle"
)

// Foresee adds the effect that a replay of events would have now to a tally.
type Foresee func(ctx context.Context, events []driver.Event, tally *Tally) error

// Tally sums up plans of single replays.
type Tally struct {
	sends, stays, skips counts
	handled             int
	refused             map[string]int
}

// counts counts messages by destination and route.
type counts map[driver.PlanPart]int

func (c *counts) add(destination, route string) {
	if *c == nil {
		*c = counts{}
	}
	to := driver.PlanPart{Destination: destination, Route: route}
	if _, ok := (*c)[to]; ok || len(*c) < driver.MaxPlanNames {
		(*c)[to]++
	}
}

// list returns the counts, the largest first.
func (c counts) list() (all []driver.PlanPart) {
	for part, n := range c {
		part.Messages = n
		all = append(all, part)
	}
	slices.SortFunc(all, func(a, b driver.PlanPart) int {
		return cmp.Or(b.Messages-a.Messages, cmp.Compare(a.Destination, b.Destination), cmp.Compare(a.Route, b.Route))
	})
	return all
}

// Add adds the plan of e, or the error that refuses its replay.
func (t *Tally) Add(e *driver.EventParts, plan *lifecycle.Plan, err error) {
	if err != nil {
		if t.refused == nil {
			t.refused = map[string]int{}
		}
		t.refused[cmp.Or(refusalOf(err), err).Error()]++
		return
	}
	if plan.Event {
		t.handled++
	}
	rerouted := plan.Action == driver.ActionRerouted || plan.Action == driver.ActionSentTo
	for i := range e.Messages {
		switch m := &e.Messages[i]; {
		case slices.Contains(plan.Reset, m.ID):
			t.sends.add(m.Destination, m.Route)
		case slices.Contains(plan.Skip, m.ID):
			t.skips.add(m.Destination, m.Route)
		case rerouted && m.State != driver.StateSkipped:
			t.stays.add(m.Destination, m.Route)
		}
	}
	for _, m := range plan.Add {
		t.sends.add(m.Destination, m.Route)
	}
}

// Into writes the sums to a plan.
func (t *Tally) Into(p *driver.JobPlan) {
	p.Sends, p.Stays, p.Skips = t.sends.list(), t.stays.list(), t.skips.list()
	p.Handled, p.Refused = t.handled, maps.Clone(t.refused)
}

// Package jobs counts and carries out bulk actions on dead letters and events, which the store keeps as
// jobs. Any number of processes run jobs; the lease of a job lets one of them work on it at a time.
package jobs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// Store is the part of driver.Store that jobs need.
type Store interface {
	driver.Jobs
	DeadLetters(ctx context.Context, f *driver.MessageFilter) (*driver.DeadLetterPage, error)
	Events(ctx context.Context, f *driver.EventFilter) (*driver.EventPage, error)
}

// Bounds of a count.
const (
	maxCount  = 100_000
	countTime = 2 * time.Second
)

// Plan counts the rows that a job would change now, up to maxCount and for at most countTime. foresee is for
// events.
func Plan(ctx context.Context, store Store, of string, sel *driver.JobSelection, foresee Foresee) (*driver.JobPlan, error) {
	c := counter{plan: &driver.JobPlan{}, sources: map[string]bool{}, destinations: map[string]bool{}, foresee: foresee}
	limited, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	list := c.letters
	if of == driver.JobOfEvents {
		list = c.events
	}
	for n := range parts(sel) {
		if err := list(limited, store, sel, n); err != nil && (limited.Err() == nil || ctx.Err() != nil) {
			return nil, err
		} else if err != nil {
			c.plan.More = true // the time is over
		}
		if c.plan.More {
			break
		}
	}
	c.tally.Into(c.plan)
	for _, sends := range c.plan.Sends {
		c.destinations[sends.Destination] = true
	}
	c.plan.Sources, c.plan.Destinations = names(c.sources), names(c.destinations)
	return c.plan, nil
}

// counter counts rows for a plan.
type counter struct {
	plan                  *driver.JobPlan
	sources, destinations map[string]bool
	foresee               Foresee
	tally                 Tally
}

// add counts one row. It reports false if there are more than maxCount.
func (c *counter) add(receivedAt time.Time, source, destination string) bool {
	if c.plan.Count == maxCount {
		c.plan.More = true
		return false
	}
	c.plan.Count++
	if c.plan.Oldest == nil || receivedAt.Before(*c.plan.Oldest) {
		c.plan.Oldest = &receivedAt
	}
	if c.plan.Newest == nil || receivedAt.After(*c.plan.Newest) {
		c.plan.Newest = &receivedAt
	}
	for _, in := range []struct {
		names map[string]bool
		name  string
	}{{c.sources, source}, {c.destinations, destination}} {
		if in.name != "" && len(in.names) < driver.MaxPlanNames {
			in.names[in.name] = true
		}
	}
	return true
}

func (c *counter) letters(ctx context.Context, store Store, sel *driver.JobSelection, n int) error {
	filter := letterFilter(sel, n)
	for {
		page, err := store.DeadLetters(ctx, filter)
		if err != nil {
			return err
		}
		for i := range page.DeadLetters {
			if l := &page.DeadLetters[i]; !c.add(l.ReceivedAt, l.Source, l.Destination) {
				return nil
			}
		}
		if filter.After = page.Next; filter.After.IsZero() {
			return nil
		}
	}
}

func (c *counter) events(ctx context.Context, store Store, sel *driver.JobSelection, n int) error {
	filter := eventFilter(sel, n)
	for {
		page, err := store.Events(ctx, filter)
		if err != nil {
			return err
		}
		there := slices.DeleteFunc(slices.Clone(page.Events), func(ev driver.Event) bool { return putAway(sel, &ev) })
		if err := c.foresee(ctx, there, &c.tally); err != nil {
			return err
		}
		c.plan.Discarded += len(page.Events) - len(there)
		for i := range there {
			ev := &there[i]
			if !c.add(ev.ReceivedAt, ev.Source, "") {
				return nil
			}
			if c.plan.States == nil {
				c.plan.States = map[string]int{}
			}
			c.plan.States[ev.State]++
		}
		if filter.After = page.Next; filter.After.IsZero() {
			return nil
		}
	}
}

func names(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }

// named returns the number of events and messages that a selection names.
func named(sel *driver.JobSelection) int {
	return len(sel.EventIDs) + len(sel.MessageIDs) + len(sel.Events)
}

// parts returns the number of filters of a selection: one for each name, or one without names.
func parts(sel *driver.JobSelection) int { return max(named(sel), 1) }

// letterFilter returns the n-th filter of a selection of dead letters.
func letterFilter(sel *driver.JobSelection, n int) *driver.MessageFilter {
	f := &driver.MessageFilter{
		Source: sel.Source, Type: sel.Type, Destination: sel.Destination, Note: sel.Note, Signature: sel.Signature, Text: sel.Text,
		Since: timeOf(sel.Since), Until: timeOf(sel.Until), Limit: driver.MaxLimit,
	}
	messages, events := n-len(sel.EventIDs), n-len(sel.EventIDs)-len(sel.MessageIDs)
	switch {
	case messages < 0:
		f.EventID = sel.EventIDs[n]
	case events < 0:
		f.MessageID = sel.MessageIDs[messages]
	case events < len(sel.Events):
		f.Source, f.EventID = sel.Events[events].Source, sel.Events[events].ID
	}
	return f
}

// eventFilter returns the n-th filter of a selection of events.
func eventFilter(sel *driver.JobSelection, n int) *driver.EventFilter {
	f := &driver.EventFilter{
		Source: sel.Source, Type: sel.Type, Destination: sel.Destination, State: sel.State, Note: sel.Note, Text: sel.Text,
		Since: timeOf(sel.Since), Until: timeOf(sel.Until), Limit: driver.MaxLimit,
	}
	if n < len(sel.EventIDs) {
		f.ID = sel.EventIDs[n]
	}
	return f
}

// putAway reports whether an event was discarded, and the selection does not ask for such events.
func putAway(sel *driver.JobSelection, ev *driver.Event) bool {
	return ev.Note == driver.NoteDiscarded && sel.Note == "" && sel.State == "" && len(sel.EventIDs) == 0
}

func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// place says where a job goes on.
type place struct {
	Part   int    `json:"part"`   // number of the filter, from 0
	Cursor string `json:"cursor"` // in the listing of that filter
}

func (p place) String() string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // it has a number and a string
	}
	return string(text)
}

// parsePlace reads a Job.Cursor; "" is the beginning.
func parsePlace(s string) (p place, err error) {
	if s == "" {
		return p, nil
	}
	if err := json.Unmarshal([]byte(s), &p); err != nil || p.Part < 0 {
		return p, fmt.Errorf("the place %.100q of the job: %w", s, cmp.Or(err, errors.New("the part is negative")))
	}
	return p, nil
}

// next returns the place behind a page that ends at cursor, and false if that was the last one.
func (p place) next(cursor string, parts int) (place, bool) {
	if cursor != "" {
		return place{p.Part, cursor}, true
	}
	return place{Part: p.Part + 1}, p.Part+1 < parts
}

// Package lifecycle decides what becomes of an event that is to be replayed: as
// pure functions of what a store has read under its locks, so that every store
// decides alike.
package lifecycle

import (
	"slices"

	"github.com/hookonce/hookonce/driver"
)

// Event is an event as its store holds it.
type Event struct {
	Key        driver.Key
	BodyPruned bool
	// State is the state of the event's own row, "" where it has none.
	State      string
	Generation int // of the event's own row
	Messages   []Message
}

// Message is a message of an event.
type Message struct {
	ID          string
	Route       string
	Destination string
	State       string
	Generation  int
}

// Plan is what a replay does.
type Plan struct {
	Action     string              // of the history
	Generation int                 // of everything that is due again
	Event      bool                // the event's own row becomes pending, with full attempts
	Reset      []string            // messages that become pending, with full attempts
	Replace    []string            // dead messages that are skipped, because Add replaces them
	Add        []driver.NewMessage // messages to be written
}

// Messages is how many messages are due.
func (p *Plan) Messages() int { return len(p.Reset) + len(p.Add) }

// Replay plans the replay of e. The error is one of driver's.
func Replay(e *Event, mode driver.ReplayMode, routes []driver.NewMessage) (*Plan, error) {
	switch {
	case e.open():
		return nil, driver.ErrOpen
	case e.BodyPruned:
		return nil, driver.ErrBodyPruned
	}
	plan := &Plan{Action: driver.ActionReplayed, Generation: e.generation() + 1}
	event, messages, unsent := e.replayable()
	switch {
	case mode == driver.ReplayAsNew:
		plan.Action = driver.ActionReplayedAsNew
	case mode == driver.ReplaySameID:
		plan.Action = driver.ActionReplayedSameID
	case !unsent:
		return nil, driver.ErrModeNeeded
	}
	plan.Event = event
	for i := range messages {
		plan.message(e.Key, mode, &messages[i])
	}
	if e.State == "" && len(e.Messages) == 0 {
		plan.first(e.Key, mode, routes)
	}
	if !plan.Event && plan.Messages() == 0 {
		return nil, driver.ErrNoRoute
	}
	return plan, nil
}

func (p *Plan) message(key driver.Key, mode driver.ReplayMode, m *Message) {
	if mode != driver.ReplayAsNew {
		p.Reset = append(p.Reset, m.ID)
		return
	}
	if m.State == driver.StateDead {
		p.Replace = append(p.Replace, m.ID)
	}
	// Two dead messages of one route, which retries one by one can leave, are
	// one when they are new: its id is made of the route.
	if slices.ContainsFunc(p.Add, func(added driver.NewMessage) bool { return added.Route == m.Route }) {
		return
	}
	p.Add = append(p.Add, driver.NewMessage{
		ID: driver.MessageID(key, p.Generation, m.Route), Route: m.Route, Destination: m.Destination,
	})
}

// first plans the first messages of an event that no route had matched.
func (p *Plan) first(key driver.Key, mode driver.ReplayMode, routes []driver.NewMessage) {
	generation := 0
	if mode == driver.ReplayAsNew {
		generation = p.Generation
	}
	for _, m := range routes {
		m.ID = driver.MessageID(key, generation, m.Route)
		p.Add = append(p.Add, m)
	}
}

func (e *Event) open() bool {
	return isOpen(e.State) || slices.ContainsFunc(e.Messages, func(m Message) bool { return isOpen(m.State) })
}

func isOpen(state string) bool {
	return state == driver.StatePending || state == driver.StateRunning || state == driver.StateSending
}

func (e *Event) generation() int {
	highest := e.Generation
	for i := range e.Messages {
		highest = max(highest, e.Messages[i].Generation)
	}
	return highest
}

// replayable returns what of e a replay concerns, and whether all of that is
// known not to have been done: the dead parts, or else all of them.
func (e *Event) replayable() (event bool, messages []Message, undone bool) {
	current := e.current()
	dead := slices.DeleteFunc(slices.Clone(current), func(m Message) bool { return m.State != driver.StateDead })
	if e.State == driver.StateDead || len(dead) > 0 {
		return e.State == driver.StateDead, dead, true
	}
	undone = (e.State == driver.StateSkipped || e.State == "" && len(current) > 0) &&
		!slices.ContainsFunc(e.Messages, func(m Message) bool { return m.State != driver.StateSkipped })
	return e.State != "", current, undone
}

// current returns the message of the highest generation of each route. What is
// dead is current in any case, so that nothing dead is out of reach.
func (e *Event) current() []Message {
	highest := make(map[string]int)
	for i := range e.Messages {
		m := &e.Messages[i]
		highest[m.Route] = max(highest[m.Route], m.Generation)
	}
	return slices.DeleteFunc(slices.Clone(e.Messages), func(m Message) bool {
		return m.State != driver.StateDead && m.Generation < highest[m.Route]
	})
}

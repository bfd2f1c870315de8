// Package lifecycle plans the replay of an event. Its functions are pure: a store passes in the
// rows that it read under its locks, so every store decides alike.
package lifecycle

import (
	"slices"

	"github.com/hookonce/hookonce/driver"
)

// Event is an event as read by its store.
type Event struct {
	Key        driver.Key
	BodyPruned bool
	// State is the state of the event's own row, "" if it has none.
	State      string
	Note       string // of the event's own row
	Generation int    // of the event's own row
	Undecided  bool   // it was claimed before its messages were known
	Ended      bool   // discarded, after its handler had ended its transaction
	Queued     bool   // for an undecided event: its claim would have queued it
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

// Plan is the effect of a replay.
type Plan struct {
	Action     string              // for the history
	Generation int                 // of every part that is due again
	Event      bool                // the event's own row becomes pending, with full attempts
	Done       bool                // the event's own row becomes done: it has no work besides Add
	Reset      []string            // messages that become pending, with full attempts
	Replace    []string            // dead or skipped messages that become skipped, because Add replaces them
	Add        []driver.NewMessage // new messages
}

// Messages returns the number of messages that the plan makes due.
func (p *Plan) Messages() int { return len(p.Reset) + len(p.Add) }

// Now is the work that a claim of the event would write at present.
type Now struct {
	Routes    []driver.NewMessage
	Undecided bool // Routes are not known
	Unknown   bool // nothing is known of the source
}

// Replay plans the replay of e that names a note. The error is one of package driver's.
func Replay(e *Event, mode driver.ReplayMode, note string, now *Now) (*Plan, error) {
	switch {
	case e.open():
		return nil, driver.ErrOpen
	case e.BodyPruned:
		return nil, driver.ErrBodyPruned
	case e.txEnded() && note != driver.NoteTxEnded:
		return nil, driver.ErrNoteNeeded
	}
	first := e.Undecided || e.State == "" && len(e.Messages) == 0
	plan := &Plan{Action: Action(mode), Generation: e.generation() + 1}
	event, messages, undone := e.replayable()
	if mode == driver.ReplayPlain && !undone {
		return nil, driver.ErrModeNeeded
	}
	switch {
	case first && now.Undecided:
		return nil, driver.ErrUndecided
	case first && now.Unknown:
		return nil, driver.ErrNoRoute
	}
	plan.Event = event
	for i := range messages {
		plan.message(e.Key, mode, &messages[i])
	}
	if first {
		plan.first(e.Key, mode, now.Routes)
	}
	if e.Undecided {
		plan.Event, plan.Done = e.Queued, !e.Queued
	}
	if !plan.Event && plan.Messages() == 0 {
		return nil, driver.ErrNoRoute
	}
	return plan, nil
}

// Redact returns the generation of e, whose payload is about to be removed. The error is
// driver.ErrOpen if e is not finished.
func Redact(e *Event) (generation int, err error) {
	if e.open() {
		return 0, driver.ErrOpen
	}
	return e.generation(), nil
}

// Action returns the history's name for a replay in a mode.
func Action(mode driver.ReplayMode) string {
	switch mode {
	case driver.ReplayAsNew:
		return driver.ActionReplayedAsNew
	case driver.ReplaySameID:
		return driver.ActionReplayedSameID
	}
	return driver.ActionReplayed
}

func (p *Plan) message(key driver.Key, mode driver.ReplayMode, m *Message) {
	if mode != driver.ReplayAsNew {
		p.Reset = append(p.Reset, m.ID)
		return
	}
	if m.State != driver.StateSent {
		p.Replace = append(p.Replace, m.ID)
	}
	// Retries of single messages can leave two dead messages of one route. As new they are one,
	// because the id is made from the route.
	if slices.ContainsFunc(p.Add, func(added driver.NewMessage) bool { return added.Route == m.Route }) {
		return
	}
	p.Add = append(p.Add, driver.NewMessage{
		ID: driver.MessageID(key, p.Generation, m.Route), Route: m.Route, Destination: m.Destination,
	})
}

// first plans the first messages of an event that matched no route when it was claimed, or whose
// routes were not decided then.
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

// txEnded reports whether a handler of e ended its transaction, so that e may have taken effect.
func (e *Event) txEnded() bool {
	return e.State == driver.StateDead && e.Note == driver.NoteTxEnded || e.State == driver.StateSkipped && e.Ended
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

// replayable returns the parts of e that a replay concerns: the dead parts; if none is dead, all
// parts of a skipped event; otherwise the done parts. undone is true for dead and skipped parts. If
// an event is done except for discarded messages, those stay discarded.
func (e *Event) replayable() (event bool, messages []Message, undone bool) {
	if dead := e.in(driver.StateDead); e.State == driver.StateDead || len(dead) > 0 {
		return e.State == driver.StateDead, dead, true
	}
	skipped := e.in(driver.StateSkipped)
	undone = len(skipped) == len(e.Messages) && (e.State == driver.StateSkipped || e.State == "" && len(skipped) > 0)
	if undone {
		return e.State != "", latest(skipped), true
	}
	return e.State != "", latest(e.in(driver.StateSent)), false
}

// in returns the messages of e in a state.
func (e *Event) in(state string) []Message {
	return slices.DeleteFunc(slices.Clone(e.Messages), func(m Message) bool { return m.State != state })
}

// latest returns the messages of the highest generation of each route.
func latest(messages []Message) []Message {
	highest := make(map[string]int)
	for i := range messages {
		m := &messages[i]
		highest[m.Route] = max(highest[m.Route], m.Generation)
	}
	return slices.DeleteFunc(messages, func(m Message) bool { return m.Generation < highest[m.Route] })
}

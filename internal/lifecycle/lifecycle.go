// Package lifecycle plans the replay of an event. Its functions are pure: a store passes in the
// rows that it read under its locks, so every store decides alike.
package lifecycle

import (
	"slices"

	"github.com/hookonce/hookonce/driver"
)

// Event is an event as read by its store.
type Event driver.EventParts

// Message is a message of an event.
type Message = driver.EventPart

// Plan is the effect of a replay.
type Plan struct {
	Action     string              // for the history
	Generation int                 // of every part that is due again
	Event      bool                // the event's own row becomes pending, with full attempts
	Done       bool                // the event's own row becomes done: it has no work besides Add
	Reset      []string            // messages that become pending, with full attempts
	Replace    []string            // dead or skipped messages that become skipped, because Add replaces them
	Add        []driver.NewMessage // new messages
	Skip       []string            // open or dead messages that become skipped, because no route makes them
	// Mark are sent messages that get driver.NoteRerouted, because no route makes them, and Unmark those
	// that lose it, because a route makes them again.
	Mark, Unmark []string
}

// Messages returns the number of messages that the plan makes due.
func (p *Plan) Messages() int { return len(p.Reset) + len(p.Add) }

// MessageID returns the id of the message that the plan is about alone; "" if it concerns the event.
func (p *Plan) MessageID() string {
	switch {
	case p.Action != driver.ActionSentTo:
		return ""
	case len(p.Reset) > 0:
		return p.Reset[0]
	case len(p.Add) > 0:
		return p.Add[0].ID
	}
	return ""
}

// Changes reports whether the plan changes more than marks, so that the history tells of it.
func (p *Plan) Changes() bool { return p.Event || p.Done || p.Messages()+len(p.Skip) > 0 }

// Replayed returns the result of the plan for e.
func (p *Plan) Replayed(e *Event) driver.Replayed {
	if !p.Changes() {
		return driver.Replayed{Generation: e.generation(), Stayed: true}
	}
	return driver.Replayed{Generation: p.Generation, Messages: p.Messages(), Skipped: len(p.Skip)}
}

// Now is the work that a claim of the event would write at present.
type Now struct {
	Routes    []driver.NewMessage
	Undecided bool // Routes are not known
	Unknown   bool // nothing is known of the source
}

// For plans the replay of e with the parameters p. The error is one of package driver's.
func For(e *Event, p *driver.ReplayParams) (*Plan, error) {
	now := &Now{Routes: p.Routes, Undecided: p.Undecided, Unknown: p.Unknown}
	switch p.Mode {
	case driver.ReplayReroute:
		return Reroute(e, now)
	case driver.ReplayTo:
		return SendTo(e, p.To)
	}
	return Replay(e, p.Mode, p.Note, now)
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
	case e.State == "" && len(e.Messages) > 0 && len(e.active()) == 0:
		return nil, driver.ErrNoRoute
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
		plan.message(e, mode, &messages[i])
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
	case driver.ReplayReroute:
		return driver.ActionRerouted
	case driver.ReplayTo:
		return driver.ActionSentTo
	}
	return driver.ActionReplayed
}

func (p *Plan) message(e *Event, mode driver.ReplayMode, m *Message) {
	if mode != driver.ReplayAsNew {
		p.Reset = append(p.Reset, m.ID)
		return
	}
	if m.State != driver.StateSent {
		p.Replace = append(p.Replace, m.ID)
	}
	// Retries of single messages can leave two dead messages of one route and destination. As new they
	// are one.
	if !slices.ContainsFunc(p.Add, func(added driver.NewMessage) bool { return makes(&added, m) }) {
		p.add(e, p.Generation, m.Route, m.Destination)
	}
}

// makes reports whether m is a message as route makes it.
func makes(route *driver.NewMessage, m *Message) bool {
	return route.Route == m.Route && route.Destination == m.Destination
}

// add plans a new message, whose id is of a generation. A reroute gives one route messages to several
// destinations.
func (p *Plan) add(e *Event, generation int, route, destination string) {
	id := driver.MessageID(e.Key, generation, route)
	taken := slices.ContainsFunc(e.Messages, func(m Message) bool { return m.ID == id }) ||
		slices.ContainsFunc(p.Add, func(m driver.NewMessage) bool { return m.ID == id })
	if taken || route == "" {
		id = driver.MessageIDTo(e.Key, generation, route, destination)
	}
	p.Add = append(p.Add, driver.NewMessage{ID: id, Route: route, Destination: destination})
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
	active := e.active()
	if dead := in(active, driver.StateDead); e.State == driver.StateDead || len(dead) > 0 {
		return e.State == driver.StateDead, dead, true
	}
	skipped := in(active, driver.StateSkipped)
	undone = len(skipped) == len(active) && (e.State == driver.StateSkipped || e.State == "" && len(skipped) > 0)
	if undone {
		return e.State != "", latest(skipped), true
	}
	return e.State != "", latest(in(active, driver.StateSent)), false
}

// active returns the messages of e without those that a reroute found to be of no route.
func (e *Event) active() []Message {
	return slices.DeleteFunc(slices.Clone(e.Messages), func(m Message) bool { return m.Note == driver.NoteRerouted })
}

// in returns the messages in a state.
func in(messages []Message, state string) []Message {
	return slices.DeleteFunc(slices.Clone(messages), func(m Message) bool { return m.State != state })
}

// latest returns the messages of the highest generation of each route and destination.
func latest(messages []Message) []Message {
	highest := make(map[[2]string]int)
	for i := range messages {
		m := &messages[i]
		to := [2]string{m.Route, m.Destination}
		highest[to] = max(highest[to], m.Generation)
	}
	return slices.DeleteFunc(messages, func(m Message) bool { return m.Generation < highest[[2]string{m.Route, m.Destination}] })
}

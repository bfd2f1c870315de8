package lifecycle

import (
	"slices"

	"github.com/hookonce/hookonce/driver"
)

// Reroute plans the replay of e that makes its messages those of its present routes. The error is one of
// package driver's; driver.ErrSending if a message that has to be skipped is being sent.
func Reroute(e *Event, now *Now) (*Plan, error) {
	switch {
	case e.BodyPruned:
		return nil, driver.ErrBodyPruned
	case now.Undecided:
		return nil, driver.ErrUndecided
	case now.Unknown:
		return nil, driver.ErrNoRoute
	case e.Undecided: // it has no messages of routes yet
		plan, err := Replay(e, driver.ReplayPlain, "", now)
		if err == nil {
			plan.Action = driver.ActionRerouted
		}
		return plan, err
	}
	plan := &Plan{Action: driver.ActionRerouted, Generation: e.generation() + 1}
	for i := range e.Messages {
		if err := plan.reroute(&e.Messages[i], now.Routes); err != nil {
			return nil, err
		}
	}
	for i := range now.Routes {
		plan.supply(e, &now.Routes[i])
	}
	if plan.Messages() == 0 {
		plan.Generation = e.generation() // no part is of a later one
	}
	return plan, nil
}

// reroute plans how m changes with the present routes.
func (p *Plan) reroute(m *Message, routes []driver.NewMessage) error {
	isMade := m.Route == "" || slices.ContainsFunc(routes, func(r driver.NewMessage) bool { return makes(&r, m) })
	isMarked := m.Note == driver.NoteRerouted
	switch {
	case isMade && isMarked && m.State == driver.StateSent:
		p.Unmark = append(p.Unmark, m.ID)
	case isMade || isMarked || m.State == driver.StateSkipped:
	case m.State == driver.StateSent:
		p.Mark = append(p.Mark, m.ID)
	case m.Leased:
		return driver.ErrSending
	default:
		p.Skip = append(p.Skip, m.ID)
	}
	return nil
}

// supply plans the message of a route if e has none. One that an earlier reroute skipped is due again.
func (p *Plan) supply(e *Event, route *driver.NewMessage) {
	var skipped *Message
	for i := range e.Messages {
		switch m := &e.Messages[i]; {
		case !makes(route, m):
		case m.Note == driver.NoteReplacedByNew:
		case m.State != driver.StateSkipped || m.Note != driver.NoteRerouted:
			return
		case skipped == nil || skipped.Generation < m.Generation:
			skipped = m
		}
	}
	if skipped != nil {
		p.Reset = append(p.Reset, skipped.ID)
		return
	}
	p.add(e, e.AsNew, route.Route, route.Destination)
}

// SendTo plans the replay that sends e to a destination by its name. The error is one of package driver's.
func SendTo(e *Event, to string) (*Plan, error) {
	switch {
	case e.BodyPruned:
		return nil, driver.ErrBodyPruned
	case e.Undecided: // with a message, a replay would take its routes for decided
		return nil, driver.ErrUndecided
	}
	plan := &Plan{Action: driver.ActionSentTo, Generation: e.generation() + 1}
	id := driver.MessageIDTo(e.Key, e.AsNew, "", to)
	i := slices.IndexFunc(e.Messages, func(m Message) bool { return m.ID == id })
	switch {
	case i < 0:
		plan.Add = []driver.NewMessage{{ID: id, Destination: to}}
	case e.Messages[i].State == driver.StateDead || e.Messages[i].State == driver.StateSkipped:
		plan.Reset = []string{id}
	}
	return plan, nil
}

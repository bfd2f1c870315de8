package lifecycle_test

import (
	"slices"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/lifecycle"
)

// question holds the variable arguments of lifecycle.Replay.
type question struct {
	event    int
	bodyGone bool
	rows     [maxRows]answerable
	mode     driver.ReplayMode
}

type answerable struct {
	state      rowState
	generation uint8
}

// plan is a lifecycle.Plan as sets of rows.
type plan struct {
	ok                   bool
	event                uint8
	mode                 uint8 // a driver.ReplayMode
	generation           uint8
	reset, replaced, add uint8
	request              bool // it serves the operator's request
	clash                bool // it would write the same message twice
}

// plan returns the plan of lifecycle.Replay for event e now.
func (w *world) plan(s *moment, e int, mode driver.ReplayMode) plan {
	q := question{event: e, mode: mode, bodyGone: s.events[e].bodyGone}
	for i := range w.slots {
		if w.slots[i].event == e {
			q.rows[i] = answerable{s.rows[i].state, s.rows[i].generation}
		}
	}
	p, ok := w.plans[q]
	if !ok {
		p = w.ask(&q)
		w.plans[q] = p
	}
	return p
}

func (w *world) ask(q *question) plan {
	ev := &lifecycle.Event{Key: w.keys[q.event], BodyPruned: q.bodyGone}
	for i, m := range q.rows {
		if m.state == absent {
			continue
		}
		state := m.state
		if w.bug == replayOpen && state.open() {
			state = sent
		}
		ev.Messages = append(ev.Messages, lifecycle.Message{
			ID: w.slots[i].id, Route: routeName(w.slots[i].route), Destination: "there",
			State: state.String(), Generation: int(m.generation),
		})
	}
	answer, err := lifecycle.Replay(ev, q.mode, "", &lifecycle.Now{Routes: slices.Clone(w.present)})
	if err != nil {
		return plan{}
	}
	p := plan{ok: true, event: uint8(q.event), mode: uint8(q.mode), generation: uint8(answer.Generation)}
	p.reset, p.replaced = w.rowsOf(answer.Reset), w.rowsOf(answer.Replace)
	for _, m := range answer.Add {
		bit := w.rowsOf([]string{m.ID})
		p.clash = p.clash || p.add&bit != 0
		p.add |= bit
	}
	if w.bug == replayAll && q.mode == driver.ReplaySameID {
		for i, m := range q.rows {
			if m.state != absent {
				p.reset |= 1 << i
			}
		}
	}
	if w.bug == asNewSameID && q.mode == driver.ReplayAsNew {
		return w.asNewUnderOldIDs(p)
	}
	return p
}

func (w *world) rowsOf(ids []string) (set uint8) {
	for _, id := range ids {
		i, ok := w.byID[id]
		if !ok {
			panic("the world has no row for a message in the plan of Replay")
		}
		set |= 1 << i
	}
	return set
}

func (w *world) asNewUnderOldIDs(p plan) plan {
	for i := range w.slots {
		if p.add&(1<<i) != 0 {
			p.reset |= 1 << w.slotOf(w.slots[i].event, w.slots[i].route, 0)
		}
	}
	p.add, p.replaced = 0, 0
	return p
}

// replay is the transaction of Store.Replay: it locks the event, reads, plans and writes. A double
// click of the operator is one request with one id, which may arrive any number of times.
func replay(w *world, s moment, out emit) {
	if w.bug == replayUnlocked {
		writePlan(w, s, out)
	}
	for e := range w.events {
		if !s.events[e].there {
			continue
		}
		if s.clicks > 0 {
			next := s
			next.clicks--
			if s.events[e].requested {
				out(action{step: "replay", event: e, row: -1, note: "the request was already carried out"}, next)
			} else {
				w.replayAs(next, e, driver.ReplayAsNew, true, out)
			}
		}
		if s.replays > 0 {
			next := s
			next.replays--
			for _, mode := range []driver.ReplayMode{driver.ReplayPlain, driver.ReplayAsNew, driver.ReplaySameID} {
				w.replayAs(next, e, mode, false, out)
			}
		}
	}
}

func (w *world) replayAs(s moment, e int, mode driver.ReplayMode, request bool, out emit) {
	p := w.plan(&s, e, mode)
	if !p.ok {
		return // refused: nothing changes
	}
	p.request = request
	if w.bug != replayUnlocked {
		w.carryOut(&s, &p, out)
		return
	}
	for i := range s.planned {
		if !s.planned[i].ok {
			s.planned[i] = p
			out(action{step: "replay", event: e, row: -1, note: "read and planned"}, s)
			return
		}
	}
}

// carryOut writes the plan p.
func (w *world) carryOut(s *moment, p *plan, out emit) {
	a := action{step: "replay", event: int(p.event), row: -1, mode: driver.ReplayMode(p.mode), clash: p.clash}
	a.note = []string{"under the same ids", "as new", "with --same-id"}[p.mode]
	for i := range w.slots {
		m, bit := &s.rows[i], uint8(1)<<i
		switch {
		case p.reset&bit != 0:
			m.again(p.generation)
			if w.bug == tokenReset {
				m.token = 0
			}
		case p.replaced&bit != 0:
			m.state = skipped
		case p.add&bit != 0:
			a.clash = a.clash || m.state != absent
			*m = row{delivered: m.delivered, token: m.token}
			m.again(p.generation)
		}
	}
	if p.request {
		e := &s.events[p.event]
		e.requested = true
		e.byRequest++
		a.note += ", by request"
	}
	out(a, *s)
}

// writePlan is the second half of replayUnlocked.
func writePlan(w *world, s moment, out emit) {
	for i := range s.planned {
		if p := s.planned[i]; p.ok {
			next := s
			next.planned[i] = plan{}
			w.carryOut(&next, &p, out)
		}
	}
}

// replayDead is the transaction of Store.ReplayDead on one dead letter.
func replayDead(w *world, s moment, out emit) {
	w.letter(s, "replay dead", dead, out, func(m *row, generation uint8) { m.again(generation) })
}

// retry is the transaction of Store.RetryMessage. For a pending message it changes nothing here,
// because the model may lease every pending message. A dead message is the case of replayDead.
func retry(w *world, s moment, out emit) {
	w.letter(s, "retry", skipped, out, func(m *row, generation uint8) { m.again(generation) })
}

// discard is the transaction of Store.Discard on one dead letter.
func discard(w *world, s moment, out emit) {
	w.letter(s, "discard", dead, out, func(m *row, _ uint8) { m.state = skipped })
}

// letter applies do to one message in state from.
func (w *world) letter(s moment, step string, from rowState, out emit, do func(m *row, generation uint8)) {
	if s.letters == 0 {
		return
	}
	s.letters--
	for i := range w.slots {
		e := w.slots[i].event
		if s.rows[i].state != from || s.events[e].bodyGone {
			continue
		}
		next := s
		do(&next.rows[i], w.generation(&s, e)+1)
		if step == "discard" && w.bug == discardFrees {
			w.remove(&next, e, true)
		}
		out(w.on(step, i, -1, "done"), next)
	}
}

// growOld makes an event older than the retention, then older than the dedupe window. No request
// takes that long.
func growOld(w *world, s moment, out emit) {
	for e := range w.events {
		if a := s.events[e].age; a == unborn || a >= w.oldest || s.receives(e) {
			continue
		}
		next := s
		next.events[e].age++
		out(action{step: "grow old", event: e, row: -1, note: "older than its retention or its window"}, next)
	}
}

// receives reports whether a delivery of event e is under way.
func (s *moment) receives(e int) bool {
	for _, q := range s.requests {
		if q.phase != noRequest && int(q.event) == e {
			return true
		}
	}
	return false
}

// prune is the transaction that removes an event with all its rows.
func prune(w *world, s moment, out emit) {
	for e := range w.events {
		due := s.events[e].age == pastWindow || w.bug == earlyPrune && s.events[e].age == pastRetention
		if !s.events[e].there || !due || !w.finished(&s, e) && w.bug != pruneAny {
			continue
		}
		next := s
		w.remove(&next, e, w.bug != pruneEventOnly)
		out(action{step: "prune", event: e, row: -1, note: "removed with all its rows"}, next)
	}
}

// remove removes event e. If the removal is allowed, its identity becomes free and all promises
// about it end.
func (w *world) remove(s *moment, e int, all bool) {
	right := s.events[e].age == pastWindow && w.finished(s, e)
	s.events[e].there = false
	for i := range w.slots {
		if w.slots[i].event == e && all {
			s.disown(i)
			// If the event is claimed again, its tokens start from the current time, so they exceed
			// all earlier ones.
			s.rows[i] = row{token: s.rows[i].token}
			if w.bug == tokenRestart {
				s.rows[i] = row{}
			}
		}
	}
	if !right {
		return
	}
	s.events[e] = identity{}
	s.emptying &^= 1 << e
	for q := range s.requests {
		if s.requests[q].phase != noRequest && int(s.requests[q].event) == e {
			s.requests[q] = request{} // a copy that arrived after the window: its 2xx promises nothing more
		}
	}
}

// lookForBodies is the snapshot of the statement that removes bodies.
func lookForBodies(w *world, s moment, out emit) {
	for e := range w.events {
		ev := &s.events[e]
		if ev.there && !ev.bodyGone && ev.age >= pastRetention && s.emptying&(1<<e) == 0 && w.finished(&s, e) {
			next := s
			next.emptying |= 1 << e
			out(action{step: "look for bodies", event: e, row: -1, note: "its body may be removed"}, next)
		}
	}
}

// empty removes a body under the event's lock, if that is still allowed.
func empty(w *world, s moment, out emit) {
	for e := range w.events {
		if s.emptying&(1<<e) == 0 {
			continue
		}
		s.emptying &^= 1 << e
		note := "the body stays"
		if w.finished(&s, e) || w.bug == emptyBySnapshot {
			s.events[e].bodyGone, note = true, "the body is removed"
		}
		out(action{step: "empty", event: e, row: -1, note: note}, s)
	}
}

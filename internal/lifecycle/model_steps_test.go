package lifecycle_test

import "github.com/hookonce/hookonce/driver"

// action describes a step.
type action struct {
	step  string
	event int
	row   int
	relay int
	note  string
	mode  driver.ReplayMode
	clash bool // the step would write a message that already exists
}

// on returns an action for row i.
func (w *world) on(step string, i, relay int, note string) action {
	return action{step: step, event: w.slots[i].event, row: i, relay: relay, note: note}
}

type emit func(action, moment)

// step is one kind of event in the model. run emits every possible outcome of the step at a moment.
type step struct {
	name string
	run  func(w *world, s moment, out emit)
}

// steps are the steps of the protocol.
var steps = []step{
	{"deliver", deliver},
	{"answer", answer},
	{"reopen", reopen},
	{"lease", lease},
	{"expire", expire},
	{"send", send},
	{"complete", complete},
	{"release", release},
	{"kill", kill},
	{"replay", replay},
	{"replay dead", replayDead},
	{"retry", retry},
	{"discard", discard},
	{"grow old", growOld},
	{"prune", prune},
	{"look for bodies", lookForBodies},
	{"empty", empty},
}

// deliver is the claim of one copy: the statement of Store.Claim. It tells the gateway whether the
// event was new, a duplicate, or dead.
func deliver(w *world, s moment, out emit) {
	if s.requests[0].phase == ackedTooSoon || s.requests[1].phase == ackedTooSoon {
		claimAfterAck(w, s, out)
	}
	if s.copies == 0 {
		return
	}
	s.copies--
	for e := range w.events {
		if w.bug == ackEarly {
			next := s
			if next.receive(request{ackedTooSoon, uint8(e)}) {
				next.events[e].acked = true
				out(action{step: "deliver", event: e, row: -1, note: "answered 200, not claimed yet"}, next)
			}
			continue
		}
		refused, note := s, "commit unknown, not made: 503"
		if w.bug == ackUnknown {
			refused.events[e].acked, note = true, "commit unknown, not made: 200"
		}
		out(action{step: "deliver", event: e, row: -1, note: note}, refused)
		for _, known := range []bool{false, true} {
			next := s
			next.claim(w, e, known, out)
		}
	}
}

// claim commits the claim of event e. known is false if the gateway never learns of the commit,
// because the answer was lost or it was killed. Then the sender gets no 2xx.
func (s moment) claim(w *world, e int, known bool, out emit) {
	a := action{step: "deliver", event: e, row: -1, note: "claimed"}
	if s.events[e].there {
		a.note = "duplicate"
	} else {
		s.events[e] = identity{there: true, age: fresh, acked: s.events[e].acked}
		for i := range w.slots {
			if w.slots[i].event == e && w.slots[i].generation == 0 && !w.later {
				a.clash = a.clash || s.rows[i].state != absent
				s.rows[i] = row{state: pending, token: s.rows[i].token}
			}
		}
	}
	if !known {
		a.note += "; commit unknown: 503"
	} else {
		phase := mustAnswer
		if w.isDead(&s, e) {
			phase, a.note = mustReopen, "duplicate of a dead event"
		}
		if !s.receive(request{phase, uint8(e)}) {
			return
		}
	}
	out(a, s)
}

// claimAfterAck is the claim of ackEarly, which comes after its answer.
func claimAfterAck(w *world, s moment, out emit) {
	for q := range s.requests {
		if s.requests[q].phase == ackedTooSoon {
			next, e := s, int(s.requests[q].event)
			next.requests[q] = request{}
			out(action{step: "deliver", event: e, row: -1, note: "killed before the claim"}, next)
			next.claim(w, e, false, out)
		}
	}
}

// receive accepts a request if there is room for one.
func (s *moment) receive(q request) bool {
	for i := range s.requests {
		if s.requests[i].phase == noRequest {
			s.requests[i] = q
			return true
		}
	}
	return false
}

// answer is the 2xx of a gateway with a confirmed claim. A gateway that is killed before is like
// one with an unconfirmed claim.
func answer(w *world, s moment, out emit) {
	for q := range s.requests {
		if s.requests[q].phase == mustAnswer {
			next, e := s, int(s.requests[q].event)
			next.requests[q] = request{}
			next.events[e].acked = true
			out(action{step: "answer", event: e, row: -1, note: "200"}, next)
		}
	}
}

// reopen is the statement of Store.Reopen, for a duplicate of a dead event.
func reopen(w *world, s moment, out emit) {
	for q := range s.requests {
		if s.requests[q].phase != mustReopen {
			continue
		}
		next, e := s, int(s.requests[q].event)
		a := action{step: "reopen", event: e, row: -1, note: "commit unknown, not made: 503"}
		next.requests[q] = request{}
		out(a, next)
		a.note = "it is no longer dead"
		if w.isDead(&next, e) {
			a.note = "its dead messages are due again"
			w.revive(&next, e)
		}
		next.requests[q] = request{mustAnswer, uint8(e)}
		out(a, next)
		next.requests[q] = request{}
		a.note += "; commit unknown: 503"
		out(a, next)
	}
}

func (w *world) revive(s *moment, e int) {
	generation := w.generation(s, e) + 1
	for i := range w.slots {
		if w.slots[i].event != e || s.rows[i].state != dead {
			continue
		}
		if w.bug == reopenNewID {
			s.rows[i].state = skipped
			s.rows[w.slotOf(e, w.slots[i].route, generation)].again(generation)
			continue
		}
		s.rows[i].again(generation)
	}
}

func (w *world) slotOf(e, route int, generation uint8) int {
	for i := range w.slots {
		if w.slots[i].event == e && w.slots[i].route == route && w.slots[i].generation == generation {
			return i
		}
	}
	panic("the world has no slot for that generation")
}

// lease is the statement of Store.Lease on one message. All relays are alike, and idle ones are
// sorted first, so the first one stands for every idle relay.
func lease(w *world, s moment, out emit) {
	if w.bug == blindSweep {
		sweep(w, s, out)
	}
	if w.bug == blindLease {
		writeLease(w, s, out)
	}
	if s.relays[maxRelays-w.relays].phase != idle {
		return
	}
	const r = 0
	for i := range w.slots {
		m := s.rows[i]
		if m.state != pending && (m.state != sending || !m.expired || w.bug == noTakeover || w.bug == blindSweep) {
			continue
		}
		next := s
		switch {
		case m.attempts >= w.attempts && w.bug != noLimit:
			next.disown(i)
			next.rows[i].state, next.rows[i].expired = dead, false
			out(w.on("lease", i, -1, "no attempts left: dead"), next)
		case w.bug == blindLease:
			next.relays[r] = relay{phase: looking, row: uint8(i), token: m.token, attempt: m.attempts, generation: m.generation}
			out(w.on("lease", i, -1, "read as due"), next)
		default:
			next.take(r, i, m.attempts+1, m.token+1)
			out(w.on("lease", i, r, "leased"), next)
		}
	}
}

// take gives row i to relay r.
func (s *moment) take(r, i int, attempt, token uint8) {
	s.disown(i)
	m := &s.rows[i]
	m.state, m.attempts, m.token, m.expired = sending, attempt, token, false
	s.relays[r] = relay{phase: leased, row: uint8(i), token: token, attempt: attempt, generation: m.generation}
}

// writeLease is the second half of blindLease.
func writeLease(w *world, s moment, out emit) {
	for r := range s.relays {
		if l := s.relays[r]; l.phase == looking {
			next := s
			next.take(r, int(l.row), l.attempt+1, l.token+1)
			out(w.on("lease", int(l.row), r, "written"), next)
		}
	}
}

// sweep is the sweeper of blindSweep. It replaces the lease that takes over.
func sweep(w *world, s moment, out emit) {
	for i := range w.slots {
		next, bit := s, uint8(1)<<i
		if s.swept&bit != 0 {
			next.swept &^= bit
			next.rows[i].state, next.rows[i].expired = pending, false
			out(w.on("lease", i, -1, "swept"), next)
		} else if s.rows[i].expired {
			next.swept |= bit
			out(w.on("lease", i, -1, "the sweep reads the expired lease"), next)
		}
	}
}

// expire is the passing of time, possible at any moment.
func expire(w *world, s moment, out emit) {
	for i := range w.slots {
		if s.rows[i].state == sending && !s.rows[i].expired {
			next := s
			next.rows[i].expired = true
			out(w.on("expire", i, -1, "the lease expired"), next)
		}
	}
}

// send is one attempt. The destination may do anything, and does not know whether the lease still
// holds.
func send(w *world, s moment, out emit) {
	for r := range s.relays {
		l := s.relays[r]
		if l.phase != leased {
			continue
		}
		failed := mustRetry
		if l.attempt >= w.attempts {
			failed = mustBury
		}
		i := int(l.row)
		next := s
		next.relays[r].phase = failed
		out(w.on("send", i, r, "refused"), next)
		if failed != mustBury {
			next.relays[r].phase = mustBury
			out(w.on("send", i, r, "refused for good"), next)
		}
		m := &next.rows[i]
		if m.state != absent {
			m.delivered = true
			m.taken = m.taken || l.generation == m.generation
		}
		next.relays[r].phase = hasSent
		out(w.on("send", i, r, "delivered"), next)
		next.relays[r].phase = failed
		out(w.on("send", i, r, "delivered, answer lost"), next)
	}
}

// complete is the statement of Store.Complete. A relay that does not learn the outcome completes
// again.
func complete(w *world, s moment, out emit) {
	for r := range s.relays {
		l := s.relays[r]
		if l.phase < hasSent {
			continue
		}
		i := int(l.row)
		a := w.on("complete", i, r, "fenced: nothing changes")
		next := s
		if w.holds(&l, &s.rows[i]) {
			m := &next.rows[i]
			next.disown(i)
			m.expired = false
			switch l.phase {
			case hasSent:
				m.state, a.note = sent, "sent"
			case mustRetry:
				m.state, a.note = pending, "due again"
			case mustBury:
				m.state, a.note = dead, "dead"
			}
		}
		unheard := next
		next.relays[r] = relay{}
		out(a, next)
		a.note += "; commit unknown, so it repeats"
		out(a, unheard)
	}
}

// holds is the condition of Complete and Release.
func (w *world) holds(l *relay, m *row) bool {
	switch w.bug {
	case completeByID:
		return m.state != absent
	case completeByState:
		return m.state == sending
	}
	return m.state == sending && m.token == l.token
}

// release is the statement of Store.Release, for a relay that stops.
func release(w *world, s moment, out emit) {
	if s.releases == 0 {
		return
	}
	s.releases--
	for r := range s.relays {
		l := s.relays[r]
		if l.phase != leased {
			continue
		}
		i := int(l.row)
		a := w.on("release", i, r, "fenced: nothing changes")
		next := s
		if w.holds(&l, &s.rows[i]) {
			next.disown(i)
			m := &next.rows[i]
			m.state, m.attempts, m.expired = pending, m.attempts-1, false
			a.note = "the attempt does not count"
		}
		next.relays[r] = relay{}
		out(a, next)
	}
}

// kill ends a relay at any point; it restarts at once.
func kill(w *world, s moment, out emit) {
	for r := range s.relays {
		if s.relays[r].phase != idle {
			next := s
			next.relays[r] = relay{}
			out(w.on("kill", int(s.relays[r].row), r, "killed and restarted"), next)
		}
	}
}

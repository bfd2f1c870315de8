package lifecycle_test

import (
	"github.com/hookonce/hookonce/driver"
)

// rule is a promise. It looks at one step: what was, what was done on whose
// authority, and what is. It does not ask how the step decided.
type rule struct {
	name  string
	keeps func(w *world, a *action, was, is *moment) bool
}

const (
	nothingLost   = "what was acknowledged is there, with all it owes, until its window has passed"
	claimedOnce   = "an identity is claimed once within its window"
	finishedStays = "what is finished is left only by replay, reopening, retry or discard, and then for a new generation"
	fenced        = "who does not hold the last lease changes nothing"
	undisturbed   = "what is being sent under a lease that holds is nobody else's to change"
	oneHolder     = "two processes never hold the current token"
	onlyGrow      = "tokens and generations only grow"
	stableID      = "an id is made by a claim, or by a replay as new, which makes one that no destination has seen"
	sentIsSent    = "what is sent was taken by its destination, under its id and in its generation"
	oneGeneration = "a double click of a replay makes one generation"
	rightReplay   = "a replay makes due what is dead, or else one message of each route; a plain one nothing that was sent"
	bodyOwed      = "what is owed has its body"
	ownEvent      = "a message has its event"
	limited       = "attempts stay within their limit"

	// reachesEnd is about all moments that can be reached, so explore
	// checks it apart.
	reachesEnd = "from everywhere a moment can be reached in which nothing is open"
)

var rules = []rule{
	{nothingLost, func(w *world, _ *action, _, is *moment) bool {
		for e := range w.events {
			if is.events[e].acked && !is.events[e].there {
				return false
			}
		}
		return w.every(is, func(i int, m *row) bool {
			ev := &is.events[w.slots[i].event]
			owed := ev.acked && w.slots[i].generation == 0 && !w.later
			return !owed || m.state != absent
		})
	}},
	{claimedOnce, func(_ *world, a *action, was, is *moment) bool {
		if a.step != "deliver" || was.events[a.event].there || !is.events[a.event].there {
			return true
		}
		return was.events[a.event].age == unborn || was.events[a.event].age == pastWindow
	}},
	{finishedStays, func(w *world, a *action, was, is *moment) bool {
		return w.every(is, func(i int, m *row) bool {
			before := &was.rows[i]
			if !before.state.finished() || m.state == before.state {
				return true
			}
			switch a.step {
			case "prune":
				return m.state == absent && before.state != dead
			case "discard":
				return before.state == dead && m.state == skipped
			case "replay":
				if a.mode == driver.ReplayAsNew {
					return before.state == dead && m.state == skipped
				}
				return m.state == pending && m.generation > before.generation
			case "reopen", "replay dead":
				return before.state == dead && m.state == pending && m.generation > before.generation
			case "retry":
				return before.state == skipped && m.state == pending && m.generation > before.generation
			}
			return false
		})
	}},
	{fenced, func(_ *world, a *action, was, is *moment) bool {
		if a.step != "complete" && a.step != "release" {
			return true
		}
		return !was.relays[a.relay].stale || was.rows == is.rows
	}},
	{undisturbed, func(w *world, a *action, was, is *moment) bool {
		return w.every(is, func(i int, m *row) bool {
			before := &was.rows[i]
			if before.state != sending || before.expired || m.state == sending && m.token == before.token {
				return true
			}
			l := relay{}
			if a.relay >= 0 {
				l = was.relays[a.relay]
			}
			return (a.step == "complete" || a.step == "release") && int(l.row) == i && l.token == before.token
		})
	}},
	{oneHolder, func(_ *world, _ *action, _, is *moment) bool {
		l, m := &is.relays[0], &is.relays[1]
		if l.phase < leased || m.phase < leased || l.row != m.row || l.token != m.token {
			return true
		}
		now := &is.rows[l.row]
		return now.state != sending || now.token != l.token
	}},
	{onlyGrow, func(w *world, a *action, was, is *moment) bool {
		return w.every(is, func(i int, m *row) bool {
			before := &was.rows[i]
			leasedNow := a.step == "lease" && a.row == i && a.relay >= 0
			return before.state == absent || m.state == absent ||
				m.token >= before.token && m.generation >= before.generation && (!leasedNow || m.token > before.token)
		})
	}},
	{stableID, func(w *world, a *action, was, is *moment) bool {
		return !a.clash && w.every(is, func(i int, m *row) bool {
			before := &was.rows[i]
			if a.mode == driver.ReplayAsNew && m.state == pending && before.state != pending {
				return before.state == absent && w.slots[i].generation == m.generation && !m.delivered
			}
			if before.state != absent || m.state == absent {
				return true
			}
			return w.slots[i].generation == 0 && (a.step == "deliver" || a.step == "replay" && w.later)
		})
	}},
	{sentIsSent, func(w *world, _ *action, _, is *moment) bool {
		return w.every(is, func(_ int, m *row) bool { return m.state != sent || m.taken && m.delivered })
	}},
	{oneGeneration, func(w *world, _ *action, _, is *moment) bool {
		for e := range w.events {
			if is.events[e].byRequest > 1 {
				return false
			}
		}
		return true
	}},
	{rightReplay, func(w *world, a *action, was, is *moment) bool {
		if a.step != "replay" || was.rows == is.rows {
			return true
		}
		return w.replaysRight(a, was, is)
	}},
	{bodyOwed, func(w *world, _ *action, _, is *moment) bool {
		return w.every(is, func(i int, m *row) bool {
			return !m.state.open() && m.state != dead || !is.events[w.slots[i].event].bodyGone
		})
	}},
	{ownEvent, func(w *world, _ *action, _, is *moment) bool {
		return w.every(is, func(i int, m *row) bool {
			return m.state == absent || is.events[w.slots[i].event].there
		})
	}},
	{limited, func(w *world, _ *action, _, is *moment) bool {
		return w.every(is, func(_ int, m *row) bool {
			return m.attempts <= w.attempts && (m.state != sending || m.attempts > 0)
		})
	}},
}

func (w *world) replaysRight(a *action, was, is *moment) bool {
	anyDead := w.isDead(was, a.event)
	due := make([]int, w.routes)
	for i := range w.slots {
		before, now := was.rows[i].state, is.rows[i].state
		switch {
		case w.slots[i].event != a.event:
			continue
		case now == dead:
			return false
		case now != pending || before == pending:
			continue
		case anyDead && before != dead && before != absent, a.mode == driver.ReplayPlain && before == sent:
			return false
		}
		due[w.slots[i].route]++
	}
	for route, n := range due {
		// What was discarded of an event that is done besides stays discarded.
		if want := w.wantedOf(was, a.event, route); !anyDead && n != want {
			return false
		}
	}
	return true
}

// wantedOf returns how many messages of a route a replay of an event makes due of
// which nothing is dead.
func (w *world) wantedOf(was *moment, event, route int) int {
	done, discarded := false, false
	for i := range w.slots {
		if w.slots[i].event == event {
			done = done || was.rows[i].state == sent
		}
		if w.slots[i].event == event && w.slots[i].route == route {
			if was.rows[i].state == sent {
				return 1
			}
			discarded = discarded || was.rows[i].state == skipped
		}
	}
	if done && discarded {
		return 0
	}
	return 1
}

// every reports whether all rows of w keep to something.
func (w *world) every(is *moment, keeps func(i int, m *row) bool) bool {
	for i := range w.slots {
		if !keeps(i, &is.rows[i]) {
			return false
		}
	}
	return true
}

// quiet reports whether nothing is open and nobody is at work.
func (w *world) quiet(s *moment) bool {
	return s.requests == [maxRequests]request{} && s.relays == [maxRelays]relay{} &&
		w.every(s, func(_ int, m *row) bool { return !m.state.open() })
}

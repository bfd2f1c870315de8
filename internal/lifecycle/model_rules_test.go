package lifecycle_test

import (
	"github.com/hookonce/hookonce/driver"
)

// rule is a guarantee. It judges one step by the moment before, the action and the moment after. It
// does not look at how the step decided.
type rule struct {
	name  string
	keeps func(w *world, a *action, was, is *moment) bool
}

const (
	nothingLost   = "an acknowledged event is kept with all its messages until its window has passed"
	claimedOnce   = "an identity is claimed at most once within its window"
	finishedStays = "a finished message changes only by replay, reopening or retry into a new generation, by discard, or by pruning"
	fenced        = "a relay that does not hold the latest lease changes nothing"
	undisturbed   = "only the holder of a valid lease changes its message"
	oneHolder     = "two processes never hold the current token at the same time"
	onlyGrow      = "tokens and generations only grow"
	stableID      = "only a claim or a replay as new makes an id, and no destination has seen the new id of a replay"
	sentIsSent    = "the destination of a sent message accepted it, under its id and in its generation"
	oneGeneration = "a double click of a replay makes one generation"
	rightReplay   = "a replay makes the dead messages due, or, if none is dead, one message of each route; a plain one never makes a sent message due"
	bodyKept      = "an open or dead message has its body"
	ownEvent      = "a message has its event"
	limited       = "attempts stay within their limit"

	// reachesEnd concerns all reachable moments, so stuck checks it, not the rules.
	reachesEnd = "every moment can still lead to a moment without open work"
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
			promised := ev.acked && w.slots[i].generation == 0 && !w.later
			return !promised || m.state != absent
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
	{bodyKept, func(w *world, _ *action, _, is *moment) bool {
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
		// If an event is done except for discarded messages, those stay discarded.
		if want := w.wantedOf(was, a.event, route); !anyDead && n != want {
			return false
		}
	}
	return true
}

// wantedOf returns the number of messages of a route that a replay makes due, if no message of the
// event is dead.
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

// every reports whether keeps is true for all rows of w.
func (w *world) every(is *moment, keeps func(i int, m *row) bool) bool {
	for i := range w.slots {
		if !keeps(i, &is.rows[i]) {
			return false
		}
	}
	return true
}

// quiet reports whether no work is open and no process is active.
func (w *world) quiet(s *moment) bool {
	return s.requests == [maxRequests]request{} && s.relays == [maxRelays]relay{} &&
		w.every(s, func(_ int, m *row) bool { return !m.state.open() })
}

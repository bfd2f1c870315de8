package storetest

import (
	"time"

	"github.com/hookonce/hookonce/driver"
)

// refusedAll is a shape whose replay is refused in every mode.
func refusedAll(err error, s shape) shape {
	s.plain, s.asNew, s.sameID = outcome{err: err}, outcome{err: err}, outcome{err: err}
	return s
}

// modeNeeded is the result of a plain replay of a done event.
var modeNeeded = outcome{err: driver.ErrModeNeeded}

// extra lists routes that match at the replay but not at the claim.
var extra = []string{"x", "y"}

func routedShapes() []shape {
	return []shape{
		{
			name: "AllSent", routes: []string{"a", "b"}, given: extra,
			live:  func(l *life) { l.sent("a b") },
			plain: modeNeeded, asNew: outcome{generation: 1, add: "a#1 b#1"}, sameID: outcome{generation: 1, reset: "a b"},
		},
		{
			name: "OneDeadOneSent", routes: []string{"a", "b"}, given: extra,
			live:   func(l *life) { l.sent("a"); l.died("b") },
			plain:  outcome{generation: 1, reset: "b"},
			asNew:  outcome{generation: 1, add: "b#1", replaced: "b"},
			sameID: outcome{generation: 1, reset: "b"},
		},
		{
			name: "AllDead", routes: []string{"a", "b"}, given: []string{"a"},
			live:   func(l *life) { l.died("a b") },
			plain:  outcome{generation: 1, reset: "a b"},
			asNew:  outcome{generation: 1, add: "a#1 b#1", replaced: "a b"},
			sameID: outcome{generation: 1, reset: "a b"},
		},
		{
			name: "AllDiscarded", routes: []string{"a", "b"}, given: extra,
			live:   func(l *life) { l.died("a b"); l.discarded("a b") },
			plain:  outcome{generation: 1, reset: "a b"},
			asNew:  outcome{generation: 1, add: "a#1 b#1", replaced: "a b"},
			sameID: outcome{generation: 1, reset: "a b"},
		},
		{
			name: "OneDiscardedOneSent", routes: []string{"a", "b"},
			live:  func(l *life) { l.sent("a"); l.died("b"); l.discarded("b") },
			plain: modeNeeded, asNew: outcome{generation: 1, add: "a#1"}, sameID: outcome{generation: 1, reset: "a"},
		},
		{
			name: "OneDiscardedOneDead", routes: []string{"a", "b"},
			live:   func(l *life) { l.died("a b"); l.discarded("b") },
			plain:  outcome{generation: 1, reset: "a"},
			asNew:  outcome{generation: 1, add: "a#1", replaced: "a"},
			sameID: outcome{generation: 1, reset: "a"},
		},
		{
			name: "NoRouteThenAndNow", given: nil,
			plain: modeNeeded, asNew: outcome{err: driver.ErrNoRoute}, sameID: outcome{err: driver.ErrNoRoute},
		},
		{
			name: "NoRouteThenButNow", given: extra,
			plain: modeNeeded, asNew: outcome{generation: 1, add: "x#1 y#1"}, sameID: outcome{generation: 1, add: "x y"},
		},
		{
			name: "NoRouteThenReplayed", given: []string{"y"},
			live: func(l *life) {
				l.pass()
				l.replay(&driver.ReplayParams{Key: l.c.Key, Mode: driver.ReplaySameID, Now: l.at, Routes: newClaim("stripe", l.c.EventID, "", "x").Messages})
				l.sent("x")
			},
			plain: modeNeeded, asNew: outcome{generation: 2, add: "x#2"}, sameID: outcome{generation: 2, reset: "x"},
		},
		refusedAll(driver.ErrOpen, shape{name: "OpenPending", routes: []string{"a"}}),
		refusedAll(driver.ErrOpen, shape{name: "OpenWaiting", routes: []string{"a"}, live: func(l *life) { l.send(driver.MessageRetry, "a") }}),
		refusedAll(driver.ErrOpen, shape{name: "OpenSending", routes: []string{"a"}, live: func(l *life) { l.take("a") }}),
		refusedAll(driver.ErrOpen, shape{
			name: "OpenRanOut", routes: []string{"a"}, live: func(l *life) { l.take("a"); l.at = l.at.Add(time.Hour) },
		}),
		refusedAll(driver.ErrOpen, shape{name: "OpenBesideDead", routes: []string{"a", "b"}, live: func(l *life) { l.died("a") }}),
		refusedAll(driver.ErrOpen, shape{
			name: "OpenAfterReplay", routes: []string{"a"}, live: func(l *life) { l.died("a"); l.again(driver.ReplayAsNew) },
		}),
		{
			name: "AsNewTwice", routes: []string{"a"},
			live:  func(l *life) { l.sent("a"); l.again(driver.ReplayAsNew); l.sent("a#1") },
			plain: modeNeeded, asNew: outcome{generation: 2, add: "a#2"}, sameID: outcome{generation: 2, reset: "a#1"},
		},
		{
			name: "AsNewThenDead", routes: []string{"a", "b"},
			live:   func(l *life) { l.sent("a b"); l.again(driver.ReplayAsNew); l.sent("a#1"); l.died("b#1") },
			plain:  outcome{generation: 2, reset: "b#1"},
			asNew:  outcome{generation: 2, add: "b#2", replaced: "b#1"},
			sameID: outcome{generation: 2, reset: "b#1"},
		},
		{
			name: "DeadThenAsNew", routes: []string{"a"},
			live:  func(l *life) { l.died("a"); l.again(driver.ReplayAsNew); l.sent("a#1") },
			plain: modeNeeded, asNew: outcome{generation: 2, add: "a#2"}, sameID: outcome{generation: 2, reset: "a#1"},
		},
		{
			name: "DeadThenAsNewThenDead", routes: []string{"a"},
			live:   func(l *life) { l.died("a"); l.again(driver.ReplayAsNew); l.died("a#1") },
			plain:  outcome{generation: 2, reset: "a#1"},
			asNew:  outcome{generation: 2, add: "a#2", replaced: "a#1"},
			sameID: outcome{generation: 2, reset: "a#1"},
		},
		{
			name: "DeadThenAsNewThenDiscarded", routes: []string{"a"},
			live:   func(l *life) { l.died("a"); l.again(driver.ReplayAsNew); l.died("a#1"); l.discarded("a#1") },
			plain:  outcome{generation: 2, reset: "a#1"},
			asNew:  outcome{generation: 2, add: "a#2", replaced: "a#1"},
			sameID: outcome{generation: 2, reset: "a#1"},
		},
		{
			// Its destination accepted it once, so the event is done, not skipped.
			name: "AsNewThenDiscarded", routes: []string{"a"},
			live:  func(l *life) { l.sent("a"); l.again(driver.ReplayAsNew); l.died("a#1"); l.discarded("a#1") },
			plain: modeNeeded, asNew: outcome{generation: 2, add: "a#2"}, sameID: outcome{generation: 2, reset: "a"},
		},
		{
			name: "PartsOfSeveralGenerations", routes: []string{"a", "b"},
			live:  func(l *life) { l.sent("a"); l.died("b"); l.again(driver.ReplayAsNew); l.sent("b#1") },
			plain: modeNeeded, asNew: outcome{generation: 2, add: "a#2 b#2"}, sameID: outcome{generation: 2, reset: "a b#1"},
		},
		{
			name: "SameIDThenAsNew", routes: []string{"a"},
			live: func(l *life) {
				l.sent("a")
				l.again(driver.ReplaySameID)
				l.sent("a")
				l.again(driver.ReplayAsNew)
				l.sent("a#2")
			},
			plain: modeNeeded, asNew: outcome{generation: 3, add: "a#3"}, sameID: outcome{generation: 3, reset: "a#2"},
		},
		{
			// A dead message can be replayed even if a new one replaced it.
			name: "ReplacedAndDeadAgain", routes: []string{"a"},
			live: func(l *life) {
				l.died("a")
				l.again(driver.ReplayAsNew)
				l.sent("a#1")
				l.retry(l.at, l.id("a"))
				l.died("a")
			},
			plain:  outcome{generation: 3, reset: "a"},
			asNew:  outcome{generation: 3, add: "a#3", replaced: "a"},
			sameID: outcome{generation: 3, reset: "a"},
		},
		{
			// Two dead messages of one route become one as new.
			name: "BothOfARouteDead", routes: []string{"a"},
			live: func(l *life) {
				l.died("a")
				l.again(driver.ReplayAsNew)
				l.died("a#1")
				l.retry(l.at, l.id("a"))
				l.died("a")
			},
			plain:  outcome{generation: 3, reset: "a a#1"},
			asNew:  outcome{generation: 3, add: "a#3", replaced: "a a#1"},
			sameID: outcome{generation: 3, reset: "a a#1"},
		},
	}
}

func queuedShapes() []shape {
	done := func(l *life) { l.moveQueued(l.c.Key, driver.StateDone) }
	killed := func(l *life) { l.killQueued(l.c.Key) }
	given := func(l *life) {
		killed(l)
		same(l, "discarded", []bool{true}, l.discard(l.at, driver.DeadLetterRef{Key: l.c.Key}))
	}
	event := outcome{generation: 1, event: true}
	return []shape{
		refusedAll(driver.ErrOpen, shape{name: "QueuedPending", queued: true, given: extra}),
		refusedAll(driver.ErrOpen, shape{
			name: "QueuedRunning", queued: true, live: func(l *life) { l.moveQueued(l.c.Key, driver.StateRunning) },
		}),
		refusedAll(driver.ErrOpen, shape{
			name: "QueuedPendingItsMessageDead", queued: true, routes: []string{"a"}, live: func(l *life) { l.died("a") },
		}),
		refusedAll(driver.ErrOpen, shape{name: "QueuedDoneItsMessageOpen", queued: true, routes: []string{"a"}, live: done}),
		{name: "QueuedDone", queued: true, given: extra, live: done, plain: modeNeeded, asNew: event, sameID: event},
		{name: "QueuedDead", queued: true, given: extra, live: killed, plain: event, asNew: event, sameID: event},
		{name: "QueuedSkipped", queued: true, live: given, plain: event, asNew: event, sameID: event},
		{
			name: "QueuedDeadItsMessageSent", queued: true, routes: []string{"a"},
			live:  func(l *life) { l.sent("a"); killed(l) },
			plain: event, asNew: event, sameID: event,
		},
		{
			name: "QueuedDeadItsMessageToo", queued: true, routes: []string{"a"},
			live:   func(l *life) { l.died("a"); killed(l) },
			plain:  outcome{generation: 1, event: true, reset: "a"},
			asNew:  outcome{generation: 1, event: true, add: "a#1", replaced: "a"},
			sameID: outcome{generation: 1, event: true, reset: "a"},
		},
		{
			name: "QueuedDoneItsMessageDead", queued: true, routes: []string{"a"},
			live:   func(l *life) { l.died("a"); done(l) },
			plain:  outcome{generation: 1, reset: "a"},
			asNew:  outcome{generation: 1, add: "a#1", replaced: "a"},
			sameID: outcome{generation: 1, reset: "a"},
		},
		{
			name: "QueuedDoneItsMessageSent", queued: true, routes: []string{"a"},
			live:   func(l *life) { l.sent("a"); done(l) },
			plain:  modeNeeded,
			asNew:  outcome{generation: 1, event: true, add: "a#1"},
			sameID: outcome{generation: 1, event: true, reset: "a"},
		},
		{
			name: "QueuedSkippedItsMessageSent", queued: true, routes: []string{"a"},
			live:   func(l *life) { l.sent("a"); given(l) },
			plain:  modeNeeded,
			asNew:  outcome{generation: 1, event: true, add: "a#1"},
			sameID: outcome{generation: 1, event: true, reset: "a"},
		},
		{
			name: "QueuedSkippedItsMessageToo", queued: true, routes: []string{"a"},
			live:   func(l *life) { l.died("a"); l.discarded("a"); given(l) },
			plain:  outcome{generation: 1, event: true, reset: "a"},
			asNew:  outcome{generation: 1, event: true, add: "a#1", replaced: "a"},
			sameID: outcome{generation: 1, event: true, reset: "a"},
		},
	}
}

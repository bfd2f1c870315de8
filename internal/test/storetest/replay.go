package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func replayCases() []testCase {
	cases := []testCase{
		{"UnknownKey", replayUnknown},
		{"BodyPruned", replayBodyPruned},
		{"FullAttempts", replayFullAttempts},
		{"DatabaseClock", replayDatabaseClock},
		{"QueuedHasItsOwnGeneration", replayQueuedGenerations},
		{"RequestID", replayRequestID},
		{"RequestIDOfWhatWasRefused", replayRequestRefused},
		{"RequestIDTexts", replayRequestTexts},
		{"DuplicatesAfterwards", replayDuplicates},
	}
	for _, shape := range slices.Concat(routedShapes(), queuedShapes()) {
		cases = append(cases, testCase{shape.name, func(f *fixture) { replayShape(f, &shape) }})
	}
	return cases
}

// The modes of a replay, with their actions in the history.
var replayModes = []struct {
	mode   driver.ReplayMode
	action string
}{
	{driver.ReplayPlain, driver.ActionReplayed},
	{driver.ReplayAsNew, driver.ActionReplayedAsNew},
	{driver.ReplaySameID, driver.ActionReplayedSameID},
}

// shape is a history of an event, with the expected result of a replay in each mode.
type shape struct {
	name   string
	routes []string
	queued bool
	// given lists the routes that match at the time of the replay. They must have no effect unless
	// the event has no messages.
	given []string
	// live brings the event to the state before the replay.
	live                 func(l *life)
	plain, asNew, sameID outcome
}

// outcome is the expected result of a replay. Messages are named as in life.
type outcome struct {
	err        error
	generation int
	event      bool   // the event's own row is pending again
	reset      string // messages that are due again
	add        string // new messages
	replaced   string // dead messages that new ones replace
}

// life is an event under test. A message has the name "route" if its id is of generation 0, and
// "route#n" for generation n.
type life struct {
	*fixture
	c     driver.Claim
	at    time.Time
	taken []driver.Message // all leases so far
}

func (l *life) id(name string) string {
	route, generation, asNew := strings.Cut(name, "#")
	n := 0
	if asNew {
		if _, err := fmt.Sscan(generation, &n); err != nil {
			l.Fatalf("message %q: %v", name, err)
		}
	}
	return driver.MessageID(l.c.Key, n, route)
}

func (l *life) pass() { l.at = l.at.Add(time.Second) }

// send leases the named messages and completes each with the outcome.
func (l *life) send(outcome driver.MessageOutcome, names string) {
	l.Helper()
	for _, name := range strings.Fields(names) {
		m := l.take(name)
		l.pass()
		l.mustComplete(l.at, driver.Completion{
			ID: m.ID, Token: m.Token, Outcome: outcome, StatusCode: 200, RetryIn: time.Hour, Took: time.Millisecond,
		})
	}
}

func (l *life) sent(names string) { l.Helper(); l.send(driver.MessageSent, names) }

func (l *life) died(names string) { l.Helper(); l.send(driver.MessageDead, names) }

// take leases one due message, and releases others of its destination.
func (l *life) take(name string) driver.Message {
	l.Helper()
	l.pass()
	route, _, _ := strings.Cut(name, "#")
	var found *driver.Message
	for _, m := range l.lease(l.at, "to-"+route, 10) {
		l.taken = append(l.taken, m)
		if m.ID == l.id(name) {
			found = &m
			continue
		}
		l.release(l.at, driver.MessageLease{ID: m.ID, Token: m.Token})
	}
	if found == nil {
		l.Fatalf("message %s is not due", name)
	}
	return *found
}

func (l *life) discarded(names string) {
	l.Helper()
	l.pass()
	for _, name := range strings.Fields(names) {
		got := l.discard(l.at, driver.DeadLetterRef{Key: l.c.Key, MessageID: l.id(name)})
		same(l, "discarded "+name, []bool{true}, got)
	}
}

func (l *life) again(mode driver.ReplayMode) {
	l.Helper()
	l.pass()
	l.replayAt(l.at, l.c.Key, mode)
}

// replayShape runs the shape once per mode, each with an event of its own.
func replayShape(f *fixture, s *shape) {
	for i, want := range []outcome{s.plain, s.asNew, s.sameID} {
		c := newClaim("stripe", fmt.Sprint("evt_", i), "it's the body", s.routes...)
		if s.queued {
			c.Work = driver.WorkQueued
		}
		l := &life{fixture: f, c: c, at: t0}
		f.claimNew(t0, c)
		if s.live != nil {
			s.live(l)
		}
		l.pass()
		p := driver.ReplayParams{
			Key: c.Key, Mode: replayModes[i].mode, Now: l.at,
			Routes: newClaim("stripe", c.EventID, "", s.given...).Messages,
		}
		if want.err == nil {
			l.replayed(&p, &want, replayModes[i].action)
			continue
		}
		before := f.event("stripe", c.EventID)
		got, err := f.s.Replay(f.Context(), &p)
		f.refused(fmt.Sprintf("mode %d: Replay returned %+v", p.Mode, got), want.err, err)
		f.sameEvent(before)
	}
}

// replayed replays the event and compares all results.
func (l *life) replayed(p *driver.ReplayParams, o *outcome, action string) {
	l.Helper()
	want := l.event(l.c.Source, l.c.EventID)
	l.apply(want, p, o)
	want.History = append(want.History, driver.HistoryEntry{At: p.Now, Action: action, Generation: o.generation})
	due := slices.Concat(strings.Fields(o.reset), strings.Fields(o.add))

	got := l.replay(p)
	same(l, fmt.Sprintf("mode %d: Replay", p.Mode), driver.Replayed{Generation: o.generation, Messages: len(due)}, got)
	l.shown(want)

	// Leases from before the replay are no longer held.
	for _, m := range l.taken {
		stale := driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageDead, Error: "stale"}
		same(l, "completion by a token from before the replay", []bool{false}, l.complete(l.at, stale))
		l.release(l.at, driver.MessageLease{ID: m.ID, Token: m.Token})
	}
	l.sameEvent(want, lastAnswer())
	for _, name := range due {
		l.leasedAgain(name, o.generation)
	}
	for _, route := range []string{"a", "b", "x", "y"} {
		if got := l.lease(l.at, "to-"+route, 10); len(got) > 0 {
			l.Errorf("mode %d: leased %+v, which was not replayed", p.Mode, got)
		}
	}
	l.settle(due, want)
}

// leasedAgain leases a replayed message and compares all of it.
func (l *life) leasedAgain(name string, generation int) {
	l.Helper()
	before := int64(0)
	for _, m := range l.taken {
		if m.ID == l.id(name) {
			before = max(before, m.Token)
		}
	}
	got := l.take(name)
	if got.Token <= before {
		l.Errorf("message %s has the token %d after %d", name, got.Token, before)
	}
	route, _, _ := strings.Cut(name, "#")
	same(l, "message "+name+" after the replay", driver.Message{
		ID: l.id(name), Key: l.c.Key, Token: got.Token, Attempt: 1, Generation: generation,
		Source: l.c.Source, EventID: l.c.EventID, Type: l.c.Type, Route: route, Destination: "to-" + route,
		ReceivedAt: t0, Replayed: true, Headers: l.c.Headers, Body: l.c.Body,
	}, got)
}

// settle sends the replayed messages. Afterwards the event has ended, as far as they decide it.
func (l *life) settle(due []string, want *driver.EventDetail) {
	l.Helper()
	for _, name := range due {
		l.pass()
		var m driver.Message // the latest lease
		for _, lease := range l.taken {
			if lease.ID == l.id(name) {
				m = lease
			}
		}
		d := driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent, StatusCode: 200}
		l.mustComplete(l.at, d)
		n := slices.IndexFunc(want.Messages, func(d driver.MessageDetail) bool { return d.ID == m.ID })
		ended(sending(want, n, l.at, 1), n, l.at, d)
	}
	if l.c.Work == driver.WorkNone {
		derive(want)
	} else {
		want.Attempts = 0
	}
	l.shown(want)
}

// apply changes the detail before a replay to the expected one after it.
func (l *life) apply(want *driver.EventDetail, p *driver.ReplayParams, o *outcome) {
	l.Helper()
	find := func(name string) *driver.MessageDetail {
		n := slices.IndexFunc(want.Messages, func(m driver.MessageDetail) bool { return m.ID == l.id(name) })
		if n < 0 {
			l.Fatalf("there is no message %s among %+v", name, want.Messages)
		}
		return &want.Messages[n]
	}
	for _, name := range strings.Fields(o.reset) {
		due(find(name), o.generation, p.Now)
	}
	for _, name := range strings.Fields(o.replaced) {
		skip(find(name), driver.NoteReplacedByNew)
	}
	for _, name := range strings.Fields(o.add) {
		route, _, _ := strings.Cut(name, "#")
		want.Messages = append(want.Messages, driver.MessageDetail{
			ID: l.id(name), Route: route, Destination: "to-" + route, State: driver.StatePending,
			Generation: o.generation, DueAt: p.Now, CreatedAt: p.Now,
		})
	}
	sortMessages(want.Messages)
	if l.c.Work == driver.WorkNone {
		derive(want)
		return
	}
	want.Generation = o.generation
	if o.event {
		want.State, want.Note, want.Attempts = driver.StatePending, "", 0
		want.ProcessedAt, want.FailedAt = time.Time{}, time.Time{}
	}
}

package drivertest

import (
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// The terms of the model. The lease ends between two of the model's
// milliseconds, so that no step falls on the very end of one.
const (
	modelLease     = 20*time.Second + 500*time.Microsecond
	modelAttempts  = 3
	modelWindow    = 3*time.Minute + 500*time.Microsecond
	modelRetention = 90*time.Second + 500*time.Microsecond
)

// model is the contract in memory: what a store of routed events must hold.
type model struct {
	events map[driver.Key]*modelEvent
}

type modelEvent struct {
	claim      driver.Claim
	at         time.Time
	generation int
	pruned     bool // the body is past retention
	touched    bool // by the latest step
	counts     driver.Deliveries
	messages   []*modelMessage // as in claim.Messages
	tries      []driver.Attempt
	lost       map[modelTry]bool // attempts whose lease ran out
}

// modelTry names an attempt.
type modelTry struct {
	id                 string
	generation, number int
}

type modelMessage struct {
	event  *modelEvent
	n      int // its place in claim.Messages
	detail driver.MessageDetail
	tokens []int64 // every token it was ever leased with, the latest last
}

func (m *modelMessage) token() int64 {
	if len(m.tokens) == 0 {
		return 0
	}
	return m.tokens[len(m.tokens)-1]
}

// held reports whether the lease with the token is held.
func (m *modelMessage) held(token int64) bool {
	return m.detail.State == driver.StateSending && token == m.token()
}

func (m *modelMessage) due(now time.Time) bool {
	return m.detail.State == driver.StatePending && !m.detail.DueAt.After(now)
}

func (m *modelMessage) ranOut(now time.Time) bool {
	return m.detail.State == driver.StateSending && !m.detail.LeasedUntil.After(now)
}

func (m *modelMessage) usedUp() bool { return m.detail.Attempts >= modelAttempts }

// free ends a lease or a wait.
func (m *modelMessage) free(state string) {
	m.event.touched = true
	m.detail.State, m.detail.DueAt, m.detail.LeasedUntil = state, time.Time{}, time.Time{}
}

func (m *modelMessage) leased(now time.Time, token int64) {
	m.lose()
	m.free(driver.StateSending)
	m.detail.LeasedUntil = now.Add(modelLease)
	m.detail.Attempts++
	m.tokens = append(m.tokens, token)
}

// lose notes that the attempt under a lease that ran out has no outcome.
func (m *modelMessage) lose() {
	if m.detail.State == driver.StateSending {
		m.event.lost[modelTry{m.detail.ID, m.detail.Generation, m.detail.Attempts}] = true
	}
}

func (m *modelMessage) buried(now time.Time) {
	m.lose()
	m.free(driver.StateDead)
	m.detail.FailedAt = now
}

func (m *modelMessage) released(now time.Time) {
	m.free(driver.StatePending)
	m.detail.DueAt = now
	m.detail.Attempts--
}

func (m *modelMessage) completed(now time.Time, d *driver.Completion) {
	outcome := ""
	switch d.Outcome {
	case driver.MessageSent:
		outcome = "sent"
		m.free(driver.StateSent)
		m.detail.SentAt = now
	case driver.MessageRetry:
		outcome = "retry"
		m.free(driver.StatePending)
		m.detail.DueAt = now.Add(d.RetryIn)
	case driver.MessageDead:
		outcome = "dead"
		m.free(driver.StateDead)
		m.detail.FailedAt = now
	}
	m.event.tries = append(m.event.tries, driver.Attempt{
		MessageID: m.detail.ID, Generation: m.detail.Generation, Number: m.detail.Attempts,
		Outcome: outcome, StatusCode: d.StatusCode, Error: d.Error, At: now, Took: d.Took,
	})
}

// state returns the state of an event and since when it has ended.
func (e *modelEvent) state() (state string, ended time.Time) {
	if len(e.messages) == 0 {
		return driver.StateDone, e.at
	}
	state = driver.StateDone
	for _, m := range e.messages {
		switch m.detail.State {
		case driver.StatePending, driver.StateSending:
			return driver.StateRunning, time.Time{}
		case driver.StateDead:
			state = driver.StateDead
		}
		for _, at := range []time.Time{m.detail.SentAt, m.detail.FailedAt} {
			if at.After(ended) {
				ended = at
			}
		}
	}
	return state, ended
}

func (e *modelEvent) dead() bool {
	state, _ := e.state()
	return state == driver.StateDead
}

func (e *modelEvent) reopen(now time.Time) {
	e.generation++
	for _, m := range e.messages {
		if m.detail.State != driver.StateDead {
			continue
		}
		m.free(driver.StatePending)
		m.detail.DueAt, m.detail.FailedAt = now, time.Time{}
		m.detail.Attempts = 0
		// A message counts its own reopenings with its event: both are in
		// generation n after the event was reopened for the n-th time.
		m.detail.Generation = e.generation
	}
}

// detail returns what a store must show of the event.
func (e *modelEvent) detail() *driver.EventDetail {
	want := claimed(&e.claim, e.at)
	want.Generation, want.Tries, want.Deliveries = e.generation, e.tries, e.counts
	want.Duplicates = e.counts.Count - 1
	want.ProcessedAt = time.Time{}
	state, ended := e.state()
	want.State = state
	switch state {
	case driver.StateDone:
		want.ProcessedAt = ended
	case driver.StateDead:
		want.FailedAt = ended
	}
	want.Messages = nil
	for _, m := range e.messages {
		want.Messages = append(want.Messages, m.detail)
		want.Attempts = max(want.Attempts, m.detail.Attempts)
	}
	if e.pruned {
		bodyless(want)
	}
	return want
}

func (w *model) add(c *driver.Claim, now time.Time) {
	e := &modelEvent{claim: *c, at: now, touched: true, lost: map[modelTry]bool{}}
	first := claimed(c, now)
	e.counts = first.Deliveries
	for n, detail := range first.Messages {
		e.messages = append(e.messages, &modelMessage{event: e, n: n, detail: detail})
	}
	w.events[c.Key] = e
}

// sortedEvents returns the events in an order that does not change from run to
// run, so that a seed repeats one.
func (w *model) sortedEvents() []*modelEvent {
	var all []*modelEvent
	for _, e := range w.events {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *modelEvent) int { return compareKeys(a.claim.Key, b.claim.Key) })
	return all
}

func (w *model) messages(keep func(m *modelMessage) bool) []*modelMessage {
	var all []*modelMessage
	for _, e := range w.sortedEvents() {
		for _, m := range e.messages {
			if keep(m) {
				all = append(all, m)
			}
		}
	}
	return all
}

// prune removes what is past its windows and returns how much that was.
func (w *model) prune(now time.Time) driver.PruneResult {
	var result driver.PruneResult
	for key, e := range w.events {
		if state, _ := e.state(); state != driver.StateDone {
			continue
		}
		age := now.Sub(e.at)
		switch {
		case age > modelWindow:
			delete(w.events, key)
			result.Events++
		case age > modelRetention && !e.pruned:
			e.pruned, e.touched = true, true
			result.Bodies++
		}
	}
	return result
}

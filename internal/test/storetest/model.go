package storetest

import (
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// Parameters of the model. A lease ends between two of the model's milliseconds, so that no step
// falls on its exact end.
const (
	modelLease     = 20*time.Second + 500*time.Microsecond
	modelAttempts  = 3
	modelWindow    = 90*time.Second + 500*time.Microsecond
	modelRetention = time.Minute + 500*time.Microsecond
)

// model is the contract for routed events, in memory.
type model struct {
	events map[driver.Key]*modelEvent
}

type modelEvent struct {
	claim    driver.Claim
	at       time.Time
	pruned   bool // the body is past retention
	touched  bool // by the latest step
	counts   driver.Deliveries
	messages []*modelMessage
	tries    []driver.Attempt
	history  []driver.HistoryEntry
	requests map[string]modelRequest // the result for each RequestID
}

type modelMessage struct {
	event  *modelEvent
	detail driver.MessageDetail
	tokens []int64 // all tokens of its leases, the latest last
	// replayed is set if an operator made the message due.
	replayed bool
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
	m.lose("retry", now)
	m.free(driver.StateSending)
	m.detail.LeasedUntil = now.Add(modelLease)
	m.detail.Attempts++
	m.tokens = append(m.tokens, token)
}

// lose records the attempt of an expired lease.
func (m *modelMessage) lose(outcome string, now time.Time) {
	if m.detail.State == driver.StateSending {
		m.event.tries = append(m.event.tries, lost(m.detail.ID, m.detail.Generation, m.detail.Attempts, outcome, now))
	}
}

func (m *modelMessage) buried(now time.Time) {
	m.lose("dead", now)
	m.free(driver.StateDead)
	m.detail.FailedAt = now
}

// message returns the leased message without its body.
func (m *modelMessage) message() driver.Message {
	c := &m.event.claim
	return driver.Message{
		ID: m.detail.ID, Key: c.Key, Attempt: m.detail.Attempts, Expired: m.detail.State == driver.StateSending,
		Generation: m.detail.Generation, Source: c.Source, EventID: c.EventID, Type: c.Type,
		Route: m.detail.Route, Destination: m.detail.Destination, ReceivedAt: m.event.at, Replayed: m.replayed,
	}
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

// generation returns the highest generation among the event's messages.
func (e *modelEvent) generation() int {
	highest := 0
	for _, m := range e.messages {
		highest = max(highest, m.detail.Generation)
	}
	return highest
}

func (e *modelEvent) state() string { return e.detail().State }

func (e *modelEvent) dead() bool { return e.state() == driver.StateDead }

// owe makes a message due in the given generation, with full attempts.
func (m *modelMessage) owe(generation int, now time.Time, replayed bool) {
	m.event.touched, m.replayed = true, replayed
	due(&m.detail, generation, now)
}

func (m *modelMessage) skip(note string) {
	m.event.touched = true
	skip(&m.detail, note)
}

// tell adds an entry to the history.
func (e *modelEvent) tell(entry driver.HistoryEntry) {
	e.touched = true
	e.history = append(e.history, entry)
}

func (e *modelEvent) reopen(now time.Time) {
	// All reopened messages of an event get one generation.
	generation := e.generation() + 1
	for _, m := range e.messages {
		if m.detail.State == driver.StateDead {
			m.owe(generation, now, false)
		}
	}
	e.tell(driver.HistoryEntry{At: now, Action: driver.ActionReopened, Generation: generation})
}

// detail returns the expected detail of the event.
func (e *modelEvent) detail() *driver.EventDetail {
	want := claimed(&e.claim, e.at)
	want.Tries, want.History, want.Deliveries = e.tries, e.history, e.counts
	want.Duplicates = e.counts.Count - 1
	want.Messages = nil
	for _, m := range e.messages {
		want.Messages = append(want.Messages, m.detail)
	}
	sortMessages(want.Messages)
	derive(want)
	if e.pruned {
		bodyless(want)
	}
	return want
}

func (w *model) add(c *driver.Claim, now time.Time) {
	e := &modelEvent{claim: *c, at: now, touched: true, requests: map[string]modelRequest{}}
	first := claimed(c, now)
	e.counts = first.Deliveries
	for _, detail := range first.Messages {
		e.messages = append(e.messages, &modelMessage{event: e, detail: detail})
	}
	w.events[c.Key] = e
}

// sortedEvents returns the events in a fixed order, so that a seed repeats a run.
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

// latest returns the time of the last change that lets the sender deliver the event again, and that of its last discard.
func (e *modelEvent) latest() (latest, discarded time.Time) {
	times := []time.Time{e.at, e.counts.LastAt}
	for _, m := range e.messages {
		times = append(times, m.detail.SentAt, m.detail.FailedAt)
	}
	for _, h := range e.history {
		times = append(times, h.At)
		if h.Action == driver.ActionDiscarded && h.At.After(discarded) {
			discarded = h.At
		}
	}
	return slices.MaxFunc(times, time.Time.Compare), discarded
}

// prune removes events and bodies past their windows, and returns the counts.
func (w *model) prune(now time.Time) driver.PruneResult {
	var result driver.PruneResult
	for key, e := range w.events {
		if state := e.state(); state != driver.StateDone && state != driver.StateSkipped {
			continue
		}
		latest, discarded := e.latest()
		switch {
		case now.Sub(discarded) <= driver.UndoTime:
		case now.Sub(latest) > modelWindow:
			delete(w.events, key)
			result.Events++
		case now.Sub(e.at) > modelRetention && !e.pruned:
			e.pruned, e.touched = true, true
			result.Bodies++
		}
	}
	return result
}

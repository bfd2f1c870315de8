package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// stepRefused has the database refuse all changes of one event's messages for a while. A lease names them and leases the
// others; an outcome of theirs is an error that changes nothing.
func (w *world) stepRefused() string {
	all := w.messages(func(m *modelMessage) bool { return m.due(w.now) || m.ranOut(w.now) || m.held(m.token()) })
	if len(all) == 0 {
		return "nothing to refuse"
	}
	event := all[w.rand.IntN(len(all))].event
	allow := w.with.Refuse(w.T, w.s, "message", event.claim.Key)
	defer allow()
	w.outcomesRefused(event)
	for _, destination := range []string{"to-audit", "to-billing"} {
		w.leaseRefused(event, destination)
	}
	return "refusal of " + event.claim.EventID
}

// outcomesRefused completes the held messages of the event together with another event's.
func (w *world) outcomesRefused(event *modelEvent) {
	var batch []driver.Completion
	for _, m := range w.messages(func(m *modelMessage) bool { return m.held(m.token()) }) {
		d := driver.Completion{ID: m.detail.ID, Token: m.token(), Outcome: driver.MessageSent, StatusCode: 200}
		if m.event == event {
			batch = append([]driver.Completion{d}, batch...)
		} else if len(batch) < 3 {
			batch = append(batch, d)
		}
	}
	if !slices.ContainsFunc(batch, func(d driver.Completion) bool {
		return slices.ContainsFunc(event.messages, func(m *modelMessage) bool { return m.detail.ID == d.ID })
	}) {
		return
	}
	held, err := w.s.Complete(w.Context(), &driver.CompleteParams{Completions: batch, Now: w.now})
	if !driver.FaultOfRows(err) {
		w.Fatalf("Complete of %d messages while the database refuses one: %v, %v, want a fault of rows", len(batch), held, err)
	}
	for _, m := range w.messages(func(*modelMessage) bool { return true }) {
		m.event.touched = true // none has changed
	}
	w.seen["outcome refused"] = true
}

// leaseRefused leases until nothing is due, as a relay does: it steps over the messages that are named.
func (w *world) leaseRefused(event *modelEvent, destination string) {
	here := func(m *modelMessage) bool { return m.detail.Destination == destination }
	var refused []string
	for _, m := range event.messages {
		if here(m) && (m.due(w.now) || m.ranOut(w.now)) {
			refused = append(refused, m.detail.ID)
		}
	}
	if len(refused) == 0 {
		return
	}
	others := func(keep func(*modelMessage) bool) []*modelMessage {
		return w.messages(func(m *modelMessage) bool { return here(m) && m.event != event && keep(m) })
	}
	p := driver.LeaseParams{Destination: destination, Limit: 4, For: modelLease, MaxAttempts: modelAttempts, Now: w.now}
	var named []string
	for range 100 {
		due := others(func(m *modelMessage) bool { return m.due(w.now) })
		again := others(func(m *modelMessage) bool { return m.ranOut(w.now) && !m.usedUp() })
		usedUp := others(func(m *modelMessage) bool { return m.ranOut(w.now) && m.usedUp() })
		if len(due)+len(again)+len(usedUp) == 0 && len(named) >= len(refused) {
			break
		}
		leased := w.leaseAndBury(&p)
		got := map[string]driver.Message{}
		for _, m := range leased.Messages {
			got[m.ID] = m
		}
		found := w.take(due, got, false, func(m *modelMessage) time.Time { return m.detail.DueAt }) +
			w.take(again, got, false, func(m *modelMessage) time.Time { return m.detail.LeasedUntil })
		if found != len(leased.Messages) {
			w.Fatalf("leased messages that were not due: %+v", leased.Messages)
		}
		w.bury(usedUp, leased.Buried)
		for _, m := range leased.Refused {
			named, p.Skip = append(named, m.ID), append(p.Skip, m.ID)
		}
	}
	slices.Sort(refused)
	slices.Sort(named)
	same(w, fmt.Sprintf("refused messages to %s", destination), refused, named)
	if left := others(func(m *modelMessage) bool { return m.due(w.now) || m.ranOut(w.now) }); len(left) > 0 {
		w.Errorf("%d messages beside a refused one were not leased", len(left))
	}
	w.seen["lease refused"] = true
}

package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func enqueueCases[T any]() []workCase[T] {
	return []workCase[T]{
		{"Commit", enqueueCommit[T]},
		{"Rollback", enqueueRollback[T]},
		{"WhatItCarries", enqueueCarries[T]},
		{"Many", enqueueMany[T]},
		{"SameID", enqueueSameID[T]},
		{"LaterGeneration", enqueueLater[T]},
		{"LaterGenerationOfAPrunedBody", enqueueLaterPruned[T]},
		{"FormsOfIDs", enqueueForms[T]},
		{"OfAnEvent", enqueueOfAnEvent[T]},
		{"NotAnEvent", enqueueNotAnEvent[T]},
		{"DroppedRow", enqueueDropped[T]},
	}
}

// outboxMessage returns a message to the destination crm, caused by an event.
func outboxMessage(id string, cause *driver.Claim) driver.OutboxMessage {
	m := driver.OutboxMessage{
		ID: id, Destination: "crm", Headers: []byte(`{"Content-Type":["text/plain"]}`), Body: []byte("body of " + id),
	}
	if cause != nil {
		m.Source, m.EventID, m.Type, m.Cause = cause.Source, cause.EventID, cause.Type, cause.Key
	}
	return m
}

// enqueue commits messages in a transaction of the user's own.
func (w *bench[T]) enqueue(messages ...driver.OutboxMessage) {
	w.Helper()
	tx, commit, _ := w.h.Begin(w.T, w.d)
	w.ok("EnqueueTx", w.d.EnqueueTx(w.Context(), tx, messages))
	w.ok("commit", commit())
}

// leaseEnqueued leases the one due message of crm, by the database's clock, which also set its due
// time.
func (w *bench[T]) leaseEnqueued() driver.Message {
	w.Helper()
	return w.leaseOne(time.Time{}, "crm")
}

func enqueueCommit[T any](w *bench[T]) {
	tx, commit, rollback := w.h.Begin(w.T, w.d)
	w.ok("effect", w.h.Effect(w.Context(), tx, "mine"))
	w.ok("EnqueueTx", w.d.EnqueueTx(w.Context(), tx, []driver.OutboxMessage{outboxMessage("m1", nil)}))
	same(w, "messages before the commit", []driver.ListedMessage(nil), w.listMessages(&driver.MessageFilter{}).Messages)
	w.ok("commit", commit())
	w.ok("rollback", rollback())
	w.effects("mine")
	m := w.leaseEnqueued()
	w.mustComplete(time.Time{}, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent, StatusCode: 200})
	w.nothingQueued("after it was sent", "crm")
}

func enqueueRollback[T any](w *bench[T]) {
	tx, _, rollback := w.h.Begin(w.T, w.d)
	w.ok("EnqueueTx", w.d.EnqueueTx(w.Context(), tx, []driver.OutboxMessage{outboxMessage("m1", nil)}))
	w.ok("rollback", rollback())
	w.nothingQueued("after the rollback", "crm")
	w.enqueue(outboxMessage("m1", nil))
	w.leaseEnqueued()
}

func enqueueCarries[T any](w *bench[T]) {
	before := w.clock()
	bare := driver.OutboxMessage{ID: "m-1_~!", Destination: "crm", Headers: []byte("{}")}
	full := outboxMessage(strings.Repeat("x", 255), nil)
	full.Source, full.EventID, full.Type, full.Body = "stripe", "evt_1", "it's.done", []byte("\x00\xff\n")
	for _, sent := range []driver.OutboxMessage{bare, full} {
		w.enqueue(sent)
		got := w.leaseEnqueued()
		want := driver.Message{
			ID: sent.ID, Key: driver.OutboxKey(sent.ID), Token: got.Token, Attempt: 1, Source: sent.Source, EventID: sent.EventID,
			Type: sent.Type, Destination: "crm", ReceivedAt: got.ReceivedAt, Headers: sent.Headers, Body: sent.Body,
		}
		same(w, "message", want, got)
		if off := got.ReceivedAt.Sub(before); off < 0 || off > time.Hour {
			w.Errorf("it was received at %v, want a time after %v", got.ReceivedAt, before)
		}
	}
}

func enqueueMany[T any](w *bench[T]) {
	var all []driver.OutboxMessage
	var want []string
	for _, id := range numbered(150) {
		all, want = append(all, outboxMessage(id, nil)), append(want, id)
	}
	w.enqueue(all...)
	var got []string
	for _, m := range w.lease(time.Time{}, "crm", 1000) {
		got = append(got, m.ID)
	}
	slices.Sort(got)
	same(w, "messages", want, got)
}

// enqueueSameID enqueues an id again: in the same call, in the same transaction, in another one,
// and after it was sent.
func enqueueSameID[T any](w *bench[T]) {
	first, again := outboxMessage("m1", nil), outboxMessage("m1", nil)
	again.Body, again.Destination = []byte("another body"), "elsewhere"
	tx, commit, _ := w.h.Begin(w.T, w.d)
	w.ok("EnqueueTx", w.d.EnqueueTx(w.Context(), tx, []driver.OutboxMessage{first, again}))
	w.ok("EnqueueTx", w.d.EnqueueTx(w.Context(), tx, []driver.OutboxMessage{again}))
	w.ok("commit", commit())
	w.enqueue(again, outboxMessage("m2", nil))
	for _, m := range w.lease(time.Time{}, "crm", 10) {
		if string(m.Body) != "body of "+m.ID {
			w.Errorf("message %s has the body %q, want the first one's", m.ID, m.Body)
		}
		w.mustComplete(time.Time{}, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent})
	}
	w.enqueue(first)
	w.nothingQueued("after it was sent", "crm")
	w.nothingQueued("after it was enqueued elsewhere too", "elsewhere")
	if got := w.listMessages(&driver.MessageFilter{}).Messages; len(got) != 2 {
		w.Errorf("there are %d messages, want 2", len(got))
	}
}

// enqueueLater enqueues an id again in later generations of its event, in each state of the first message.
func enqueueLater[T any](w *bench[T]) {
	c := w.queue(t0, "evt_1")[0]
	again := func(generation int) driver.OutboxMessage {
		m := outboxMessage("m1", &c)
		m.CauseGeneration = generation
		return m
	}
	w.enqueue(again(0))
	w.enqueue(again(1)) // while the first one waits: it is sent once
	m := w.leaseEnqueued()
	w.enqueue(again(1)) // while it is being sent
	w.mustComplete(time.Time{}, driver.Completion{ID: "m1", Token: m.Token, Outcome: driver.MessageSent, StatusCode: 204})
	w.enqueue(again(0))
	w.nothingQueued("after it was enqueued in the same generation", "crm")

	w.enqueue(again(2))
	w.enqueue(again(2))
	m = w.leaseEnqueued()
	if m.Generation != 1 || m.Attempt != 1 || m.Replayed {
		w.Errorf("leased %+v, want attempt 1 of the message's generation 1", m)
	}
	w.mustComplete(time.Time{}, driver.Completion{ID: "m1", Token: m.Token, Outcome: driver.MessageDead, StatusCode: 410, Error: "gone"})
	w.enqueue(again(2))
	w.nothingQueued("after it was enqueued in the generation of its death", "crm")
	w.retry(time.Time{}, "m1") // its own generation grows, that of its event does not
	m = w.leaseEnqueued()
	w.mustComplete(time.Time{}, driver.Completion{ID: "m1", Token: m.Token, Outcome: driver.MessageDead, StatusCode: 410, Error: "gone"})

	// Beside a new message, and twice in one call.
	w.enqueue(outboxMessage("m2", &c), again(3), again(3))
	for _, m := range w.lease(time.Time{}, "crm", 10) {
		if m.ID == "m1" && (m.Generation != 3 || m.Attempt != 1 || string(m.Body) != "body of m1") {
			w.Errorf("leased %+v, want attempt 1 of generation 3 with its body", m)
		}
		w.mustComplete(time.Time{}, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent})
	}
	var attempts []string
	for _, a := range w.event("stripe", "evt_1").Tries {
		if a.MessageID == "m1" {
			attempts = append(attempts, fmt.Sprintf("%d/%d %s %d", a.Generation, a.Number, a.Outcome, a.StatusCode))
		}
	}
	same(w, "attempts", []string{"0/1 sent 204", "1/1 dead 410", "2/1 dead 410", "3/1 sent 0"}, attempts)
	if got := w.listMessages(&driver.MessageFilter{}).Messages; len(got) != 2 {
		w.Errorf("there are %d messages, want 2", len(got))
	}
	tx, _, rollback := w.h.Begin(w.T, w.d)
	w.ok("EnqueueTx", w.d.EnqueueTx(w.Context(), tx, []driver.OutboxMessage{again(4)}))
	w.ok("rollback", rollback())
	w.nothingQueued("after the rollback", "crm")
}

// enqueueLaterPruned enqueues a message again whose body was pruned, then after its row is gone.
func enqueueLaterPruned[T any](w *bench[T]) {
	c := w.queue(t0, "evt_1")[0]
	m := outboxMessage("m1", &c)
	w.enqueue(m)
	send := func() {
		w.Helper()
		got := w.leaseEnqueued()
		if string(got.Body) != "body of m1" || string(got.Headers) != string(m.Headers) {
			w.Errorf("leased %+v, want its body and headers", got)
		}
		w.mustComplete(time.Time{}, driver.Completion{ID: "m1", Token: got.Token, Outcome: driver.MessageSent})
	}
	send()
	w.prune(&driver.PruneParams{DedupeWindow: 1000 * day, Retention: day, Now: w.clock().Add(30 * day)})
	m.CauseGeneration = 1
	w.enqueue(m)
	send()
	w.prune(windows(day, w.clock().Add(365*day)))
	same(w, "messages", []string(nil), w.messageIDs())
	m.CauseGeneration = 2
	w.enqueue(m)
	send()
}

// enqueueForms enqueues ids that look like those of routed messages: a store may find the event of a
// message by the form of its id.
func enqueueForms[T any](w *bench[T]) {
	c := newClaim("stripe", "evt_1", "body", "billing")
	w.claimNew(t0, c)
	another := driver.MessageID(driver.EventKey("stripe", "evt_2"), 0, "billing")
	for _, id := range []string{
		driver.MessageID(c.Key, 0, "another"), another, strings.ToUpper(another), another[1:], another + "a", "msg_" + strings.Repeat("1", len(another)-4),
	} {
		w.enqueue(outboxMessage(id, nil))
		w.enqueue(outboxMessage(id, nil))
		w.killEnqueued()
		w.ok("RetryMessage", w.d.RetryMessage(w.Context(), &driver.RetryMessageParams{ID: id}))
		m := w.leaseEnqueued()
		w.ok("Release", w.d.Release(w.Context(), &driver.ReleaseParams{Leases: []driver.MessageLease{{ID: m.ID, Token: m.Token}}}))
		m = w.leaseEnqueued()
		w.mustComplete(time.Time{}, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent})
		if got := w.listMessages(&driver.MessageFilter{MessageID: id}).Messages; len(got) != 1 || got[0].ID != id || got[0].State != driver.StateSent {
			w.Errorf("messages by the id %s: got %+v, want the sent one", id, got)
		}
	}
	w.enqueue(outboxMessage(c.Messages[0].ID, nil))
	w.nothingQueued("after the id of a routed message was enqueued", "crm")
	if got := w.listMessages(&driver.MessageFilter{MessageID: c.Messages[0].ID}).Messages; len(got) != 1 || got[0].Destination != "to-billing" {
		w.Errorf("messages by the id of the routed message: got %+v, want only that", got)
	}
}

// enqueueOfAnEvent shows messages with the event whose handler enqueued them.
func enqueueOfAnEvent[T any](w *bench[T]) {
	c := newQueued("evt_1", "billing")
	w.claimNew(t0, c)
	other := w.queue(t0.Add(time.Hour), "evt_2")[0]
	run := w.take(t0, "evt_1")
	w.ok("EnqueueTx", w.d.EnqueueTx(w.Context(), run.Tx(), []driver.OutboxMessage{outboxMessage("m1", &c), outboxMessage("m2", nil)}))
	w.succeed(t0, run)
	m := w.lease(time.Time{}, "crm", 10)
	if len(m) != 2 {
		w.Fatalf("leased %+v, want two messages", m)
	}
	got := w.event("stripe", "evt_1")
	var shown []string
	for _, m := range got.Messages {
		shown = append(shown, m.Route+" "+m.ID+" "+m.Destination+" "+m.State)
	}
	slices.Sort(shown)
	same(w, "messages of the event", []string{
		" m1 crm " + driver.StateSending, "billing " + c.Messages[0].ID + " to-billing " + driver.StatePending,
	}, shown)
	for i := range m {
		if m[i].ID == "m1" {
			w.mustComplete(time.Time{}, driver.Completion{ID: "m1", Token: m[i].Token, Outcome: driver.MessageDead, Error: "gone"})
		}
	}
	got = w.event("stripe", "evt_1")
	// The event is done, regardless of its enqueued messages.
	if got.State != driver.StateDone || got.Generation != 0 {
		w.Errorf("the event is %+v, want it done", got.Event)
	}
	if n := len(w.event("stripe", other.EventID).Messages); n != 0 {
		w.Errorf("another event is shown with %d messages", n)
	}
}

// enqueueNotAnEvent checks that the row with a message's body is never found as an event.
func enqueueNotAnEvent[T any](w *bench[T]) {
	w.claimNew(t0, newClaim("stripe", "evt_1", "{}"))
	same1 := outboxMessage("m1", nil)
	same1.Source, same1.EventID, same1.Type = "stripe", "evt_1", "thing.happened"
	bare := outboxMessage("m2", nil)
	named := outboxMessage("m3", nil)
	named.Source, named.EventID = "stripe", "evt_9"
	w.enqueue(same1, bare, named)
	same(w, "events", []string{"evt_1"}, idsOf(w.events(&driver.EventFilter{})))
	for _, filter := range []*driver.EventFilter{
		{Source: "stripe"}, {ID: "evt_1", Sources: []string{"stripe"}}, {Type: "thing.happened"}, {Text: "evt_1"}, {State: driver.StateDone}, {Note: driver.NoteNoRoute},
	} {
		same(w, "events by a filter", []string{"evt_1"}, idsOf(w.events(filter)))
	}
	for _, filter := range []*driver.EventFilter{{Text: "body of m"}, {State: driver.StateRunning}, {State: driver.StatePending}, {ID: "evt_9", Sources: []string{"stripe"}}} {
		same(w, "events by a filter", []string(nil), idsOf(w.events(filter)))
	}
	w.event("stripe", "evt_1")
	w.absent("stripe", "evt_9")
	w.absent("", "")
	w.absent("stripe", "m1")
	_, err := w.s.Replay(w.Context(), &driver.ReplayParams{Key: driver.OutboxKey("m2"), Mode: driver.ReplayAsNew})
	if !errors.Is(err, driver.ErrNotFound) {
		w.Errorf("replay of a message as an event returned the error %v, want %v", err, driver.ErrNotFound)
	}
	same(w, "reopened", []driver.Key(nil), w.reopen(t0, driver.OutboxKey("m2")))
	stats := w.stats()
	if stats.EventsPending != 0 || len(stats.Destinations) != 1 || stats.Destinations[0].Pending != 3 {
		w.Errorf("the numbers are %+v, want three messages pending and no event", stats)
	}
}

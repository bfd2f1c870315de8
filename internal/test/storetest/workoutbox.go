package storetest

import (
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func outboxCases[T any]() []workCase[T] {
	return []workCase[T]{
		{"Listed", outboxListed[T]},
		{"ReplayDead", outboxReplayDead[T]},
		{"Discard", outboxDiscard[T]},
		{"RetryMessage", outboxRetry[T]},
		{"LeaseRunsOut", outboxLeaseRunsOut[T]},
		{"Prune", outboxPrune[T]},
		{"PruneOfItsEvent", outboxPruneOfItsEvent[T]},
	}
}

// killEnqueued makes the due message of crm dead.
func (w *bench[T]) killEnqueued() driver.Message {
	w.Helper()
	m := w.leaseEnqueued()
	w.mustComplete(time.Time{}, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageDead, StatusCode: 410, Error: "gone for good"})
	return m
}

func outboxLetter(id string) driver.DeadLetterRef {
	return driver.DeadLetterRef{Key: driver.OutboxKey(id), MessageID: id}
}

func outboxListed[T any](w *bench[T]) {
	c := w.queue(t0, "evt_1")[0]
	w.enqueue(outboxMessage("m1", &c))
	for _, filter := range []*driver.MessageFilter{
		{}, {Source: "stripe"}, {EventID: "evt_1", Sources: []string{"stripe"}}, {Type: c.Type}, {MessageID: "m1"}, {Destination: "crm"},
	} {
		got := w.listMessages(filter).Messages
		if len(got) != 1 || got[0].ID != "m1" || got[0].Source != "stripe" || got[0].EventID != "evt_1" || got[0].State != driver.StatePending {
			w.Errorf("messages by %+v: got %+v, want m1", filter, got)
		}
	}
	w.killEnqueued()
	letters := w.deadLetters(&driver.MessageFilter{}).DeadLetters
	if len(letters) != 1 {
		w.Fatalf("the dead letters are %+v, want one", letters)
	}
	same(w, "dead letter", driver.DeadLetter{
		Key: driver.OutboxKey("m1"), Source: "stripe", EventID: "evt_1", Type: c.Type, ReceivedAt: letters[0].ReceivedAt,
		MessageID: "m1", Destination: "crm", Attempts: 1, StatusCode: 410, LastError: "gone for good", Signature: "gone for good",
		FailedAt: letters[0].FailedAt,
	}, letters[0])
	stats := w.stats()
	if stats.DeadLetters != 1 || stats.EventsPending != 1 {
		w.Errorf("the numbers are %+v, want one dead letter, and one event pending", stats)
	}
	if state := w.state("evt_1"); state != driver.StatePending {
		w.Errorf("the event that caused it is %s, want it pending", state)
	}
}

func outboxReplayDead[T any](w *bench[T]) {
	w.enqueue(outboxMessage("m1", nil))
	before := w.killEnqueued()
	same(w, "replayed", []bool{true}, w.replayDead(time.Time{}, outboxLetter("m1")))
	same(w, "replayed twice", []bool{false}, w.replayDead(time.Time{}, outboxLetter("m1")))
	got := w.leaseEnqueued()
	want := before
	want.Token, want.Generation, want.Replayed = got.Token, 1, true
	same(w, "message", want, got)
	if got.Token <= before.Token {
		w.Errorf("token is %d after %d, want a higher one", got.Token, before.Token)
	}
	w.mustComplete(time.Time{}, driver.Completion{ID: "m1", Token: got.Token, Outcome: driver.MessageSent})
}

func outboxDiscard[T any](w *bench[T]) {
	w.enqueue(outboxMessage("m1", nil))
	w.killEnqueued()
	same(w, "discarded", []bool{true}, w.discard(time.Time{}, outboxLetter("m1")))
	got := w.listMessages(&driver.MessageFilter{}).Messages
	if len(got) != 1 || got[0].State != driver.StateSkipped || got[0].Note != driver.NoteDiscarded {
		w.Errorf("the message is %+v, want it skipped as discarded", got)
	}
	w.nothingQueued("after it was discarded", "crm")
	same(w, "dead letters", []driver.DeadLetter(nil), w.deadLetters(&driver.MessageFilter{}).DeadLetters)
}

func outboxRetry[T any](w *bench[T]) {
	w.enqueue(outboxMessage("m1", nil))
	m := w.leaseEnqueued()
	w.mustComplete(time.Time{}, driver.Completion{ID: "m1", Token: m.Token, Outcome: driver.MessageRetry, RetryIn: time.Hour})
	w.nothingQueued("before the retry is due", "crm")
	w.retry(time.Time{}, "m1")
	if m = w.leaseEnqueued(); m.Attempt != 2 || m.Replayed {
		w.Errorf("leased %+v, want attempt 2, not replayed", m)
	}
	w.mustComplete(time.Time{}, driver.Completion{ID: "m1", Token: m.Token, Outcome: driver.MessageDead})
	w.retry(time.Time{}, "m1")
	if m = w.leaseEnqueued(); m.Attempt != 1 || m.Generation != 1 || !m.Replayed {
		w.Errorf("leased %+v, want attempt 1 of generation 1, replayed", m)
	}
	w.mustComplete(time.Time{}, driver.Completion{ID: "m1", Token: m.Token, Outcome: driver.MessageSent})
	err := w.s.RetryMessage(w.Context(), &driver.RetryMessageParams{ID: "m1"})
	w.refused("retry of a sent message", driver.ErrSent, err)
}

func outboxLeaseRunsOut[T any](w *bench[T]) {
	w.enqueue(outboxMessage("m1", nil))
	w.leaseEnqueued()
	later := w.clock().Add(time.Hour)
	m := w.leaseOne(later, "crm")
	if m.Attempt != 2 || !m.Expired {
		w.Errorf("leased %+v, want attempt 2 after a lease that ran out", m)
	}
	p := &driver.LeaseParams{Destination: "crm", Limit: 1, For: leaseFor, MaxAttempts: 2, Now: later.Add(time.Hour)}
	got := w.leaseAndBury(p)
	if len(got.Messages) != 0 || len(got.Buried) != 1 || got.Buried[0].ID != "m1" {
		w.Errorf("got %+v, want the message buried", got)
	}
}

// outboxPrune checks that unfinished messages stay, and that the id of a pruned one can be used
// again.
func outboxPrune[T any](w *bench[T]) {
	for _, id := range []string{"sent", "dead", "waits"} {
		w.enqueue(outboxMessage(id, nil))
		switch id {
		case "sent":
			m := w.leaseEnqueued()
			w.mustComplete(time.Time{}, driver.Completion{ID: id, Token: m.Token, Outcome: driver.MessageSent})
		case "dead":
			w.killEnqueued()
		}
	}
	later := w.clock().Add(365 * day)
	bodies := &driver.PruneParams{DedupeWindow: 1000 * day, Retention: day, Now: later}
	w.prune(bodies)
	w.enqueue(outboxMessage("sent", nil)) // while its row is kept
	same(w, "messages", []string{"dead", "sent", "waits"}, w.messageIDs())
	w.prune(windows(day, later))
	same(w, "messages", []string{"dead", "waits"}, w.messageIDs())
	m := w.leaseEnqueued()
	if m.ID != "waits" || string(m.Body) != "body of waits" {
		w.Errorf("leased %+v, want the message that waited, whole", m)
	}
	same(w, "replayed", []bool{true}, w.replayDead(time.Time{}, outboxLetter("dead")))
	if m = w.leaseEnqueued(); string(m.Body) != "body of dead" {
		w.Errorf("leased %+v, want the dead message, whole", m)
	}
	w.enqueue(outboxMessage("sent", nil))
	if m = w.leaseEnqueued(); m.ID != "sent" || m.Attempt != 1 {
		w.Errorf("leased %+v, want a new message under the old id", m)
	}
}

// messageIDs returns the ids of all messages, sorted.
func (w *bench[T]) messageIDs() []string {
	w.Helper()
	var all []string
	for _, m := range w.listMessages(&driver.MessageFilter{}).Messages {
		all = append(all, m.ID)
	}
	slices.Sort(all)
	return all
}

// outboxPruneOfItsEvent prunes an event while a message that it caused is open. The message has a
// body of its own.
func outboxPruneOfItsEvent[T any](w *bench[T]) {
	c := w.queue(t0, "evt_1")[0]
	w.succeed(t0, w.take(t0, "evt_1"))
	w.enqueue(outboxMessage("m1", &c))
	w.prune(windows(day, w.clock().Add(365*day)))
	w.absent("stripe", "evt_1")
	m := w.leaseEnqueued()
	if string(m.Body) != "body of m1" || m.EventID != "evt_1" {
		w.Errorf("leased %+v, want it whole", m)
	}
}

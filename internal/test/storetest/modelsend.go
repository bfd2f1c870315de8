package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// stepLease leases, and checks that the store took the maximum number and the oldest messages, or
// with Untried the newest. The contract leaves two things open: the order between due messages and
// messages with an expired lease, and how many messages without attempts left one call buries.
func (w *world) stepLease() string {
	p := driver.LeaseParams{
		Destination: []string{"to-audit", "to-billing"}[w.rand.IntN(2)], Limit: 1 + w.rand.IntN(4),
		For: modelLease, MaxAttempts: modelAttempts, Now: w.now, Untried: w.rand.IntN(4) == 0,
	}
	here := func(m *modelMessage) bool {
		return m.detail.Destination == p.Destination && (!p.Untried || m.detail.Attempts == 0)
	}
	due := w.messages(func(m *modelMessage) bool { return here(m) && m.due(w.now) })
	again := w.messages(func(m *modelMessage) bool { return here(m) && m.ranOut(w.now) && !m.usedUp() })
	usedUp := w.messages(func(m *modelMessage) bool { return here(m) && m.ranOut(w.now) && m.usedUp() })

	got := map[string]driver.Message{}
	leased := w.leaseAndBury(&p)
	messages := leased.Messages
	for _, m := range messages {
		got[m.ID] = m
	}
	most := min(p.Limit, len(due)+len(again))
	if len(got) != len(messages) || len(got) > most || (len(usedUp) == 0 && len(got) < most) {
		w.Fatalf("leased %d messages, %d of them different, want %d: %+v", len(messages), len(got), most, messages)
	}
	found := w.take(due, got, p.Untried, func(m *modelMessage) time.Time { return m.detail.DueAt })
	if n := w.take(again, got, p.Untried, func(m *modelMessage) time.Time { return m.detail.LeasedUntil }); n > 0 {
		found += n
		w.seen["leased again"] = true
	}
	if found != len(got) {
		w.Errorf("leased messages that were not due: %+v", messages)
	}
	w.seen["leased"] = w.seen["leased"] || found > 0
	buried := w.bury(usedUp, leased.Buried)
	if all := len(due) + len(again) + len(usedUp); all <= p.Limit && found+buried != all {
		w.Errorf("leased %d and buried %d messages, want %d in all", found, buried, all)
	}
	return fmt.Sprintf("lease of %d of %d messages", p.Limit, len(due)+len(again)+len(usedUp))
}

// take applies the leases to the candidates in the model. It first checks that no skipped candidate
// is older than a leased one, or newer if newest is set.
func (w *world) take(
	candidates []*modelMessage, got map[string]driver.Message, newest bool, since func(*modelMessage) time.Time,
) (found int) {
	w.Helper()
	before := func(a, b *modelMessage) bool {
		if newest {
			a, b = b, a
		}
		return since(a).Before(since(b))
	}
	var last *modelMessage
	for _, m := range candidates {
		if _, ok := got[m.detail.ID]; ok && (last == nil || before(last, m)) {
			last = m
		}
	}
	var until time.Time
	if last != nil {
		until = since(last) // before the lease moves it
	}
	for _, m := range candidates {
		lease, ok := got[m.detail.ID]
		if !ok {
			if at := since(m); last != nil && !at.Equal(until) && at.Before(until) != newest {
				w.Errorf("message %s, due since %v, was skipped for one due since %v", m.detail.ID, at, until)
			}
			continue
		}
		found++
		want := m.message()
		want.Token, want.Attempt = lease.Token, m.detail.Attempts+1
		want.Headers, want.Body = m.event.claim.Headers, m.event.claim.Body
		if lease.Token <= m.token() {
			w.Errorf("message %s has token %d after %d", m.detail.ID, lease.Token, m.token())
		}
		same(w, "leased message", want, lease)
		m.leased(w.now, lease.Token)
	}
	return found
}

// bury applies the messages that the store reports as dead to the model.
func (w *world) bury(usedUp []*modelMessage, dead []driver.Message) (buried int) {
	w.Helper()
	for _, d := range dead {
		n := slices.IndexFunc(usedUp, func(m *modelMessage) bool { return m.detail.ID == d.ID })
		if n < 0 {
			w.Fatalf("message %+v was buried, want only messages without attempts left", d)
		}
		same(w, "buried message", usedUp[n].message(), d)
		usedUp[n].buried(w.now)
		buried++
		w.seen["used up"] = true
	}
	return buried
}

// someLeases picks messages that were leased before, each with one of its tokens: three times out
// of four the latest.
func (w *world) someLeases() (picked []*modelMessage, tokens []int64) {
	before := w.messages(func(m *modelMessage) bool { return len(m.tokens) > 0 })
	for _, i := range w.rand.Perm(len(before)) {
		if len(picked) == 3 {
			break
		}
		m, token := before[i], before[i].token()
		if w.rand.IntN(4) == 0 {
			token = m.tokens[w.rand.IntN(len(m.tokens))]
		}
		picked, tokens = append(picked, m), append(tokens, token)
	}
	return picked, tokens
}

func (w *world) stepComplete() string {
	var completions []driver.Completion
	var want []bool
	picked, tokens := w.someLeases()
	for i, m := range picked {
		d := driver.Completion{
			ID: m.detail.ID, Token: tokens[i], Outcome: driver.MessageOutcome(1 + w.rand.IntN(3)),
			RetryIn:    time.Duration(w.rand.IntN(30_000)) * time.Millisecond,
			StatusCode: 200 + w.rand.IntN(400), Took: time.Duration(w.rand.IntN(1e6)) * time.Microsecond,
		}
		if d.Outcome == driver.MessageRetry && m.usedUp() {
			d.Outcome = driver.MessageDead // as a relay does after the last attempt
		}
		held := m.held(d.Token)
		if held {
			m.completed(w.now, &d)
		}
		w.seen["held"] = w.seen["held"] || held
		w.seen["stale"] = w.seen["stale"] || !held
		completions, want = append(completions, d), append(want, held)
	}
	same(w, "answers", want, w.complete(w.now, completions...))
	return fmt.Sprintf("completion of %d messages", len(completions))
}

func (w *world) stepRelease() string {
	var leases []driver.MessageLease
	picked, tokens := w.someLeases()
	for i, m := range picked {
		if m.held(tokens[i]) {
			m.released(w.now)
		}
		leases = append(leases, driver.MessageLease{ID: m.detail.ID, Token: tokens[i]})
	}
	w.release(w.now, leases...)
	return fmt.Sprintf("release of %d leases", len(leases))
}

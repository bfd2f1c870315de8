package storetest

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func evidenceCases() []testCase {
	return []testCase{
		{"NewestDeliveries", evidenceRecent},
		{"DeliveriesAtTheSameTime", evidenceSameTime},
		{"DeliveriesByTheStoresClock", evidenceClock},
		{"FirstOtherBody", evidenceOtherBody},
		{"TooLarge", evidenceTooLarge},
		{"Responses", evidenceResponses},
		{"ResponsesOfReplays", evidenceResponsesReplayed},
		{"Retention", evidenceRetention},
		{"ClaimedAgain", evidenceClaimedAgain},
		{"RedactDone", redactDone},
		{"RedactDead", redactDead},
		{"RedactOpen", redactOpen},
		{"RedactRepeated", redactRepeated},
		{"RedactRefused", redactRefused},
	}
}

// delivered returns the i-th duplicate, i seconds after t0.
func delivered(i int) driver.Delivery {
	return driver.Delivery{
		At: t0.Add(time.Duration(i) * time.Second), Remote: fmt.Sprint("192.0.2.", i%256, ":443"), Gateway: "gateway-2", SameBody: i%2 == 0,
	}
}

// countRecent counts the duplicates from first to last, at the time of the last one.
func (f *fixture) countRecent(key driver.Key, first, last int) {
	f.Helper()
	n := driver.DeliveryCount{Key: key, Duplicates: last - first + 1}
	for i := max(first, last-driver.MaxRecent+1); i <= last; i++ {
		n.Recent = append(n.Recent, delivered(i))
	}
	f.countAt(delivered(last).At, n)
}

// countAt counts deliveries with the same clock of the caller and of the store.
func (f *fixture) countAt(at time.Time, counts ...driver.DeliveryCount) {
	f.Helper()
	if err := f.s.CountDeliveries(f.Context(), &driver.CountDeliveriesParams{Counts: counts, Clock: at, Now: at}); err != nil {
		f.Fatalf("CountDeliveries: %v", err)
	}
}

func evidenceRecent(f *fixture) {
	c, untouched := newClaim("stripe", "evt_1", "{}"), newClaim("stripe", "evt_2", "{}")
	untouched.Remote, untouched.Gateway = "", ""
	f.claimNew(t0, c, untouched)
	want := claimed(&c, t0)
	f.sameEvent(want)
	for last := 0; last < 45; last += 9 {
		f.countRecent(c.Key, last+1, last+9)
		want.Duplicates += 9
		want.Deliveries.Count, want.Deliveries.LastAt = 1+want.Duplicates, delivered(last+9).At
		want.Recent = nil
		for i := last + 9; i > 0 && len(want.Recent) < driver.MaxRecent; i-- {
			want.Recent = append(want.Recent, delivered(i))
		}
		if len(want.Recent) < driver.MaxRecent {
			want.Recent = append(want.Recent, driver.Delivery{At: t0, Remote: c.Remote, Gateway: c.Gateway, SameBody: true})
		}
		f.sameEvent(want)
	}
	// A flush of another gateway that comes late keeps its place by time, and an older one has none.
	late := delivered(40)
	late.At, late.Gateway = late.At.Add(time.Millisecond), "gateway-3"
	now := t0.Add(time.Hour)
	if err := f.s.CountDeliveries(f.Context(), &driver.CountDeliveriesParams{
		Counts: []driver.DeliveryCount{{Key: c.Key, Duplicates: 2, Recent: []driver.Delivery{late, delivered(1)}}}, Clock: now, Now: now,
	}); err != nil {
		f.Fatal(err)
	}
	got := f.event("stripe", "evt_1")
	if len(got.Recent) != driver.MaxRecent || got.Recent[5] != late || got.Recent[0] != delivered(45) || got.Recent[19] != delivered(27) {
		f.Errorf("after a late flush the newest deliveries are %+v", got.Recent)
	}
	if got.Duplicates != 47 {
		f.Errorf("got %d duplicates, want 47: those that are not kept are counted", got.Duplicates)
	}
	f.sameEvent(claimed(&untouched, t0))
}

// evidenceSameTime counts deliveries at one time: their order is that of the calls.
func evidenceSameTime(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}")
	f.claimNew(t0, c)
	var want []driver.Delivery
	for range 3 {
		n := driver.DeliveryCount{Key: c.Key, Duplicates: 12}
		for range n.Duplicates {
			d := delivered(len(want))
			d.At = t0
			n.Recent = append(n.Recent, d)
			want = slices.Insert(want, 0, d)
		}
		f.countAt(t0, n)
	}
	same(f, "deliveries", want[:driver.MaxRecent], f.event("stripe", "evt_1").Recent)
}

// evidenceClock counts by a clock of the caller that is an hour behind that of the store.
func evidenceClock(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}")
	f.claimNew(t0, c)
	skewed := func(at time.Time) time.Time { return at.Add(-time.Hour) }
	d, future := delivered(7), delivered(11)
	d.At, future.At = skewed(d.At), skewed(future.At)
	o := driver.OtherBody{At: d.At, Headers: []byte("{}"), Body: []byte("x"), Size: 1, SHA256: sha256.Sum256([]byte("x"))}
	if err := f.s.CountDeliveries(f.Context(), &driver.CountDeliveriesParams{
		Counts: []driver.DeliveryCount{{Key: c.Key, Duplicates: 2, Recent: []driver.Delivery{d, future}, Other: &o}},
		Clock:  skewed(delivered(10).At), Now: delivered(10).At,
	}); err != nil {
		f.Fatal(err)
	}
	got := f.event("stripe", "evt_1")
	d.At, o.At, future.At = delivered(7).At, delivered(7).At, delivered(10).At
	same(f, "deliveries", []driver.Delivery{future, d, {At: t0, Remote: c.Remote, Gateway: c.Gateway, SameBody: true}}, got.Recent)
	same(f, "other body", &o, got.OtherBody)
}

func otherBody(at time.Time, body string) *driver.OtherBody {
	return &driver.OtherBody{
		At: at, Headers: []byte(`{"X-Other":["<secret>"]}`), Body: []byte(body), Size: int64(len(body)) + 7, SHA256: sha256.Sum256([]byte(body)),
	}
}

func evidenceOtherBody(f *fixture) {
	c, d := newClaim("stripe", "evt_1", "{}"), newClaim("stripe", "evt_2", "{}")
	f.claimNew(t0, c, d)
	first := otherBody(t0, "\xff\x00first"+strings.Repeat("x", driver.MaxOtherBody-7))
	ordered := sorted(c, d)
	f.countAt(t0,
		driver.DeliveryCount{Key: ordered[0].Key, Duplicates: 1},
		driver.DeliveryCount{Key: ordered[1].Key, Duplicates: 1, OtherBodies: 1, Other: first},
	)
	if got := f.event("stripe", ordered[0].EventID); got.OtherBody != nil {
		f.Errorf("the event without another body has %+v", got.OtherBody)
	}
	f.countAt(t0.Add(time.Second), driver.DeliveryCount{Key: ordered[1].Key, Duplicates: 1, OtherBodies: 1, Other: otherBody(t0.Add(time.Second), "second")})
	got := f.event("stripe", ordered[1].EventID)
	same(f, "other body", first, got.OtherBody)
	if got.Deliveries.OtherBodies != 2 {
		f.Errorf("got %d other bodies, want 2", got.Deliveries.OtherBodies)
	}
	f.countAt(t0, driver.DeliveryCount{Key: driver.EventKey("stripe", "unknown"), Duplicates: 1, Other: first, Recent: []driver.Delivery{delivered(1)}})
	f.absent("stripe", "unknown")
}

func evidenceTooLarge(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "billing")
	f.claimNew(t0, c)
	for what, n := range map[string]driver.DeliveryCount{
		"too many deliveries": {Recent: make([]driver.Delivery, driver.MaxRecent+1)},
		"a remote with NUL":   {Recent: []driver.Delivery{{At: t0, Remote: "a\x00b"}}},
		"a gateway too long":  {Recent: []driver.Delivery{{At: t0, Gateway: strings.Repeat("g", driver.MaxFigureText+1)}}},
		"a body too long":     {Other: &driver.OtherBody{At: t0, Body: make([]byte, driver.MaxOtherBody+1)}},
		"headers too long":    {Other: &driver.OtherBody{At: t0, Headers: make([]byte, driver.MaxOtherHeaders+1)}},
	} {
		n.Key, n.Duplicates = c.Key, 1
		err := f.s.CountDeliveries(f.Context(), &driver.CountDeliveriesParams{Counts: []driver.DeliveryCount{n}, Clock: t0, Now: t0})
		f.refused(what, driver.ErrBadRow, err)
	}
	m := f.leaseOne(t0, "to-billing")
	for what, d := range map[string]driver.Completion{
		"a response too long":      {Response: make([]byte, driver.MaxResponse+1)},
		"a type too long":          {Response: []byte("x"), ResponseType: strings.Repeat("t", driver.MaxResponseType+1)},
		"a type that is not UTF-8": {Response: []byte("x"), ResponseType: "\xff"},
	} {
		d.ID, d.Token, d.Outcome = m.ID, m.Token, driver.MessageRetry
		_, err := f.s.Complete(f.Context(), &driver.CompleteParams{Completions: []driver.Completion{d}, Now: t0})
		f.refused(what, driver.ErrBadRow, err)
	}
	f.sameEvent(sending(claimed(&c, t0), 0, t0, 1))
}

// respond fails the due message of a destination with a response, and returns its attempt's number.
func (f *fixture) respond(destination string, outcome driver.MessageOutcome, response string) driver.Message {
	f.Helper()
	m := f.leaseOne(t0, destination)
	d := driver.Completion{ID: m.ID, Token: m.Token, Outcome: outcome, StatusCode: 500, Error: fmt.Sprintf("answered 500: %q", response)}
	if response != "" {
		d.Response, d.ResponseType = []byte(response), "text/html; charset=utf-8"
	}
	f.mustComplete(t0, d)
	return m
}

// responses returns the kept responses of an event by the number of the attempt.
func (f *fixture) responses(id string) map[string]string {
	f.Helper()
	kept := map[string]string{}
	for _, a := range f.event("stripe", id).Tries {
		if a.Response == nil {
			if a.ResponseType != "" {
				f.Errorf("attempt %d has no response, and the content type %q", a.Number, a.ResponseType)
			}
			continue
		}
		if a.ResponseType != "text/html; charset=utf-8" {
			f.Errorf("attempt %d has the content type %q", a.Number, a.ResponseType)
		}
		kept[fmt.Sprint(a.Generation, ".", a.Number)] = string(a.Response)
	}
	return kept
}

func evidenceResponses(f *fixture) {
	c, other := newClaim("stripe", "evt_1", "{}", "billing"), newClaim("stripe", "evt_2", "{}", "crm")
	f.claimNew(t0, c, other)
	const hostile = "\xff\x00\x1b[2J<script>"
	f.respond("to-crm", driver.MessageRetry, "of the other message")
	for i, step := range []struct {
		response string
		want     map[string]string
	}{
		{hostile, map[string]string{"0.1": hostile}},
		{"second", map[string]string{"0.1": hostile, "0.2": "second"}},
		{"third", map[string]string{"0.1": hostile, "0.3": "third"}},
		{"", map[string]string{"0.1": hostile}}, // no answer: the one before is no longer the last
	} {
		f.respond("to-billing", driver.MessageRetry, step.response)
		same(f, fmt.Sprint("responses after attempt ", i+1), step.want, f.responses("evt_1"))
	}
	m := f.leaseOne(t0, "to-billing")
	f.mustComplete(t0, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent, StatusCode: 200, Response: []byte("thanks"), ResponseType: "text/plain"})
	same(f, "responses after a success", map[string]string{"0.1": hostile}, f.responses("evt_1"))
	same(f, "responses of the other message", map[string]string{"0.1": "of the other message"}, f.responses("evt_2"))
	// A completion after the lease is lost changes nothing.
	same(f, "completions", []bool{false}, f.complete(t0, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageDead, Response: []byte("late")}))
	same(f, "responses after a late completion", map[string]string{"0.1": hostile}, f.responses("evt_1"))
}

// evidenceResponsesReplayed keeps the first failure of all generations, and the first failure has no
// response if it had no answer.
func evidenceResponsesReplayed(f *fixture) {
	c, silent := newClaim("stripe", "evt_1", "{}", "billing"), newClaim("stripe", "evt_2", "{}", "crm")
	f.claimNew(t0, c, silent)
	f.respond("to-billing", driver.MessageRetry, "first")
	f.respond("to-billing", driver.MessageDead, "second")
	f.reopen(t0, c.Key)
	f.respond("to-billing", driver.MessageRetry, "third")
	same(f, "responses", map[string]string{"0.1": "first", "1.1": "third"}, f.responses("evt_1"))
	f.respond("to-crm", driver.MessageRetry, "")
	f.respond("to-crm", driver.MessageRetry, "second")
	f.respond("to-crm", driver.MessageRetry, "third")
	same(f, "responses behind a first failure without one", map[string]string{"0.3": "third"}, f.responses("evt_2"))
}

// withEvidence claims an event, and gives it duplicates, another body and responses. Its message is
// sent in the end.
func (f *fixture) withEvidence(id string) driver.Claim {
	f.Helper()
	c := newClaim("stripe", id, "{}", id)
	f.claimNew(t0, c)
	f.countAt(t0.Add(time.Second), driver.DeliveryCount{
		Key: c.Key, Duplicates: 1, OtherBodies: 1, Recent: []driver.Delivery{delivered(1)}, Other: otherBody(t0.Add(time.Second), "other"),
	})
	f.respond("to-"+id, driver.MessageRetry, "first answer")
	m := f.leaseOne(t0, "to-"+id)
	f.mustComplete(t0, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent, StatusCode: 200})
	return c
}

func evidenceRetention(f *fixture) {
	c := f.withEvidence("evt_1")
	want := f.event("stripe", "evt_1")
	if want.OtherBody == nil || len(want.Recent) != 2 || len(f.responses("evt_1")) != 1 {
		f.Fatalf("the evidence is %+v", want)
	}
	now := t0.Add(2 * day)
	same(f, "pruned", driver.PruneResult{Bodies: 1}, f.prune(&driver.PruneParams{DedupeWindow: 30 * day, Retention: day, Now: now}))
	bodyless(want).OtherBody = nil
	want.Tries[0].Response, want.Tries[0].ResponseType = nil, ""
	f.sameEvent(want)
	// Past retention, a delivery is still noted, and no body is kept again.
	f.countAt(now, driver.DeliveryCount{Key: c.Key, Duplicates: 1, OtherBodies: 1, Recent: []driver.Delivery{{At: now, Remote: "r"}}, Other: otherBody(now, "late")})
	got := f.event("stripe", "evt_1")
	if got.OtherBody != nil {
		f.Errorf("past retention there is the other body %+v, want none", got.OtherBody)
	}
	if len(got.Recent) != 3 || got.Recent[0].Remote != "r" {
		f.Errorf("past retention the deliveries are %+v, want the new one first", got.Recent)
	}
}

// evidenceClaimedAgain claims an event again after its identity was pruned: nothing of the first
// claim shows.
func evidenceClaimedAgain(f *fixture) {
	c := f.withEvidence("evt_1")
	now := t0.Add(2 * day)
	same(f, "pruned", driver.PruneResult{Events: 1}, f.prune(windows(day, now)))
	c.Remote, c.Gateway = "198.51.100.1:1", "gateway-9"
	f.claimNew(now, c)
	f.sameEvent(claimed(&c, now))
	second := otherBody(now, "second")
	f.countAt(now, driver.DeliveryCount{Key: c.Key, Duplicates: 1, OtherBodies: 1, Other: second})
	same(f, "other body", second, f.event("stripe", "evt_1").OtherBody)
}

func (f *fixture) redact(p driver.RedactParams) driver.Redacted {
	f.Helper()
	got, err := f.s.Redact(f.Context(), &p)
	if err != nil {
		f.Fatalf("Redact: %v", err)
	}
	got.Remains = "" // differs from store to store
	return *got
}

// redacted returns the detail of an event after it was redacted at a time.
func redacted(want *driver.EventDetail, at time.Time, requestID string) *driver.EventDetail {
	bodyless(want).OtherBody = nil
	for i := range want.Tries {
		a := &want.Tries[i]
		if a.Response, a.ResponseType = nil, ""; a.Error != "" {
			a.Error = driver.ErrorRedacted
		}
	}
	for i := range want.Messages {
		if m := &want.Messages[i]; m.LastError != "" {
			m.LastError = driver.ErrorRedacted
		}
	}
	if want.LastError != "" {
		want.LastError = driver.ErrorRedacted
	}
	want.History = append(want.History, driver.HistoryEntry{At: at, Action: driver.ActionRedacted, Generation: want.Generation, RequestID: requestID})
	return want
}

func redactDone(f *fixture) {
	c, other := f.withEvidence("evt_1"), f.withEvidence("evt_2")
	untouched, want := f.event("stripe", "evt_2"), f.event("stripe", "evt_1")
	if want.Redacted() {
		f.Error("the event counts as redacted before it is")
	}
	now := t0.Add(time.Hour)
	same(f, "result", driver.Redacted{}, f.redact(driver.RedactParams{Key: c.Key, RequestID: "r1", Now: now}))
	f.sameEvent(redacted(want, now, "r1"))
	if !f.event("stripe", "evt_1").Redacted() {
		f.Error("the event does not count as redacted")
	}
	f.sameEvent(untouched)
	same(f, "claim of the redacted event", []driver.ClaimResult{{Duplicate: true}}, f.claim(now, c))
	f.countAt(now, driver.DeliveryCount{Key: c.Key, Duplicates: 1, OtherBodies: 1, Recent: []driver.Delivery{{At: now}}, Other: otherBody(now, "late")})
	if got := f.event("stripe", "evt_1"); got.OtherBody != nil || got.Duplicates != want.Duplicates+1 {
		f.Errorf("after a later delivery the other body is %+v, and there are %d duplicates", got.OtherBody, got.Duplicates)
	}
	for _, mode := range replayModes {
		_, err := f.s.Replay(f.Context(), &driver.ReplayParams{Key: c.Key, Mode: mode.mode, Now: now})
		f.refused("replay of the redacted event", driver.ErrBodyPruned, err)
	}
	// Retention counts it as an event without a body.
	same(f, "pruned", driver.PruneResult{Bodies: 1}, f.prune(&driver.PruneParams{DedupeWindow: 30 * day, Retention: day, Now: t0.Add(2 * day)}))
	same(f, "pruned", driver.PruneResult{Events: 2}, f.prune(windows(day, t0.Add(2*day))))
	f.claimNew(now, c, other)
	f.sameEvent(claimed(&c, now))
}

func redactDead(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "billing", "crm")
	f.claimNew(t0, c)
	f.respond("to-billing", driver.MessageDead, "dead")
	f.respond("to-crm", driver.MessageDead, "dead too")
	want := f.event("stripe", "evt_1")
	now := t0.Add(time.Hour)
	same(f, "result", driver.Redacted{}, f.redact(driver.RedactParams{Key: c.Key, Now: now}))
	f.sameEvent(redacted(want, now, ""))
	same(f, "claim", []driver.ClaimResult{{Duplicate: true, Dead: true}}, f.claim(now, c))
	same(f, "reopened", []driver.Key(nil), f.reopen(now, c.Key))
	var letters []driver.DeadLetterRef
	for i := range want.Messages {
		letters = append(letters, driver.DeadLetterRef{Key: c.Key, MessageID: want.Messages[i].ID})
		f.refused("retry", driver.ErrBodyPruned, f.s.RetryMessage(f.Context(), &driver.RetryMessageParams{ID: want.Messages[i].ID, Now: now}))
	}
	done, err := f.s.ReplayDead(f.Context(), &driver.DeadLetterParams{Letters: letters, Now: now})
	if err != nil {
		f.Fatal(err)
	}
	same(f, "replayed", []bool{false, false}, done)
	_, err = f.s.Replay(f.Context(), &driver.ReplayParams{Key: c.Key, Now: now})
	f.refused("replay", driver.ErrBodyPruned, err)
	f.sameEvent(want)
	f.noneDue(now.Add(time.Hour), "to-billing", "after it was redacted")
	if done, err = f.s.Discard(f.Context(), &driver.DeadLetterParams{Letters: letters, Now: now}); err != nil {
		f.Fatal(err)
	}
	same(f, "discarded", []bool{true, true}, done)
	if got := f.event("stripe", "evt_1").State; got != driver.StateSkipped {
		f.Errorf("after the discard the event is %s, want it skipped", got)
	}
}

func redactOpen(f *fixture) {
	queued, routed, sent := newClaim("stripe", "queued", "{}"), newClaim("stripe", "routed", "{}", "a"), newClaim("stripe", "sending", "{}", "b")
	half := newClaim("stripe", "half", "{}", "c", "d")
	queued.Work = driver.WorkQueued
	f.claimNew(t0, queued, routed, sent, half)
	f.leaseOne(t0, "to-b")
	f.respond("to-c", driver.MessageDead, "dead")
	for _, c := range []driver.Claim{queued, routed, sent, half} {
		want := f.event("stripe", c.EventID)
		_, err := f.s.Redact(f.Context(), &driver.RedactParams{Key: c.Key, Now: t0})
		f.refused("redacting the event "+c.EventID, driver.ErrOpen, err)
		f.sameEvent(want)
	}
}

func redactRepeated(f *fixture) {
	c := f.withEvidence("evt_1")
	f.redact(driver.RedactParams{Key: c.Key, RequestID: "r1", Now: t0})
	want := f.event("stripe", "evt_1")
	for _, id := range []string{"r1", "", "r2"} {
		same(f, "result", driver.Redacted{Repeated: true}, f.redact(driver.RedactParams{Key: c.Key, RequestID: id, Now: t0.Add(time.Hour)}))
		f.sameEvent(want)
	}
	pruned := f.withEvidence("evt_2")
	f.prune(&driver.PruneParams{DedupeWindow: 30 * day, Retention: day, Now: t0.Add(2 * day)})
	want = f.event("stripe", "evt_2")
	same(f, "result past retention", driver.Redacted{}, f.redact(driver.RedactParams{Key: pruned.Key, Now: t0.Add(2 * day)}))
	f.sameEvent(redacted(want, t0.Add(2*day), ""))
}

func redactRefused(f *fixture) {
	_, err := f.s.Redact(f.Context(), &driver.RedactParams{Key: driver.EventKey("stripe", "unknown"), Now: t0})
	f.refused("an unknown event", driver.ErrNotFound, err)
	c := f.withEvidence("evt_1")
	f.replay(&driver.ReplayParams{Key: c.Key, Mode: driver.ReplaySameID, RequestID: "r1", Now: t0})
	f.sendOne(t0, "to-evt_1")
	want := f.event("stripe", "evt_1")
	_, err = f.s.Redact(f.Context(), &driver.RedactParams{Key: c.Key, RequestID: "r1", Now: t0})
	f.refused("the request id of a replay", driver.ErrRequestReused, err)
	f.sameEvent(want)
	f.redact(driver.RedactParams{Key: c.Key, RequestID: "r2", Now: t0})
	_, err = f.s.Replay(f.Context(), &driver.ReplayParams{Key: c.Key, Mode: driver.ReplaySameID, RequestID: "r2", Now: t0})
	f.refused("a replay by the request id of a redaction", driver.ErrRequestReused, err)
	for _, id := range []string{"a\x00b", "\xff"} {
		if _, err := f.s.Redact(f.Context(), &driver.RedactParams{Key: c.Key, RequestID: id, Now: t0}); err == nil {
			f.Errorf("the request id %.20q was taken", id)
		}
	}
}

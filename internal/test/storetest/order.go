package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func orderCases() []testCase {
	return []testCase{
		{"LowestFirst", orderLowestFirst},
		{"OthersNeverWait", orderOthersNeverWait},
		{"EndWakesNext", orderEndWakesNext},
		{"RetryHolds", orderRetryHolds},
		{"LeaseRunsOut", orderLeaseRunsOut},
		{"MayHaveArrived", orderMayHaveArrived},
		{"LostLease", orderLostLease},
		{"Passed", orderPassed},
		{"ClaimOrder", orderClaimOrder},
		{"SameVersion", orderSameVersion},
		{"Hold", orderHold},
		{"Pass", orderPass},
		{"Buried", orderBuried},
		{"DiscardAndUndo", orderDiscardAndUndo},
		{"JobDiscards", orderJobDiscards},
		{"ReplayPassed", orderReplayPassed},
		{"ReplayAsNew", orderReplayAsNew},
		{"Reopened", orderReopened},
		{"ReplayJoins", orderReplayJoins},
		{"JoinsAtTheLease", orderJoinsLate},
		{"OtherLine", orderOtherLine},
		{"UnansweredStays", orderUnansweredStays},
		{"Duplicate", orderDuplicate},
		{"Sweep", orderSweep},
		{"SweepRefused", orderSweepRefused},
		{"PullBack", orderPullBack},
		{"Pruned", orderPruned},
		{"Paused", orderPaused},
		{"Unordered", orderUnordered},
		{"Hurry", orderHurry},
		{"FollowerRefused", orderFollowerRefused},
		{"ForcedOnce", orderForcedOnce},
		{"BackInLine", orderBackInLine},
	}
}

// placed returns the order of a version of an object on the route a; version 0 stands for the order of the claims.
func placed(object string, version int, hold bool) *driver.Order {
	o := &driver.Order{Line: driver.ObjectVersion{Object: driver.ObjectKey("stripe", "a", object), Source: "stripe"}, Hold: hold}
	if version > 0 {
		o.Line.Version, o.Line.Shown = []byte{byte(version)}, fmt.Sprint(version)
	}
	return o
}

// newOrdered returns a claim with a message of an object's version.
func newOrdered(object string, version int, hold bool) driver.Claim {
	c := newClaim("stripe", fmt.Sprintf("%s_%d", object, version), "{}", "a")
	c.Messages[0].Order = placed(object, version, hold)
	return c
}

// letGo leases all that is due, and returns the messages that were admitted and those that are stale.
func (f *fixture) letGo(at time.Time) (admitted, passed []ordered) {
	f.Helper()
	var p driver.AdmitParams
	leased := f.lease(at, "to-a", 100)
	for i := range leased {
		p.Messages = append(p.Messages, driver.OrderedMessage{MessageLease: leaseOf(&leased[i])})
	}
	return f.admit(at, &p, leased)
}

// ordered is a leased message with its admission.
type ordered struct {
	driver.Message
	driver.Admission
}

func leaseOf(m *driver.Message) driver.MessageLease {
	return driver.MessageLease{ID: m.ID, Token: m.Token}
}

func (f *fixture) admit(at time.Time, p *driver.AdmitParams, leased []driver.Message) (admitted, passed []ordered) {
	f.Helper()
	p.Now = at
	got, err := f.s.Admit(f.Context(), p)
	if err != nil || len(got) != len(p.Messages) {
		f.Fatalf("Admit returned %d results and the error %v, want %d", len(got), err, len(p.Messages))
	}
	for i := range got {
		switch got[i].Verdict {
		case driver.Admitted:
			admitted = append(admitted, ordered{leased[i], got[i]})
		case driver.Passed:
			passed = append(passed, ordered{leased[i], got[i]})
		case driver.Unordered:
			f.Errorf("message %s is in no line", got[i].Line.Shown)
		}
	}
	return admitted, passed
}

// goes fails unless exactly the events of these ids are let go, and returns their messages.
func (f *fixture) goes(at time.Time, want ...string) []ordered {
	f.Helper()
	admitted, passed := f.letGo(at)
	same(f, "let go", want, eventsOf(admitted))
	if len(passed) > 0 {
		f.Errorf("stale: %q, want none", eventsOf(passed))
	}
	return admitted
}

func eventsOf(all []ordered) (ids []string) {
	for i := range all {
		ids = append(ids, all[i].EventID)
	}
	slices.Sort(ids)
	return ids
}

// outcomeOf returns the completion of an ordered message.
func outcomeOf(m *ordered, outcome driver.MessageOutcome) driver.Completion {
	line := m.Line
	line.Source = m.Source
	if len(line.Version) > 0 {
		line.Shown = fmt.Sprint(line.Version[0])
	}
	done := driver.Completion{ID: m.ID, Token: m.Token, Outcome: outcome, Line: &line}
	if outcome == driver.MessageRetry {
		done.StatusCode = 500
	}
	return done
}

// ends completes one of the messages.
func (f *fixture) ends(at time.Time, all []ordered, outcome driver.MessageOutcome) {
	f.Helper()
	for i := range all {
		f.mustComplete(at, outcomeOf(&all[i], outcome))
	}
}

func orderLowestFirst(f *fixture) {
	f.claimNew(t0, newOrdered("x", 3, true), newOrdered("x", 1, true), newOrdered("x", 2, true))
	for _, id := range []string{"x_1", "x_2", "x_3"} {
		got := f.goes(t0, id)
		f.noneDue(t0, "to-a", "while "+id+" is sent")
		f.ends(t0, got, driver.MessageSent)
		if n := f.event("stripe", id).Messages[0].Attempts; n != 1 {
			f.Errorf("%s has %d attempts, want 1: waiting is none", id, n)
		}
	}
	f.noneDue(t0.Add(leaseFor), "to-a", "all are sent")
}

func orderOthersNeverWait(f *fixture) {
	var claims []driver.Claim
	for v := 1; v <= 4; v++ {
		claims = append(claims, newOrdered("x", v, true), newOrdered("y", v, true))
	}
	f.claimNew(t0, claims...)
	got := f.goes(t0, "x_1", "y_1")
	f.ends(t0, slices.DeleteFunc(got, func(m ordered) bool { return m.EventID == "x_1" }), driver.MessageSent)
	f.goes(t0, "y_2")
}

// orderEndWakesNext ends messages in every way that Complete knows: the next one is due in the same commit.
func orderEndWakesNext(f *fixture) {
	for _, outcome := range []driver.MessageOutcome{driver.MessageSent, driver.MessageDead, driver.MessageStale} {
		object := fmt.Sprint("x", outcome)
		f.claimNew(t0, newOrdered(object, 1, false), newOrdered(object, 2, false))
		f.ends(t0, f.goes(t0, object+"_1"), outcome)
		f.ends(t0, f.goes(t0, object+"_2"), driver.MessageSent)
	}
}

func orderRetryHolds(f *fixture) {
	f.claimNew(t0, newOrdered("x", 2, true), newOrdered("x", 3, true))
	got := f.goes(t0, "x_2")
	retry := outcomeOf(&got[0], driver.MessageRetry)
	retry.RetryIn = time.Hour
	f.mustComplete(t0, retry)
	f.noneDue(t0.Add(time.Hour-1), "to-a", "while a version is retried its line waits")
	// A lower version that comes now is the first of the line.
	f.claimNew(t0, newOrdered("x", 1, true))
	f.ends(t0, f.goes(t0, "x_1"), driver.MessageSent)
	f.ends(t0.Add(time.Hour), f.goes(t0.Add(time.Hour), "x_2"), driver.MessageSent)
	f.goes(t0.Add(time.Hour), "x_3")
}

// orderLeaseRunsOut lets the lease of the first message run out: it counts as open, and goes again, first.
func orderLeaseRunsOut(f *fixture) {
	f.claimNew(t0, newOrdered("x", 1, true), newOrdered("x", 2, true))
	late := f.goes(t0, "x_1")
	f.claimNew(t0, newOrdered("x", 3, true))
	f.goes(t0.Add(leaseFor - time.Second)) // 3 is parked: 1 may still be sent
	again := f.goes(t0.Add(leaseFor), "x_1")
	if got := f.complete(t0.Add(leaseFor), outcomeOf(&late[0], driver.MessageSent)); got[0] {
		f.Error("the first lease is held after the second one")
	}
	f.noneDue(t0.Add(leaseFor), "to-a", "an outcome of a lost lease lets nothing go")
	f.ends(t0.Add(leaseFor), again, driver.MessageSent)
	f.goes(t0.Add(leaseFor), "x_2")
}

// orderMayHaveArrived loses the outcome of a message, in both ways. It may have arrived, so a lower version that comes later
// does not go before it, and is stale in the end.
func orderMayHaveArrived(f *fixture) {
	for i, lose := range []func(got []ordered){
		func([]ordered) {},
		func(got []ordered) { // an attempt without an answer
			retry := outcomeOf(&got[0], driver.MessageRetry)
			retry.RetryIn, retry.StatusCode = leaseFor, 0
			f.mustComplete(t0, retry)
		},
	} {
		object := fmt.Sprint("x", i)
		f.claimNew(t0, newOrdered(object, 2, true))
		lose(f.goes(t0, object+"_2"))
		f.claimNew(t0, newOrdered(object, 1, true), newOrdered(object, 3, true))
		f.goes(t0)
		again := f.goes(t0.Add(leaseFor), object+"_2")
		f.goes(t0.Add(leaseFor))
		f.ends(t0.Add(leaseFor), again, driver.MessageSent)
		_, passed := f.letGo(t0.Add(leaseFor))
		same(f, "stale", []string{object + "_1"}, eventsOf(passed))
		f.ends(t0.Add(leaseFor), passed, driver.MessageStale)
		f.ends(t0.Add(leaseFor), f.goes(t0.Add(leaseFor), object+"_3"), driver.MessageSent)
	}
}

// orderLostLease admits nothing without its lease.
func orderLostLease(f *fixture) {
	f.claimNew(t0, newOrdered("x", 1, true), newOrdered("y", 1, true))
	leased := f.lease(t0, "to-a", 10)
	p := &driver.AdmitParams{}
	for i := range leased {
		p.Messages = append(p.Messages, driver.OrderedMessage{MessageLease: leaseOf(&leased[i])})
	}
	p.Messages[0].Token--
	admitted, _ := f.admit(t0, p, leased)
	if len(admitted) != 1 || admitted[0].ID != leased[1].ID {
		f.Errorf("admitted %+v, want only the message whose lease is held", admitted)
	}
}

// orderPassed claims an older version after a newer one was sent: it is stale.
func orderPassed(f *fixture) {
	f.claimNew(t0, newOrdered("x", 5, true))
	f.ends(t0, f.goes(t0, "x_5"), driver.MessageSent)
	f.claimNew(t0, newOrdered("x", 4, true), newOrdered("x", 3, true), newOrdered("x", 6, true))
	admitted, passed := f.letGo(t0)
	same(f, "stale", []string{"x_3", "x_4"}, eventsOf(passed))
	same(f, "let go", []string{"x_6"}, eventsOf(admitted))
	for i := range passed {
		if passed[i].Newer != "5" {
			f.Errorf("newer is %q, want 5", passed[i].Newer)
		}
	}
	f.ends(t0, passed, driver.MessageStale)
	f.ends(t0, admitted, driver.MessageSent)
	versions, err := f.s.Versions(f.Context(), []driver.Key{placed("x", 1, true).Line.Object, placed("new", 1, true).Line.Object})
	if err != nil || len(versions) != 1 || versions[placed("x", 1, true).Line.Object].Shown != "6" {
		f.Errorf("versions: %+v, %v, want 6 alone", versions, err)
	}
}

// orderClaimOrder has no versions: the order is that of the claims, and nothing is stale.
func orderClaimOrder(f *fixture) {
	ids := []string{"c", "a", "b"}
	for i, id := range ids {
		c := newClaim("stripe", id, "{}", "a")
		c.Messages[0].Order = placed("x", 0, true)
		f.claimNew(t0.Add(time.Duration(i)*time.Second), c)
	}
	now := t0.Add(time.Minute)
	for _, id := range ids {
		f.ends(now, f.goes(now, id), driver.MessageSent)
	}
	f.replay(&driver.ReplayParams{Key: driver.EventKey("stripe", "c"), Mode: driver.ReplaySameID, Now: now})
	f.goes(now, "c")
}

func orderSameVersion(f *fixture) {
	f.claimNew(t0, newOrdered("x", 1, true))
	c := newClaim("stripe", "later", "{}", "a")
	c.Messages[0].Order = placed("x", 1, true)
	f.claimNew(t0.Add(time.Second), c)
	f.ends(t0.Add(time.Second), f.goes(t0.Add(time.Second), "x_1"), driver.MessageSent)
	f.goes(t0.Add(time.Second), "later") // equal is not older
}

func (f *fixture) heldLines(want int64) {
	f.Helper()
	stats, err := f.s.Stats(f.Context())
	if err != nil {
		f.Fatalf("Stats: %v", err)
	}
	got := int64(0)
	for _, d := range stats.Destinations {
		got += d.HeldLines
	}
	if got != want {
		f.Errorf("%d lines are held, want %d", got, want)
	}
}

func (f *fixture) behind(messageID string, want int) {
	f.Helper()
	if got, err := f.s.WaitingBehind(f.Context(), messageID); got != want || err != nil {
		f.Errorf("%d messages wait behind, %v, want %d", got, err, want)
	}
}

func orderHold(f *fixture) {
	f.heldLines(0)
	first := newOrdered("x", 1, true)
	f.claimNew(t0, first, newOrdered("x", 2, true), newOrdered("x", 3, true))
	f.behind(first.Messages[0].ID, 0)
	f.ends(t0, f.goes(t0, "x_1"), driver.MessageDead)
	f.goes(t0.Add(day))
	f.heldLines(1)
	f.behind(first.Messages[0].ID, 2)
	f.replayAt(t0, first.Key, driver.ReplayPlain)
	f.heldLines(0)
	f.ends(t0, f.goes(t0, "x_1"), driver.MessageSent)
	f.goes(t0, "x_2")
	f.behind(first.Messages[0].ID, 0)
}

func orderPass(f *fixture) {
	first := newOrdered("x", 1, false)
	f.claimNew(t0, first, newOrdered("x", 2, false))
	f.ends(t0, f.goes(t0, "x_1"), driver.MessageDead)
	f.heldLines(0)
	f.ends(t0, f.goes(t0, "x_2"), driver.MessageSent)
	f.prune(windows(day, t0.Add(100*day))) // the line keeps its version for the dead letter
	same(f, "replayed", []bool{true}, f.replayDead(t0, letter(&first, 0)))
	_, passed := f.letGo(t0)
	same(f, "stale", []string{"x_1"}, eventsOf(passed))
}

// orderBuried makes a message dead in Lease: its last lease ran out.
func orderBuried(f *fixture) {
	f.claimNew(t0, newOrdered("x", 1, false), newOrdered("x", 2, false))
	f.goes(t0, "x_1")
	now := t0.Add(leaseFor)
	got := f.leaseAndBury(&driver.LeaseParams{Destination: "to-a", Limit: 10, For: leaseFor, MaxAttempts: 1, Now: now})
	if len(got.Buried) != 1 || len(got.Messages) != 0 {
		f.Fatalf("Lease returned %+v, want one buried message", got)
	}
	f.noneDue(now.Add(day), "to-a", "before a sweep of the line")
	if err := f.s.SettleLines(f.Context(), []string{got.Buried[0].ID, "nothing"}); err != nil {
		f.Fatalf("SettleLines: %v", err)
	}
	f.goes(f.clock().Add(time.Second), "x_2")
}

func orderDiscardAndUndo(f *fixture) {
	first := newOrdered("x", 1, true)
	f.claimNew(t0, first, newOrdered("x", 2, true), newOrdered("x", 3, true))
	f.ends(t0, f.goes(t0, "x_1"), driver.MessageDead)
	discard := &driver.DeadLetterParams{Letters: []driver.DeadLetterRef{letter(&first, 0)}, Operation: "op", Now: t0}
	if done, err := f.s.Discard(f.Context(), discard); err != nil || !done[0] {
		f.Fatalf("Discard: %v, %v", done, err)
	}
	f.heldLines(0)
	second := f.goes(t0, "x_2")
	undo := func() {
		f.Helper()
		if got, err := f.s.Undiscard(f.Context(), &driver.UndiscardParams{Operation: "op", Limit: 10, Now: t0}); err != nil || got.Undone != 1 {
			f.Fatalf("Undiscard: %+v, %v", got, err)
		}
	}
	undo() // nothing above it was sent, so it holds the line again, behind the message that is being sent
	f.ends(t0, second, driver.MessageRetry)
	f.goes(t0)
	f.heldLines(1)
	if done, err := f.s.Discard(f.Context(), discard); err != nil || !done[0] {
		f.Fatalf("Discard again: %v, %v", done, err)
	}
	f.ends(t0, f.goes(t0, "x_2"), driver.MessageSent)
	undo() // now 2 was sent
	f.ends(t0, f.goes(t0, "x_3"), driver.MessageSent)
	f.heldLines(0)
	same(f, "replayed", []bool{true}, f.replayDead(t0, letter(&first, 0)))
	_, passed := f.letGo(t0)
	same(f, "stale", []string{"x_1"}, eventsOf(passed))
}

func orderJobDiscards(f *fixture) {
	first := newOrdered("x", 1, true)
	f.claimNew(t0, first, newOrdered("x", 2, true))
	f.ends(t0, f.goes(t0, "x_1"), driver.MessageDead)
	f.addJob(&driver.AddJobParams{ID: "job_1", Start: true, Now: t0})
	j := f.takeJob("me", t0)
	held, done := f.stepJob(&driver.JobStep{
		ID: j.ID, Fence: j.Fence, Action: driver.JobDiscard, Letters: []driver.DeadLetterRef{letter(&first, 0)}, For: time.Minute, Now: t0,
	})
	if !held || !done[0] {
		f.Fatalf("StepJob: %v, %v", held, done)
	}
	f.goes(t0, "x_2")
}

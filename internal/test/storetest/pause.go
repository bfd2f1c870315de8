package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func pauseCases() []testCase {
	return []testCase{
		{"Lease", pauseLease},
		{"ExpiredLease", pauseExpired},
		{"List", pauseList},
		{"DueDestinations", dueDestinations},
		{"Hurry", hurryWaiting},
		{"HurryInChunks", hurryChunks},
		{"Failures", lastFailures},
	}
}

func (f *fixture) pause(at time.Time, destination string) time.Time {
	f.Helper()
	got, err := f.s.PauseDestination(f.Context(), &driver.PauseParams{Destination: destination, Now: at})
	if err != nil {
		f.Fatalf("PauseDestination(%q): %v", destination, err)
	}
	return got
}

func (f *fixture) resume(destination string, want bool) {
	f.Helper()
	got, err := f.s.ResumeDestination(f.Context(), destination)
	if err != nil || got != want {
		f.Fatalf("ResumeDestination(%q) = %t, %v, want %t", destination, got, err, want)
	}
}

func (f *fixture) paused(want ...driver.PausedDestination) {
	f.Helper()
	got, err := f.s.PausedDestinations(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	same(f, "paused destinations", want, got)
}

func (f *fixture) hurry(at time.Time, destination string, limit, want int) {
	f.Helper()
	got, err := f.s.HurryMessages(f.Context(), &driver.HurryParams{Destination: destination, Limit: limit, Now: at})
	if err != nil || got != want {
		f.Errorf("HurryMessages(%q, %d) = %d, %v, want %d", destination, limit, got, err, want)
	}
}

// pauseLease changes nothing of the messages, however long the pause.
func pauseLease(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "a", "b")
	f.claimNew(t0, c)
	before := f.event("stripe", "evt_1")
	f.pause(t0, "to-a")
	later := t0.Add(100 * day)
	f.noneDue(later, "to-a", "while paused")
	untried := driver.LeaseParams{Destination: "to-a", Limit: 9, For: leaseFor, MaxAttempts: maxAttempts, Now: later, Untried: true}
	if got := f.leaseWith(&untried); len(got) > 0 {
		f.Errorf("leased %+v as a probe, want nothing while paused", got)
	}
	f.prune(windows(day, later))
	f.sameEvent(before)
	f.leaseOne(later, "to-b") // another destination
	f.resume("to-a", true)
	got := f.leaseOne(later, "to-a")
	same(f, "message", leased(&c, 0, t0, got.Token, 1), got)
}

// pauseExpired pauses while a message is sent: its outcome counts. A lease that expires stays as it
// is, and the attempts do not run out.
func pauseExpired(f *fixture) {
	f.claimNew(t0, newClaim("stripe", "evt_1", "{}", "a"), newClaim("stripe", "evt_2", "{}", "a"))
	last := driver.LeaseParams{Destination: "to-a", Limit: 2, For: leaseFor, MaxAttempts: 1, Now: t0}
	messages := f.leaseWith(&last)
	f.pause(t0, "to-a")
	f.mustComplete(t0, driver.Completion{ID: messages[0].ID, Token: messages[0].Token, Outcome: driver.MessageSent})
	last.Now = t0.Add(day)
	if got := f.leaseAndBury(&last); len(got.Messages)+len(got.Buried) > 0 {
		f.Errorf("leased and buried %+v, want nothing while paused", got)
	}
	f.resume("to-a", true)
	if got := f.leaseAndBury(&last); len(got.Buried) != 1 || got.Buried[0].ID != messages[1].ID {
		f.Errorf("leased and buried %+v after the pause, want %s buried", got, messages[1].ID)
	}
}

func pauseList(f *fixture) {
	f.paused()
	f.resume("a", false)
	names := []string{"a", "é", "it's", `"%_\`, "Z"}
	for _, name := range names {
		same(f, "time of the pause", t0, f.pause(t0, name))
	}
	same(f, "time of a repeated pause", t0, f.pause(t0.Add(time.Hour), "a"))
	slices.Sort(names)
	var all []driver.PausedDestination
	for _, name := range names {
		all = append(all, driver.PausedDestination{Destination: name, At: t0})
	}
	f.paused(all...)
	for _, bad := range []string{"", "a\x00", "\xff"} {
		if _, err := f.s.PauseDestination(f.Context(), &driver.PauseParams{Destination: bad}); !errors.Is(err, driver.ErrBadRow) {
			f.Errorf("pausing %q: %v, want %v", bad, err, driver.ErrBadRow)
		}
		f.resume(bad, false)
		f.hurry(t0, bad, 1, 0)
	}
	f.resume(names[0], true)
	f.resume(names[0], false)
	f.paused(all[1:]...)
	// The database's own clock.
	before := f.clock().Truncate(time.Microsecond)
	if at := f.pause(time.Time{}, "now"); at.Before(before) || at.After(f.clock()) {
		f.Errorf("paused at %v, want a time from %v on", at, before)
	}
}

// hurryWaiting changes only the pending messages of one destination that are due later.
func hurryWaiting(f *fixture) {
	for _, id := range []string{"waiting", "sending", "sent", "dead"} {
		f.claimNew(t0, newClaim("stripe", id, "{}", "a", "b"))
	}
	ids := map[string]driver.Message{}
	for _, m := range append(f.lease(t0, "to-a", 9), f.lease(t0, "to-b", 9)...) {
		ids[m.EventID+m.Destination] = m
	}
	complete := func(of string, outcome driver.MessageOutcome) {
		f.mustComplete(t0, driver.Completion{ID: ids[of].ID, Token: ids[of].Token, Outcome: outcome, RetryIn: time.Hour, Error: "no"})
	}
	complete("waitingto-a", driver.MessageRetry)
	complete("waitingto-b", driver.MessageRetry)
	complete("sentto-a", driver.MessageSent)
	complete("deadto-a", driver.MessageDead)
	f.claimNew(t0, newClaim("stripe", "due", "{}", "a"))
	var want []*driver.EventDetail
	for _, id := range []string{"waiting", "sending", "sent", "dead", "due"} {
		want = append(want, f.event("stripe", id))
	}
	now := t0.Add(time.Second)
	f.hurry(now, "to-nobody", 9, 0)
	f.hurry(now, "to-a", 0, 0)
	f.hurry(now, "to-a", 9, 1)
	want[0].Messages[0].DueAt = now
	for _, one := range want {
		f.sameEvent(one)
	}
	f.hurry(now, "to-a", 9, 0)
	f.pause(now, "to-b")
	f.hurry(now, "to-b", 9, 1)
	f.noneDue(now, "to-b", "while paused")
	got := f.lease(now, "to-a", 9)
	if len(got) != 2 || got[1].Attempt != 2 {
		f.Errorf("leased %+v, want the due message and the second attempt of the waiting one", got)
	}
}

// hurryChunks takes the earliest first, and no more than asked.
func hurryChunks(f *fixture) {
	for i := range 5 {
		f.claimNew(t0, newClaim("stripe", fmt.Sprint("evt_", i), "{}", "a"))
	}
	for _, m := range f.lease(t0, "to-a", 9) {
		wait := time.Hour + time.Duration(m.EventID[4]-'0')*time.Minute
		f.mustComplete(t0, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageRetry, RetryIn: wait})
	}
	now := t0.Add(time.Second)
	f.hurry(now, "to-a", 2, 2)
	got := []string{}
	for _, m := range f.lease(now, "to-a", 9) {
		got = append(got, m.EventID)
	}
	slices.Sort(got)
	same(f, "due", []string{"evt_0", "evt_1"}, got)
	f.hurry(now, "to-a", driver.MaxHurry+1, 3)
}

// racePause leases in two processes while one of them pauses: after the pause no lease begins.
func racePause(p *pair) {
	const n = 200
	for i := range n {
		p.claimNew(t0, newClaim("stripe", fmt.Sprint("evt_", i), "{}", "a"))
	}
	var paused atomic.Bool
	p.atOnce(8, func(s driver.Store, i int) error {
		if i == 0 {
			_, err := s.PauseDestination(p.Context(), &driver.PauseParams{Destination: "to-a"})
			paused.Store(err == nil)
			return err
		}
		for range n {
			was := paused.Load()
			leased, err := s.Lease(p.Context(), &driver.LeaseParams{Destination: "to-a", Limit: 1, For: leaseFor, MaxAttempts: 1})
			if err != nil {
				return err
			}
			if was && len(leased.Messages) > 0 {
				return fmt.Errorf("leased %s after the pause", leased.Messages[0].ID)
			}
			if was {
				return nil
			}
		}
		return nil
	})
}

// dueDestinations finds destinations with due messages, also such with an expired lease, and no others.
func dueDestinations(f *fixture) {
	want := func(when string, want ...string) {
		f.Helper()
		got, err := f.s.DueDestinations(f.Context(), []string{"to-due", "to-held", "to-later", "to-paused", "to-sent", "nobody", "it's"})
		if err != nil {
			f.Fatalf("DueDestinations: %v", err)
		}
		slices.Sort(got)
		same(f, when, want, got)
	}
	// A store may remember for a second that a destination had nothing due long ago.
	for _, names := range [][]string{nil, {"nobody", "to-other"}} {
		if got, err := f.s.DueDestinations(f.Context(), names); len(got) > 0 || err != nil {
			f.Errorf("DueDestinations of %q in an empty store: %v, %v", names, got, err)
		}
	}
	now := time.Now()
	f.claimNew(now.Add(-time.Hour), newClaim("stripe", "evt_1", "{}", "due", "held", "paused", "sent", "other"))
	f.claimNew(now.Add(time.Hour), newClaim("stripe", "evt_2", "{}", "later"))
	f.pause(t0, "to-paused")
	f.leaseOne(now.Add(time.Hour), "to-held")
	m := f.leaseOne(now, "to-sent")
	f.complete(now, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent})
	want("with messages of all kinds", "to-due")
	f.resume("to-paused", true)
	want("after the pause", "to-due", "to-paused")
	f.leaseOne(now.Add(-10*leaseFor), "to-due")
	want("after a lease ran out", "to-due", "to-paused")
}

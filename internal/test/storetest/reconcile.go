package storetest

import (
	"crypto/sha256"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func reconcileCases() []testCase {
	return []testCase{
		{"Looks", reconcileLooks},
		{"AnotherList", reconcileAnotherList},
		{"LeaseRunsOut", reconcileLeaseRunsOut},
		{"OneAtATime", reconcileOneAtATime},
		{"Missed", reconcileMissed},
		{"ClockWentBack", reconcileClockWentBack},
		{"Forget", reconcileForget},
		{"Listed", reconcileListed},
		{"Refused", reconcileRefused},
	}
}

// The terms of looks that no case varies.
const (
	lookEvery = 15 * time.Minute
	lookLease = time.Minute
)

func listNamed(name string) [sha256.Size]byte { return sha256.Sum256([]byte(name)) }

// takeLook returns nil if there is none to take.
func (f *fixture) takeLook(at time.Time, source, list string) *driver.Reconcile {
	f.Helper()
	got, err := f.s.TakeReconcile(f.Context(), &driver.TakeReconcileParams{Source: source, List: listNamed(list), Lease: lookLease, Every: lookEvery, Now: at})
	if err != nil {
		f.Fatalf("TakeReconcile(%q): %v", source, err)
	}
	return got
}

func (f *fixture) mustTakeLook(at time.Time, source, list string) *driver.Reconcile {
	f.Helper()
	got := f.takeLook(at, source, list)
	if got == nil {
		f.Fatalf("TakeReconcile(%q): got nothing", source)
	}
	return got
}

func (f *fixture) noLook(at time.Time, source, list, why string) {
	f.Helper()
	if got := f.takeLook(at, source, list); got != nil {
		f.Errorf("TakeReconcile(%q): got %+v, want nothing: %s", source, got, why)
	}
}

func (f *fixture) stepLook(at time.Time, look *driver.Reconcile, held bool, change func(*driver.ReconcileStep)) {
	f.Helper()
	p := &driver.ReconcileStep{Source: look.Source, Fence: look.Fence, Lease: lookLease, Now: at}
	if change != nil {
		change(p)
	}
	got, err := f.s.StepReconcile(f.Context(), p)
	if err != nil || got != held {
		f.Fatalf("StepReconcile(%q) = %t, %v, want %t", look.Source, got, err, held)
	}
}

func endLook(end *driver.ReconcileEnd) func(*driver.ReconcileStep) {
	return func(p *driver.ReconcileStep) { p.End = end }
}

func missedLook(n int64, first, last time.Time) func(*driver.ReconcileStep) {
	return func(p *driver.ReconcileStep) { p.Missed, p.FirstMissing, p.LastMissing = n, first, last }
}

// look compares the state of a source, without the fence and the store's time.
func (f *fixture) look(want driver.Reconcile) {
	f.Helper()
	all, err := f.s.Reconciles(f.Context(), []string{"none", want.Source})
	if err != nil || len(all) != 1 || all[0].Now.IsZero() || all[0].Fence <= 0 {
		f.Fatalf("Reconciles: got %+v, error %v", all, err)
	}
	want.Fence, want.Now = all[0].Fence, all[0].Now
	same(f, "state of "+want.Source, want, all[0])
}

func reconcileLooks(f *fixture) {
	want := driver.Reconcile{Source: "pay", List: listNamed("a"), BeganAt: t0, DoneUntil: t0, NextAt: t0, LeasedUntil: t0.Add(lookLease)}
	look := f.mustTakeLook(t0, "pay", "a")
	if look.Source != "pay" || !look.BeganAt.Equal(t0) || !look.DoneUntil.Equal(t0) || !look.Now.Equal(t0) {
		f.Errorf("the first look is %+v", look)
	}
	f.look(want)
	f.noLook(t0.Add(lookLease-1), "pay", "a", "it is held")
	f.mustTakeLook(t0, "other", "a")

	f.stepLook(t0.Add(30*time.Second), look, true, nil)
	want.LeasedUntil = t0.Add(30*time.Second + lookLease)
	f.look(want)
	until := t0.Add(-10 * time.Minute)
	f.stepLook(t0.Add(40*time.Second), look, true, endLook(&driver.ReconcileEnd{DoneUntil: until, Next: lookEvery, Unreadable: 3}))
	want.LeasedUntil, want.DoneUntil, want.EndedAt, want.Unreadable = time.Time{}, until, t0.Add(40*time.Second), 3
	want.NextAt = t0.Add(40*time.Second + lookEvery)
	f.look(want)
	f.noLook(want.NextAt.Add(-time.Microsecond), "pay", "a", "it is not due")

	look = f.mustTakeLook(want.NextAt, "pay", "a")
	if !look.DoneUntil.Equal(until) || !look.BeganAt.Equal(t0) {
		f.Errorf("the second look is %+v", look)
	}
	f.stepLook(want.NextAt, look, true, endLook(&driver.ReconcileEnd{Next: time.Hour, Error: "the key has expired"}))
	want.EndedAt, want.NextAt, want.Error, want.Unreadable = want.NextAt, want.NextAt.Add(time.Hour), "the key has expired", 0
	f.look(want)
}

// Another list begins again, but not while a look at the former one runs.
func reconcileAnotherList(f *fixture) {
	look := f.mustTakeLook(t0, "pay", "a")
	f.noLook(t0.Add(time.Second), "pay", "b", "it is held")
	f.stepLook(t0.Add(time.Second), look, true, endLook(&driver.ReconcileEnd{DoneUntil: t0, Next: lookEvery}))
	at := t0.Add(time.Minute)
	other := f.mustTakeLook(at, "pay", "b")
	if !other.BeganAt.Equal(at) || !other.DoneUntil.Equal(at) || other.Fence <= look.Fence {
		f.Errorf("the look at another list is %+v, want it to begin at %s", other, at)
	}
}

func reconcileLeaseRunsOut(f *fixture) {
	first := f.mustTakeLook(t0, "pay", "a")
	f.stepLook(t0.Add(2*lookLease), first, true, nil) // no other process has taken it
	second := f.mustTakeLook(t0.Add(3*lookLease), "pay", "a")
	if second.Fence <= first.Fence {
		f.Errorf("fence %d after %d", second.Fence, first.Fence)
	}
	f.stepLook(t0.Add(3*lookLease), first, false, missedLook(1, t0, t0))
	f.stepLook(t0.Add(3*lookLease), first, false, endLook(&driver.ReconcileEnd{DoneUntil: t0.Add(day), Next: day, Error: "late"}))
	f.look(driver.Reconcile{Source: "pay", List: listNamed("a"), BeganAt: t0, DoneUntil: t0, NextAt: t0, LeasedUntil: t0.Add(4 * lookLease)})
}

func reconcileOneAtATime(f *fixture) {
	var wg sync.WaitGroup
	taken := make([]*driver.Reconcile, 16)
	errs := make([]error, len(taken))
	for i := range taken {
		wg.Go(func() {
			taken[i], errs[i] = f.s.TakeReconcile(f.Context(), &driver.TakeReconcileParams{Source: "pay", List: listNamed("a"), Lease: time.Hour, Every: lookEvery})
		})
	}
	wg.Wait()
	got := 0
	for i, look := range taken {
		if errs[i] != nil {
			f.Errorf("TakeReconcile: %v", errs[i])
		}
		if look != nil {
			got++
		}
	}
	if got != 1 {
		f.Errorf("%d of %d callers took the look, want 1", got, len(taken))
	}
}

// Missing events of a day are added up.
func reconcileMissed(f *fixture) {
	look := f.mustTakeLook(t0, "pay", "a")
	hour := func(n time.Duration) time.Time { return t0.Add(n * time.Hour) }
	want := driver.Reconcile{Source: "pay", List: listNamed("a"), BeganAt: t0, DoneUntil: t0, NextAt: t0}
	for _, step := range []struct {
		at                time.Time
		n                 int64
		first, last       time.Time
		missed            int64
		sumFirst, sumLast time.Time
	}{
		{hour(0), 2, hour(-3), hour(-2), 2, hour(-3), hour(-2)},
		{hour(1), 3, hour(-5), hour(-4), 5, hour(-5), hour(-2)},
		{hour(2), 1, hour(-1), hour(-1), 6, hour(-5), hour(-1)},
		{hour(3), 0, time.Time{}, time.Time{}, 6, hour(-5), hour(-1)},
		{hour(26), 4, hour(20), hour(21), 4, hour(20), hour(21)},
	} {
		f.stepLook(step.at, look, true, missedLook(step.n, step.first, step.last))
		want.Missed, want.FirstMissing, want.LastMissing, want.LeasedUntil = step.missed, step.sumFirst, step.sumLast, step.at.Add(lookLease)
		if step.n > 0 {
			want.FoundAt = step.at
		}
		f.look(want)
	}
}

func reconcileClockWentBack(f *fixture) {
	ahead := t0.Add(day)
	look := f.mustTakeLook(ahead, "pay", "a")
	again := f.mustTakeLook(t0, "pay", "a") // a lease of a day is none
	f.stepLook(ahead, look, false, nil)
	f.stepLook(ahead, again, true, endLook(&driver.ReconcileEnd{DoneUntil: ahead, Next: lookEvery}))
	f.mustTakeLook(t0, "pay", "a")
}

func reconcileForget(f *fixture) {
	look := f.mustTakeLook(t0, "pay", "a")
	f.mustTakeLook(t0, "other", "a")
	for range 2 {
		if err := f.s.ForgetReconciles(f.Context(), []string{"pay", "none"}); err != nil {
			f.Fatal(err)
		}
	}
	f.stepLook(t0, look, false, nil)
	f.look(driver.Reconcile{Source: "other", List: listNamed("a"), BeganAt: t0, DoneUntil: t0, NextAt: t0, LeasedUntil: t0.Add(lookLease)})
	at := t0.Add(time.Second)
	if anew := f.mustTakeLook(at, "pay", "a"); !anew.BeganAt.Equal(at) || anew.Fence <= look.Fence {
		f.Errorf("after it was forgotten, the look is %+v", anew)
	}
	for _, none := range [][]string{nil, {}} {
		if all, err := f.s.Reconciles(f.Context(), none); err != nil || len(all) != 0 {
			f.Errorf("Reconciles of no source: %v, %v", all, err)
		}
	}
}

// Listings and details tell which events no delivery brought, also after a late one.
func reconcileListed(f *fixture) {
	missed, arrived := newClaim("pay", "evt_missed", "{}"), newClaim("pay", "evt_arrived", "{}")
	missed.Remote = driver.RemoteReconcile
	f.claimNew(t0, missed, arrived)
	late := driver.DeliveryCount{Key: missed.Key, Duplicates: 1, Recent: []driver.Delivery{{At: t0.Add(time.Second), Remote: "192.0.2.7:1", SameBody: true}}}
	if err := f.s.CountDeliveries(f.Context(), &driver.CountDeliveriesParams{Counts: []driver.DeliveryCount{late}}); err != nil {
		f.Fatal(err)
	}
	page := f.events(&driver.EventFilter{Source: "pay"})
	if len(page.Events) != 2 {
		f.Fatalf("listed %+v", page.Events)
	}
	for i := range page.Events {
		e := &page.Events[i]
		if want := e.EventID == "evt_missed"; e.Reconciled != want || f.event("pay", e.EventID).Reconciled != want {
			f.Errorf("%s is listed as reconciled: %t, want %t", e.EventID, e.Reconciled, want)
		}
	}
}

func reconcileRefused(f *fixture) {
	for _, p := range []driver.TakeReconcileParams{
		{Lease: 1, Every: 1}, {Source: "a\x00", Lease: 1, Every: 1}, {Source: "a", Every: 1}, {Source: "a", Lease: 1},
	} {
		if _, err := f.s.TakeReconcile(f.Context(), &p); !errors.Is(err, driver.ErrBadRow) {
			f.Errorf("TakeReconcile(%+v): error %v, want ErrBadRow", p, err)
		}
	}
	look := f.mustTakeLook(t0, "pay", "a")
	for _, p := range []driver.ReconcileStep{
		{},
		{Lease: 1, Missed: -1},
		{Lease: 1, Missed: 1},
		{Lease: 1, End: &driver.ReconcileEnd{}},
		{Lease: 1, End: &driver.ReconcileEnd{Next: 1, Error: "a\x00"}},
		{Lease: 1, End: &driver.ReconcileEnd{Next: 1, Error: strings.Repeat("a", driver.MaxReconcileError+1)}},
	} {
		p.Source, p.Fence = look.Source, look.Fence
		if _, err := f.s.StepReconcile(f.Context(), &p); !errors.Is(err, driver.ErrBadRow) {
			f.Errorf("StepReconcile(%+v): error %v, want ErrBadRow", p, err)
		}
	}
}

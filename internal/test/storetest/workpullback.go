package storetest

import (
	"context"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func pullBackCases[T any]() []workCase[T] {
	return []workCase[T]{
		{"Events", pullBackEvents[T]},
		{"ARun", pullBackRun[T]},
		{"Messages", pullBackMessages[T]},
		{"Limit", pullBackLimit[T]},
		{"Arming", pullBackArming[T]},
		{"DatabaseClock", pullBackNow[T]},
		{"AfterAnHour", pullBackSmall[T]},
	}
}

// jumped is the time of a clock that was set by mistake.
var jumped = t0.Add(200 * day)

// longWait is a wait beyond driver.MaxAhead that a handler asked for.
const longWait = 3 * day

func (w *bench[T]) pullBack(at time.Time, sources, destinations []string) [2]int {
	w.Helper()
	events, messages, err := w.s.PullBack(w.Context(), &driver.PullBackParams{
		Sources: sources, Destinations: destinations, Limit: 100, Now: at,
	})
	if err != nil {
		w.Fatalf("PullBack: %v", err)
	}
	return [2]int{events, messages}
}

// pullBackSmall has a clock that was ahead by two hours. A close look pulls back a lease, and work without an attempt.
func pullBackSmall[T any](w *bench[T]) {
	ahead := t0.Add(2 * time.Hour)
	w.queue(ahead, "fresh")
	tried := w.queue(t0, "tried")
	w.retryAt(t0, &tried[0], 3*time.Hour)
	sent := newClaim("stripe", "sent", "{}", "leased", "held", "waits", "fresh")
	w.claimNew(t0, sent)
	w.leaseOne(ahead, "to-leased")
	w.leaseOne(t0, "to-held")
	m := w.leaseOne(t0, "to-waits")
	w.mustComplete(t0, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageRetry, RetryIn: 3 * time.Hour, Error: "503"})
	late := newClaim("stripe", "late", "{}", "fresh")
	w.claimNew(ahead, late)
	sources, destinations := []string{"stripe"}, []string{"to-leased", "to-held", "to-waits", "to-fresh"}
	same(w, "pulled by a usual look", [2]int{}, w.pullBack(t0, sources, destinations))
	events, messages, err := w.s.PullBack(w.Context(), &driver.PullBackParams{
		Sources: sources, Destinations: destinations, Limit: 100, Ahead: time.Minute, Now: t0,
	})
	same(w, "pulled", []any{1, 2, nil}, []any{events, messages, err})
	if run := w.takeWith(w.takeParams(t0, 100, false)); run == nil {
		w.Error("the fresh event is not due")
	} else {
		w.abandon(run)
	}
	same(w, "due time of the message that was never tried", t0, w.event("stripe", "late").Messages[0].DueAt)
	w.dueFrom(t0.Add(3*time.Hour), "tried")
	if got := w.leaseOne(t0.Add(driver.LongestLease), "to-leased"); !got.Expired {
		w.Errorf("leased %+v, want an expired lease", got)
	}
}

// retryAt records a failed attempt of an event, with a wait.
func (w *bench[T]) retryAt(at time.Time, c *driver.Claim, wait time.Duration) {
	w.Helper()
	p := w.takeParams(at, 1, false)
	p.Keys = []driver.Key{c.Key}
	run := w.takeThese(p, c.EventID)
	result := retried(&run.Events()[0])
	result.RetryIn = wait
	w.finish(at, run, result)
}

// dueFrom fails unless a tried event is due from a time on, and not before.
func (w *bench[T]) dueFrom(at time.Time, id string) {
	w.Helper()
	p := w.takeParams(at.Add(-time.Microsecond), 100, true)
	for _, from := range []time.Duration{0, time.Microsecond} {
		p.Now = p.Now.Add(from)
		run := w.takeWith(p)
		due := false
		if run != nil {
			for _, e := range run.Events() {
				due = due || e.EventID == id
			}
			w.abandon(run)
		}
		if due != (from > 0) {
			w.Errorf("event %s is due at %v: %v, want it due from %v on", id, p.Now, due, at)
		}
	}
}

// pullBackEvents has events that were claimed, retried and reserved while the clock was ahead, and
// others whose handlers asked for long waits.
func pullBackEvents[T any](w *bench[T]) {
	w.queue(t0, "reserved")
	w.reserveThese(jumped, time.Minute, "reserved")
	all := w.queue(t0, "short", "long", "long before", "soon before")
	w.retryAt(t0, &all[2], longWait)
	w.retryAt(t0, &all[3], driver.MaxAhead)
	w.retryAt(jumped, &all[0], retryIn)
	w.retryAt(jumped, &all[1], longWait)
	w.queue(jumped, "fresh")
	now := t0.Add(time.Hour)
	same(w, "pulled of another source", [2]int{}, w.pullBack(now, []string{"github", ""}, []string{"stripe"}))
	same(w, "pulled", [2]int{4, 0}, w.pullBack(now, []string{"github", "stripe"}, nil))
	same(w, "pulled again", [2]int{}, w.pullBack(now, []string{"stripe"}, nil))
	same(w, "pulled an hour later", [2]int{}, w.pullBack(now.Add(time.Hour), []string{"stripe"}, nil))
	run := w.takeWith(w.takeParams(now, 100, false))
	if run == nil || len(run.Events()) != 2 {
		w.Fatalf("took %v, want the reserved and the fresh event, due at once", run)
	}
	w.abandon(run)
	w.dueFrom(now.Add(retryIn), "short")
	w.dueFrom(now.Add(longWait), "long")
	w.dueFrom(t0.Add(longWait), "long before")
	w.dueFrom(t0.Add(driver.MaxAhead), "soon before")
}

// pullBackRun has a run that was interrupted while the clock was ahead. The sweep finds it, and the
// wait after that attempt is pulled back too. A run in progress goes on.
func pullBackRun[T any](w *bench[T]) {
	c := w.queue(t0, "evt_1")[0]
	w.interrupt(w.take(jumped, "evt_1"))
	now := t0.Add(time.Hour)
	w.pullBack(now, []string{"stripe"}, nil)
	same(w, "lost", []driver.LostRun{lostAlone(&c, 1, false)}, w.sweep(now.Add(time.Hour)))

	p := w.takeParams(now.Add(day), 1, true)
	w.interrupt(w.takeThese(p, "evt_1"))
	same(w, "lost", []driver.LostRun{lostAlone(&c, 2, false)}, w.sweep(jumped))
	same(w, "pulled", [2]int{1, 0}, w.pullBack(now, []string{"stripe"}, nil))
	run := w.takeTried(now.Add(sweepMax), "evt_1")
	w.effect(run)
	w.beside("pulling back beside a run", func(ctx context.Context) error {
		_, _, err := w.s.PullBack(ctx, &driver.PullBackParams{Sources: []string{"stripe"}, Limit: 1, Now: t0.Add(-365 * day)})
		return err
	})
	w.succeed(now, run)
	w.effects("evt_1#0")
}

// pullBackMessages has messages that were claimed, leased, retried and released while the clock was
// ahead, and others that wait long.
func pullBackMessages[T any](w *bench[T]) {
	complete := func(at time.Time, route string, wait time.Duration) {
		w.Helper()
		m := w.leaseOne(at, "to-"+route)
		w.mustComplete(at, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageRetry, RetryIn: wait, Error: "503"})
	}
	routes := []string{"fresh", "short", "long", "leased", "released", "before"}
	c := newClaim("stripe", "evt_1", "{}", routes...)
	w.claimNew(t0, c)
	complete(t0, "before", longWait)
	complete(jumped, "short", retryIn)
	complete(jumped, "long", longWait)
	w.leaseOne(jumped, "to-leased")
	m := w.leaseOne(jumped, "to-released")
	w.release(jumped, driver.MessageLease{ID: m.ID, Token: m.Token})
	late := newClaim("stripe", "evt_2", "{}", "fresh")
	w.claimNew(jumped, late)
	now := t0.Add(time.Hour)
	var destinations []string
	for _, route := range routes {
		destinations = append(destinations, "to-"+route)
	}
	same(w, "pulled of another destination", [2]int{}, w.pullBack(now, []string{"to-short"}, []string{"to", "to-shorter"}))
	same(w, "pulled", [2]int{0, 5}, w.pullBack(now, nil, destinations))
	same(w, "pulled again", [2]int{}, w.pullBack(now, nil, destinations))
	want := map[string]time.Time{
		"fresh": t0, "short": now.Add(retryIn), "long": now.Add(longWait), "leased": {}, "released": now,
		"before": t0.Add(longWait),
	}
	got := map[string]time.Time{}
	for _, d := range w.event("stripe", "evt_1").Messages {
		got[d.Route] = d.DueAt
	}
	same(w, "due times", want, got)
	same(w, "due time of a message that was claimed then", now, w.event("stripe", "evt_2").Messages[0].DueAt)
	if got := w.lease(now.Add(driver.LongestLease-time.Microsecond), "to-leased", 1); len(got) > 0 {
		w.Errorf("leased %+v again, want its lease to hold as long as a lease may", got)
	}
	if got := w.leaseOne(now.Add(driver.LongestLease), "to-leased"); !got.Expired {
		w.Errorf("leased %+v, want an expired lease", got)
	}
}

func pullBackLimit[T any](w *bench[T]) {
	for _, id := range numbered(5) {
		c := newQueued(id, "billing")
		w.claimNew(jumped, c)
	}
	p := &driver.PullBackParams{Sources: []string{"stripe"}, Destinations: []string{"to-billing"}, Limit: 3, Now: t0}
	for _, want := range []int{3, 2, 0} {
		events, messages, err := w.s.PullBack(w.Context(), p)
		if events != want || messages != want || err != nil {
			w.Errorf("PullBack returned %d, %d and the error %v, want %d of each", events, messages, err, want)
		}
	}
}

func pullBackNow[T any](w *bench[T]) {
	w.queue(w.clock().Add(driver.MaxAhead+time.Hour), "far")
	w.queue(w.clock().Add(driver.MaxAhead-time.Hour), "near")
	same(w, "pulled", [2]int{1, 0}, w.pullBack(time.Time{}, []string{"stripe"}, nil))
	w.abandon(w.take(time.Time{}, "far"))
}

// pullBackArming has sources that were armed while the clock was ahead. They must not take a secret for
// longer than they were armed for.
func pullBackArming[T any](w *bench[T]) {
	pull := func(at time.Time, sources ...string) {
		w.Helper()
		events, messages, err := w.s.PullBack(w.Context(), &driver.PullBackParams{Armable: sources, Limit: 1, Now: at})
		if err != nil || events+messages != 0 {
			w.Errorf("PullBack returned %d, %d and the error %v, want 0", events, messages, err)
		}
	}
	all := []string{"asana", "notion", "intercom", "none"}
	w.arm(jumped, "asana", time.Hour, false)
	w.arm(jumped, "notion", 2*day, true) // longer than driver.MaxAhead
	w.arm(t0, "intercom", time.Hour, false)
	pull(t0.Add(time.Minute), "intercom", "none")
	w.sameSecrets("asana", jumped.Add(time.Hour))
	pull(t0.Add(time.Minute), all...)
	w.sameSecrets("asana", t0.Add(time.Minute+time.Hour))
	w.sameSecrets("notion", t0.Add(time.Minute+2*day))
	w.sameSecrets("intercom", t0.Add(time.Hour))
	pull(t0.Add(time.Hour), all...) // as often as it may be
	w.learn(t0.Add(time.Minute+time.Hour), "asana", "late", false)
	w.learn(t0.Add(time.Hour), "notion", "in time", true)
	w.sameSecrets("notion", time.Time{}, learned("in time", t0.Add(time.Hour)))

	w.arm(time.Now().Add(200*day), "asana", time.Hour, false) // the database's own clock
	pull(time.Time{}, "asana")
	state, err := w.s.LearnedSecrets(w.Context(), []string{"asana"})
	if err != nil || !state[0].Armed() || state[0].ArmedUntil.Sub(state[0].Now) > time.Hour {
		w.Errorf("armed for an hour, as the database sees it: %+v, error %v", state, err)
	}
}

package failover

import (
	"context"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// steady is how many answers 200 of each gateway show that it works.
const steady = 30

// world is a cluster, gateways and a load.
type world struct {
	*cluster
	load *load
}

func newWorld(t *testing.T, o options) *world {
	t.Helper()
	w := &world{cluster: startCluster(t, o), load: newLoad(t)}
	w.load.addGateway(byHosts, w.byHosts())
	w.load.addGateway(byProxy, w.byProxy())
	ctx, cancel := context.WithCancel(context.Background())
	conn, err := connectWithin(ctx, eventually.Bound, w.byProxy())
	if err == nil {
		_, err = conn.Exec(ctx, createEffects)
		_ = conn.Close(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.load.consume(ctx, w.byProxy(), o.careless)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return w
}

// steady waits until each gateway has answered 200 some times since then.
func (w *world) steady(since time.Time, when string) {
	w.t.Helper()
	for _, g := range w.load.gateways {
		eventually.True(w.t, g.name+": deliveries are accepted "+when, func() bool { return g.successes(since) >= steady })
	}
}

// result is the outcome of one trial.
type result struct {
	fault   string
	settled time.Duration            // until the cluster has dealt with the fault
	silence map[string]time.Duration // by gateway: the longest time without a 200
	refused map[string]int           // by gateway: answers 503
	extra   int                      // events that the old primary had alone
	fresh   int                      // events that were acknowledged for the first time in this trial
	figures
}

// pass is a trial that finds no fault.
func (w *world) pass(f fault) result {
	w.t.Helper()
	r := w.trial(f)
	for _, what := range r.faults {
		w.t.Error(what)
	}
	if w.t.Failed() {
		w.t.FailNow()
	}
	return r
}

// trial hurts the cluster under load, lets it heal under load, and checks everything.
func (w *world) trial(f fault) result {
	w.t.Helper()
	w.load.start()
	old := w.waitHealthy()
	w.steady(time.Now(), "at first")

	r := result{fault: f.name, silence: make(map[string]time.Duration), refused: make(map[string]int)}
	struck := time.Now()
	heal := f.strike(w.cluster, old)
	f.settle(w.cluster, old)
	r.settled = time.Since(struck)
	w.steady(time.Now(), "after: "+f.name)
	for _, g := range w.load.gateways {
		r.silence[g.name] = g.silence(struck).Round(time.Millisecond)
	}
	r.extra = w.extra(old)
	if heal != nil {
		heal()
	}
	w.waitHealthy()
	w.steady(time.Now(), "with the old primary back")
	w.load.finish()
	primary := w.waitHealthy()
	r.figures = w.load.check(primary)
	r.fresh, w.load.before = r.acked-w.load.before, r.acked
	w.load.checkStandbys(w.cluster, primary)
	for _, g := range w.load.gateways {
		g.count(func() { r.refused[g.name], g.unavailable, g.answered = g.unavailable, 0, nil })
	}
	w.t.Logf("%s of %s: settled after %s, without a 200 for %v, 503: %v, only on the old primary: %d, acknowledged so far: %d, sent again: %d",
		f.name, old.name, r.settled.Round(time.Millisecond), r.silence, r.refused, r.extra, r.acked, r.again)
	return r
}

// extra returns how many events the old primary has that the new one lacks, 0 if it does not answer.
func (w *world) extra(old *node) (n int) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	stray, err := old.read(ctx)
	if err != nil {
		return 0
	}
	now, err := w.waitPrimary().read(ctx)
	if err != nil {
		return 0
	}
	for id := range stray {
		if _, found := now[id]; !found {
			n++
		}
	}
	return n
}

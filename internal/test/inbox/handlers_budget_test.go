package inbox_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// Slow queued and Inline handlers use all connections that they may. Messages are leased and sent,
// and their outcomes recorded, all the same.
func TestHandlersLeaveConnections(t *testing.T) {
	t.Parallel()
	l := onPGX(t)
	most := l.db.WorkLimits().MaxTransactions
	began, release := make(chan struct{}, 1000), make(chan struct{})
	var running, peak atomic.Int32
	slow := func(ctx context.Context, tx pgx.Tx, ev *hookonce.Event) error {
		for n, before := running.Add(1), peak.Load(); n > before && !peak.CompareAndSwap(before, n); before = peak.Load() {
		}
		defer running.Add(-1)
		began <- struct{}{}
		<-release
		return l.insert(ctx, tx, ev.ID)
	}
	mux := handling(slow)
	hookonce.Handle(mux, "inline", "push", slow)
	log := &rig.Log{}
	in := inbox(t, l, mux, func(c *hookonce.Config) {
		c.Workers, c.Batch, c.Logger = most+2, 1, log.Logger()
		addSource(c, "inline", func(s *hookonce.Source) { s.Inline = true })
		addSource(c, "routed", nil)
		sendBy(c, func(context.Context, *hookonce.Outgoing) error { return nil })
		c.Routes[0].Sources = []string{"routed"}
	})
	log.WantOne(t, "Config.Workers is larger than the store's pool allows")
	run(t, in)
	var wg sync.WaitGroup
	for i := range most + 2 {
		deliverAll(t, in, fmt.Sprint("queued ", i))
		wg.Go(func() {
			id := fmt.Sprint("inline ", i)
			if got := deliver(in, delivery(id, fmt.Sprintf("{%q: 1}", id), to("inline"))); got != ok {
				t.Errorf("an Inline delivery: %+v, want ok", got)
			}
		})
	}
	for range most {
		<-began
	}
	for i := range 5 {
		id := fmt.Sprint("routed ", i)
		deliverTo(t, in, "routed", id)
		waitForSent(t, l.db, "routed", id)
	}
	if n := int(peak.Load()); n != most {
		t.Errorf("%d handlers ran at a time, want %d", n, most)
	}
	close(release)
	wg.Wait()
	for i := range most + 2 {
		wantDone(t, l, fmt.Sprint("queued ", i))
	}
}

// waitForSent waits until the message of an event is recorded as sent at its first attempt.
func waitForSent(t *testing.T, db driver.Store, source, id string) {
	t.Helper()
	eventually.True(t, "the message of "+id+" is sent", func() bool {
		ev, err := db.Event(t.Context(), source, id)
		if err != nil || len(ev.Messages) != 1 {
			t.Fatalf("event %s: %+v, error %v; want one message", id, ev, err)
		}
		m := ev.Messages[0]
		if m.State == driver.StateSent && m.Attempts != 1 {
			t.Errorf("the message of %s took %d attempts", id, m.Attempts)
		}
		return m.State == driver.StateSent
	})
}

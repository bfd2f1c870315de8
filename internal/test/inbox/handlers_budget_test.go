package inbox_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

// Slow queued and Inline handlers use all connections that they may. Messages are leased and sent,
// and their outcomes recorded, all the same.
func TestHandlersLeaveConnections(t *testing.T) {
	t.Parallel()
	l := onPGX(t)
	most := l.db.WorkLimits().MaxTransactions
	began, release := make(chan struct{}, 1000), make(chan struct{})
	var running, peak atomic.Int32
	mux := &hookonce.Mux[pgx.Tx]{}
	slow := func(ctx context.Context, tx pgx.Tx, ev *hookonce.Event) error {
		for n, before := running.Add(1), peak.Load(); n > before && !peak.CompareAndSwap(before, n); before = peak.Load() {
		}
		defer running.Add(-1)
		began <- struct{}{}
		<-release
		return l.insert(ctx, tx, ev.ID)
	}
	hookonce.Handle(mux, "gh", "push", slow)
	hookonce.Handle(mux, "inline", "push", slow)
	log := &rig.Log{}
	in := inbox(t, l, mux, func(c *hookonce.Config) {
		c.Workers, c.Batch, c.Logger = most+4, 1, slog.New(slog.NewTextHandler(log, nil))
		source := hookonce.Source{Provider: provider.GitHub, Secrets: hookonce.StaticSecrets(secret), AckTimeout: 30 * time.Second}
		inlined, routed := source, source
		inlined.Name, inlined.Inline, routed.Name = "inline", true, "routed"
		c.Sources = append(c.Sources, inlined, routed)
		c.Destinations = []hookonce.Destination{{Name: "app", Sender: hookonce.SenderFunc(
			func(context.Context, *hookonce.Outgoing) error { return nil },
		)}}
		c.Routes = []hookonce.Route{{Name: "r", Sources: []string{"routed"}, To: "app"}}
	})
	if all := strings.Join(log.Lines(), ""); !strings.Contains(all, "Config.Workers is larger than the store's pool allows") {
		t.Errorf("the log does not warn about too many workers:\n%s", all)
	}
	run(t, in)
	to := func(source, id string) *http.Request {
		// GitHub signs no id, so a claim waits for that of another delivery with the same body.
		r := delivery(id, fmt.Sprintf("{%q: 1}", id))
		r.URL.Path = "/webhooks/" + source
		return r
	}
	var wg sync.WaitGroup
	for i := range most + 4 {
		deliverAll(t, in, fmt.Sprint("queued ", i))
		wg.Go(func() {
			if got := deliver(in, to("inline", fmt.Sprint("inline ", i))); got != ok {
				t.Errorf("an Inline delivery: %+v, want ok", got)
			}
		})
	}
	for range most {
		<-began
	}
	for i := range 10 {
		id := fmt.Sprint("routed ", i)
		if got := deliver(in, to("routed", id)); got != ok {
			t.Fatalf("a routed delivery: %+v, want ok", got)
		}
		waitForSent(t, l.db, "routed", id)
	}
	if n := int(peak.Load()); n != most {
		t.Errorf("%d handlers ran at a time, want %d", n, most)
	}
	close(release)
	wg.Wait()
	for i := range most + 4 {
		wantOutcome(t, l, fmt.Sprint("queued ", i), done)
	}
}

// Slow queued handlers use all connections that they may. An Inline handler still has one.
func TestInlineHasAShareOfTheConnections(t *testing.T) {
	t.Parallel()
	l := onPGXOf(t, 4)
	most := l.db.WorkLimits().MaxTransactions
	began, release := make(chan struct{}, 1000), make(chan struct{})
	mux := &hookonce.Mux[pgx.Tx]{}
	hookonce.Handle(mux, "gh", "push", func(ctx context.Context, tx pgx.Tx, ev *hookonce.Event) error {
		began <- struct{}{}
		<-release
		return l.insert(ctx, tx, ev.ID)
	})
	hookonce.Handle(mux, "inline", "push", func(ctx context.Context, tx pgx.Tx, ev *hookonce.Event) error {
		return l.insert(ctx, tx, ev.ID)
	})
	in := inbox(t, l, mux, func(c *hookonce.Config) {
		c.Workers, c.Batch = most, 1
		c.Sources = append(c.Sources, hookonce.Source{
			Name: "inline", Inline: true, Provider: provider.GitHub, Secrets: hookonce.StaticSecrets(secret), AckTimeout: 30 * time.Second,
		})
	})
	run(t, in)
	for i := range most + 2 {
		deliverAll(t, in, fmt.Sprint("queued ", i))
	}
	for range most - 1 {
		<-began
	}
	for i := range 5 {
		r := delivery(fmt.Sprint("inline ", i), "{}")
		r.URL.Path = "/webhooks/inline"
		if got := deliver(in, r); got != ok {
			t.Fatalf("an Inline delivery: %+v, want ok", got)
		}
	}
	if len(began) > 0 {
		t.Errorf("%d more queued handlers began", len(began))
	}
	close(release)
	for i := range most + 2 {
		wantOutcome(t, l, fmt.Sprint("queued ", i), done)
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

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

func TestDatabaseStopped(t *testing.T) {
	t.Parallel()
	began := time.Now()
	outage(t, func(server *dbtest.Server) {
		began = time.Now()
		server.Stop(t)
	}, func(server *dbtest.Server) {
		// The promise is ack_timeout, 3 s. A slow machine may take longer to answer, but a call
		// that waits for its connection to break takes minutes.
		if took := time.Since(began); took > time.Minute {
			t.Errorf("three refusals took %s", took)
		}
		server.Cont(t)
	})
}

func TestDatabaseKilledAndRestarted(t *testing.T) {
	t.Parallel()
	outage(t, func(server *dbtest.Server) { server.Kill(t) }, func(server *dbtest.Server) { server.Restart(t) })
}

// outage delivers to a gateway before, during and after an outage of its server. The gateway keeps
// running.
func outage(t *testing.T, hurt, heal func(*dbtest.Server)) {
	t.Helper()
	server := dbtest.StartServer(t, nil)
	w := newWorld(t, privateDatabase(t, server), standardSettings)
	g := w.start(t)
	g.expect(t, push("before"), "200 ok")
	hurt(server)
	for i := range 3 {
		g.expect(t, push(fmt.Sprintf("during-%d", i)), "503")
	}
	g.eventually(t, "/readyz is 503", func() bool { return g.readiness() == http.StatusServiceUnavailable })
	heal(server)
	recovered(t, w, g)
}

// A gateway whose database does not answer still stops in time.
func TestStopWhileDatabaseIsStopped(t *testing.T) {
	t.Parallel()
	server := dbtest.StartServer(t, nil)
	w := newWorld(t, privateDatabase(t, server), standardSettings)
	g := w.start(t)
	g.expect(t, push("before"), "200 ok")
	server.Stop(t)
	g.expect(t, push("during"), "503")
	g.killed = true // a failed write may change its exit code
	g.stop(t)
}

// privateDatabase returns a database on a server that belongs to this test alone.
func privateDatabase(t *testing.T, server *dbtest.Server) *database {
	t.Helper()
	return &database{store: "postgres", url: server.DSN(), dsn: server.DSN()}
}

// recovered waits until the gateway works again, and checks the deliveries from before, during and
// after the outage.
func recovered(t *testing.T, w *world, g *gateway) {
	t.Helper()
	g.eventually(t, "/readyz is 200 again", func() bool { return g.readiness() == http.StatusOK })
	g.eventually(t, "a retry is accepted", func() bool {
		return g.deliver(t, push("during-0")).status == http.StatusOK
	})
	for _, id := range []string{"before", "during-0"} {
		g.expect(t, push(id), "200 duplicate")
	}
	g.expect(t, push("after"), "200 ok")
	for _, id := range []string{"before", "during-0", "after"} {
		g.waitState(t, "github", id, "done")
		webhookIDs := make(map[string]bool)
		for _, r := range w.sink.requests(id) {
			webhookIDs[r.id()] = true
		}
		if len(webhookIDs) != 1 {
			t.Errorf("%s was forwarded under %d webhook-ids, want 1", id, len(webhookIDs))
		}
	}
}

// Another process holds SQLite's write lock.
func TestSQLiteLockedByAnotherProcess(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, "sqlite")
	w := newWorld(t, db, standardSettings)
	g := w.start(t)
	g.expect(t, push("before"), "200 ok")
	g.waitState(t, "github", "before", "done")

	conn, err := db.open(t).Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		g.expect(t, push(fmt.Sprintf("during-%d", i)), "503")
	}
	if _, err := conn.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	recovered(t, w, g)
}

// TestAckedSurvivesKill delivers without pause while it kills the gateway at random moments and
// starts it again. Every acknowledged id is stored in the end, and was forwarded under one
// webhook-id.
func TestAckedSurvivesKill(t *testing.T) {
	eachStore(t, func(t *testing.T, db *database) {
		w := newWorld(t, db, standardSettings)
		acked := make(map[string]bool)
		for round := range 5 {
			g := w.start(t)
			after := 20 + rand.N(200)
			for id := range deliverUntilKilled(t, g, round, after) {
				acked[id] = true
			}
		}
		g := w.start(t)
		listed := make(map[string]bool)
		for _, ev := range g.waitAllDone(t, "github") {
			listed[ev.EventID] = true
		}
		for id := range acked {
			webhookIDs := make(map[string]bool)
			for _, r := range w.sink.requests(id) {
				webhookIDs[r.id()] = true
			}
			if !listed[id] || len(webhookIDs) != 1 {
				t.Errorf("%s was acknowledged; listed: %t, forwarded under %d webhook-ids", id, listed[id], len(webhookIDs))
			}
		}
		t.Logf("%d acknowledged, %d events", len(acked), len(listed))
	})
}

// deliverUntilKilled delivers over several connections, kills the gateway after the given number of
// acknowledged deliveries, and returns all that were acknowledged.
func deliverUntilKilled(t *testing.T, g *gateway, round, after int) map[string]bool {
	t.Helper()
	var (
		mu      sync.Mutex
		acked   = make(map[string]bool)
		enough  = make(chan struct{})
		dead    atomic.Bool
		senders sync.WaitGroup
	)
	for sender := range 8 {
		senders.Go(func() {
			for i := 0; !dead.Load(); i++ {
				id := fmt.Sprintf("r%d-s%d-%d", round, sender, i)
				a, err := g.tryDeliver(push(id))
				if err != nil {
					continue // cut off, so not acknowledged
				}
				if a.status != http.StatusOK {
					t.Errorf("%s: %s before the kill", id, a.short())
					continue
				}
				mu.Lock()
				acked[id] = true
				if len(acked) == after {
					close(enough)
				}
				mu.Unlock()
			}
		})
	}
	eventually.Receive(t, fmt.Sprintf("round %d: %d deliveries", round, after), enough)
	g.kill(t)
	dead.Store(true)
	senders.Wait()
	return acked
}

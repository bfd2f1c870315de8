package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/dbtest"
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
	g.Eventually(t, "/readyz is 503", func() bool { return g.readiness() == http.StatusServiceUnavailable })
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
	g.Eventually(t, "/readyz is 200 again", func() bool { return g.readiness() == http.StatusOK })
	g.Eventually(t, "a retry is accepted", func() bool {
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

package hooksql_test

import (
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
)

// TestPostgresSwitchover makes the server of a running store read-only. Its sessions stay open, and
// one call may fail; then the store works on the other server of the DSN.
func TestPostgresSwitchover(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	first, second := dbtest.StartServer(t, nil), dbtest.StartServer(t, nil)
	both := withParameter(t, dbtest.Together(t, first, second), "target_session_attrs", "read-write")
	open := func(dsn string) *hooksql.PostgresStore {
		t.Helper()
		store, err := hooksql.OpenPostgres("pgx", dsn)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		if _, err := hookmigrate.Up(t.Context(), store); err != nil {
			t.Fatal(err)
		}
		return store
	}
	open(first.DSN())
	after := open(second.DSN())
	store := open(both)
	claim := func(on *hooksql.PostgresStore, id string) error {
		_, err := on.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{queued(id)}})
		return err
	}
	spread(t, first, func(i int) {
		if err := claim(store, fmt.Sprint("before ", i)); err != nil {
			t.Error(err)
		}
	})
	first.Fence(t)
	if err := claim(after, "on the second server"); err != nil {
		t.Fatal(err)
	}
	claims, failed := 0, 0
	eventually.Succeeds(t, "the store leaves the fenced server", func() error {
		claims++
		id := fmt.Sprint("after ", claims)
		if err := claim(store, id); err != nil {
			failed++
			if !errors.Is(err, driver.ErrUnavailable) {
				t.Fatalf("Claim: got the error %v, want %v", err, driver.ErrUnavailable)
			}
			return err
		}
		_, err := after.Event(t.Context(), "stripe", id)
		return err // the earlier ones were claimed before the sessions noticed
	})
	run, err := store.Take(t.Context(), &driver.TakeParams{Source: "stripe", Types: []string{"*"}, Limit: 1})
	if err != nil {
		failed++
		run, err = store.Take(t.Context(), &driver.TakeParams{Source: "stripe", Types: []string{"*"}, Limit: 1})
	}
	if err != nil || run == nil || run.Events()[0].EventID != "on the second server" {
		t.Fatalf("Take: got %+v and the error %v, want the event on the second server", run, err)
	}
	if err := run.Abandon(t.Context()); err != nil {
		t.Error(err)
	}
	if failed > 1 {
		t.Errorf("%d calls failed, want at most 1", failed)
	}
}

// spread makes calls until the server has some connections.
func spread(t *testing.T, server *dbtest.Server, call func(i int)) {
	t.Helper()
	const some = 4
	db, err := sql.Open("pgx", server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	eventually.True(t, fmt.Sprintf("the server has more than %d connections", some), func() bool {
		var calls sync.WaitGroup
		for i := range 2 * some {
			calls.Go(func() { call(i) })
		}
		calls.Wait()
		var n int
		if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%.claim(%'").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return t.Failed() || n > some
	})
}

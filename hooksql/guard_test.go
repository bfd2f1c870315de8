package hooksql_test

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"path/filepath"
	"strings"
	"testing"

	"modernc.org/sqlite"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/provider"
)

// hiding is modernc.org/sqlite, except that wrap hides its hooks.
type hiding struct {
	sqlite.Driver
	wrap func(plainConn) sqldriver.Conn
}

func (d *hiding) Open(name string) (sqldriver.Conn, error) {
	conn, err := d.Driver.Open(name)
	if err != nil {
		return nil, err
	}
	return d.wrap(plainConn{conn}), nil
}

// plainConn has no hooks.
type plainConn struct{ sqldriver.Conn }

func (c plainConn) BeginTx(ctx context.Context, opts sqldriver.TxOptions) (sqldriver.Tx, error) {
	return c.Conn.(sqldriver.ConnBeginTx).BeginTx(ctx, opts)
}

func (c plainConn) onEnd(commit func() int32, rollback func()) {
	real := c.Conn.(interface {
		RegisterCommitHook(sqlite.CommitHookFn)
		RegisterRollbackHook(sqlite.RollbackHookFn)
	})
	if commit != nil {
		real.RegisterCommitHook(commit)
	}
	if rollback != nil {
		real.RegisterRollbackHook(rollback)
	}
}

// intConn has the hooks of github.com/mattn/go-sqlite3.
type intConn struct{ plainConn }

func (c intConn) RegisterCommitHook(callback func() int) {
	c.onEnd(func() int32 {
		if callback == nil {
			return 0
		}
		return int32(callback())
	}, nil)
}

func (c intConn) RegisterRollbackHook(callback func()) {
	c.onEnd(nil, func() {
		if callback != nil {
			callback()
		}
	})
}

// boolConn has the hooks of github.com/ncruces/go-sqlite3.
type boolConn struct{ plainConn }

func (c boolConn) CommitHook(callback func() (ok bool)) {
	c.onEnd(func() int32 {
		if callback == nil || callback() {
			return 0
		}
		return 1
	}, nil)
}

func (c boolConn) RollbackHook(callback func()) { intConn(c).RegisterRollbackHook(callback) }

func init() {
	for name, wrap := range map[string]func(plainConn) sqldriver.Conn{
		"hooks-none": func(c plainConn) sqldriver.Conn { return c },
		"hooks-int":  func(c plainConn) sqldriver.Conn { return intConn{c} },
		"hooks-bool": func(c plainConn) sqldriver.Conn { return boolConn{c} },
	} {
		sql.Register(name, &hiding{wrap: wrap})
	}
}

func openHiding(t *testing.T, name string) (*hooksql.Store, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hookonce.db")
	store, err := hooksql.OpenSQLite(name, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if _, err := store.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	return store, path
}

// TestGuardOfEveryDriver writes after the end of the transaction, on drivers whose hooks differ.
func TestGuardOfEveryDriver(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"sqlite", "hooks-int", "hooks-bool"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, path := openHiding(t, name)
			execPlain(t, path, `CREATE TABLE effects (name TEXT NOT NULL) STRICT`)
			for _, id := range []string{"evt_1", "evt_2"} {
				if err := queueEvent(t.Context(), store, id); err != nil {
					t.Fatal(err)
				}
				run, err := takeFrom(t.Context(), store, 1)
				if err != nil || run == nil {
					t.Fatalf("Take: %v, %v", run, err)
				}
				if err := effect(t.Context(), run.Tx(), "before "+id); err != nil {
					t.Fatal(err)
				}
				if _, err := run.Tx().ExecContext(t.Context(), "COMMIT"); err != nil {
					t.Fatal(err)
				}
				_ = effect(t.Context(), run.Tx(), "after "+id) // the driver may report the rollback or not
				if err := run.Settle(t.Context(), outcomes(run, driver.WorkEnded)); err != nil {
					t.Fatal(err)
				}
			}
			db := openPlain(t, path)
			if got := countEffects(t, db, `SELECT name, 1 FROM effects`); len(got) != 2 || got["before evt_1"]+got["before evt_2"] != 2 {
				t.Errorf("the effects are %v, want those before the end of the transactions", got)
			}
		})
	}
}

// TestDriverWithoutHooks has no way to keep a handler in its transaction.
func TestDriverWithoutHooks(t *testing.T) {
	t.Parallel()
	store, _ := openHiding(t, "hooks-none")
	cfg := &hookonce.Config{Sources: []hookonce.Source{{
		Name: "gh", Provider: provider.GitHub, Secrets: hookonce.StaticSecrets("a-secret-of-16-bytes-or-more"),
	}}}
	if _, err := hookonce.New(store, nil, cfg); err != nil {
		t.Errorf("New without handlers: got the error %v, want none", err)
	}
	mux := &hooksql.Mux{}
	hookonce.Handle(mux, "gh", "push", func(context.Context, *sql.Tx, *hookonce.Event) error { return nil })
	if _, err := hookonce.New(store, mux, cfg); err == nil || !strings.Contains(err.Error(), "hooks") {
		t.Errorf("New: got the error %v, want one about hooks", err)
	}
	if err := queueEvent(t.Context(), store, "evt_1"); err != nil {
		t.Fatal(err)
	}
	if run, err := takeFrom(t.Context(), store, 1); run != nil || err == nil || !strings.Contains(err.Error(), "hooks") {
		t.Errorf("Take: got %v and the error %v, want one about hooks", run, err)
	}
}

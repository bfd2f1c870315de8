package hookpgx_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// TestSwitchover makes the server of a running store read-only. Its sessions stay open, and one call
// may fail; then every pool works on the other server of the DSN.
func TestSwitchover(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		open func(t *testing.T, dsn string) *hookpgx.Store
	}{
		{"with pools of its own", func(t *testing.T, dsn string) *hookpgx.Store {
			config, err := pgxpool.ParseConfig(dsn)
			if err != nil {
				t.Fatal(err)
			}
			store, err := hookpgx.Open(config, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = store.Close() })
			return store
		}},
		{"with the caller's pool", func(t *testing.T, dsn string) *hookpgx.Store {
			return connect(t, dsn+"&target_session_attrs=read-write&application_name=hookonce", hookpgx.DefaultSchema, nil).Store
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			first, second := migrated(t), migrated(t)
			both := dbtest.Together(t, first, second)
			before, after := private(t, first), private(t, second)
			store := test.open(t, both)

			before.spread(t, store)

			first.Fence(t)
			after.mustClaim(t, true, queuedClaim("on the second server"))
			failed := 0
			try := func(what string, do func() error) {
				t.Helper()
				eventually.Succeeds(t, what+" leaves the fenced server", func() error {
					err := do()
					switch {
					case err == nil, errors.Is(err, errStillThere):
					case !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrCommitUnknown):
						t.Fatalf("%s: got the error %v, want %v", what, err, driver.ErrUnavailable)
					default:
						failed++
					}
					return err
				})
			}
			claims := 0
			try("Claim", func() error {
				c := newClaim(fmt.Sprint("after ", claims), "billing")
				claims++
				if _, err := store.Claim(t.Context(), claimOf(c)); err != nil {
					return err
				}
				if after.number(t, "SELECT count(*) FROM {schema}.event WHERE key = $1", c.Key[:]) == 0 {
					return errStillThere // the session has not noticed yet
				}
				return nil
			})
			try("Lease", func() error { _, err := store.Lease(t.Context(), leaseParams()); return err })
			try("Take", func() error {
				run, err := store.Take(t.Context(), &driver.TakeParams{Source: "stripe", Types: []string{"*"}, Limit: 1})
				if err != nil {
					return err
				}
				if run == nil {
					t.Fatal("Take found no event on the second server")
				}
				defer run.Abandon(t.Context())
				if got := run.Events()[0].EventID; got != "on the second server" {
					t.Errorf("Take found the event %q, want the one on the second server", got)
				}
				return nil
			})
			if _, err := store.Event(t.Context(), "stripe", "on the second server"); err != nil {
				t.Errorf("a listing after the switchover: %v", err)
			}
			if failed > 1 {
				t.Errorf("%d calls failed, want at most 1 of six open connections", failed)
			}
		})
	}
}

// errStillThere says that a call worked on the first server.
var errStillThere = errors.New("the session does not know yet that its server is read-only")

func leaseParams() *driver.LeaseParams {
	return &driver.LeaseParams{Destination: "to-billing", Limit: 1, For: time.Hour, MaxAttempts: 3}
}

func queuedClaim(id string) driver.Claim {
	c := newClaim(id)
	c.Work = driver.WorkQueued
	return c
}

// spread makes calls of store until the server has some connections of each kind.
func (w *world) spread(t *testing.T, store *hookpgx.Store) {
	t.Helper()
	const some = 3
	eventually.True(t, fmt.Sprintf("the store opens %d connections of each kind", some), func() bool {
		var calls sync.WaitGroup
		for i := range 2 * some {
			calls.Go(func() {
				if _, err := store.Claim(t.Context(), claimOf(queuedClaim(fmt.Sprint("claim ", i)))); err != nil {
					t.Error(err)
				}
			})
			calls.Go(func() {
				if _, err := store.Lease(t.Context(), leaseParams()); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		const sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1"
		return t.Failed() || w.number(t, sessions, "hookonce receive") >= some && w.number(t, sessions, "hookonce") >= some
	})
}

package hookpgx_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/internal/test/dbtest"
)

// openHosts returns a store that makes its own pools on the hosts of dsn.
func openHosts(t *testing.T, dsn string) *hookpgx.Store {
	t.Helper()
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
}

// TestOldPrimaryIsLeft has an old primary that nobody governs: it accepts writes, but its standby has gone and is
// the second host now. The time of the claims ends, or the server is told to stop waiting.
func TestOldPrimaryIsLeft(t *testing.T) {
	t.Parallel()
	first, second := dbtest.StartServer(t, nil), dbtest.StartServer(t, nil)
	both := dbtest.Together(t, first, second)
	old, after := private(t, first), private(t, second)
	first.Shutdown(t)
	first.Restart(t, "synchronous_standby_names=nobody_here")
	for name, call := range map[string]func(claim func(context.Context) error) error{
		"the time of the claim is over": func(claim func(context.Context) error) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return claim(ctx)
		},
		"the wait is cancelled": func(claim func(context.Context) error) error {
			return old.ended(t, "pg_cancel_backend", claim)
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := openHosts(t, both)
			for i := range 3 {
				c := newClaim(fmt.Sprint(name, i))
				err := call(func(ctx context.Context) error { _, err := store.Claim(ctx, claimOf(c)); return err })
				switch {
				case err == nil && after.number(t, "SELECT count(*) FROM {schema}.event WHERE key = $1", c.Key[:]) == 1:
					return
				case err == nil:
					t.Fatal("a claim succeeded that is not on the second host")
				case !errors.Is(err, driver.ErrCommitUnknown):
					t.Fatalf("Claim on the old primary: got the error %v, want %v", err, driver.ErrCommitUnknown)
				}
			}
			t.Error("the store stays with the old primary")
		})
	}
}

// TestHostThatIsGone has a first host that does not answer. Only the first connections wait for it.
func TestHostThatIsGone(t *testing.T) {
	t.Parallel()
	server := dbtest.StartServer(t, nil)
	private(t, server)
	gone, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer gone.Close()
	var dialed atomic.Int32
	go func() {
		for {
			if _, err := gone.Accept(); err != nil {
				return
			}
			dialed.Add(1) // and says nothing
		}
	}()
	store := openHosts(t, strings.Replace(server.DSN(), server.Addr(), gone.Addr().String()+","+server.Addr(), 1))
	claim := func(id string) int32 {
		t.Helper()
		if _, err := store.Claim(t.Context(), claimOf(newClaim(id))); err != nil {
			t.Fatal(err)
		}
		hookpgx.ReceivePool(store).Reset()
		return dialed.Load()
	}
	first := claim("first")
	for i := range 3 {
		if n := claim(fmt.Sprint(i)); n != first || n == 0 {
			t.Errorf("the host that is gone was dialed %d times, and %d times by the first connections", n, first)
		}
	}
}

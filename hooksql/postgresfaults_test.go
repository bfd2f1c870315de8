package hooksql_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
)

// withParameter returns the DSN with a parameter: a setting of the session or of the driver.
func withParameter(t testing.TB, dsn, name, value string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set(name, value)
	u.RawQuery = strings.ReplaceAll(q.Encode(), "+", "%20") // PostgreSQL does not read a plus as a space
	return u.String()
}

func queued(id string) driver.Claim {
	c := newClaim(id)
	c.Messages, c.Work = nil, driver.WorkQueued
	return c
}

// mustClaim claims one event, and fails unless the result is claimed or duplicate as wanted.
func (w *postgresWorld) mustClaim(t testing.TB, want bool, c driver.Claim) {
	t.Helper()
	got, err := w.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{c}})
	if err != nil || len(got) != 1 || got[0].Claimed != want {
		t.Fatalf("Claim of %s: got %+v and the error %v, want claimed %v", c.EventID, got, err, want)
	}
}

// commit is the text of COMMIT with its end: "begin isolation level read committed" holds "commit"
// too.
const commit = "commit\x00"

// levels are default isolation levels. At the second one every write runs in a transaction with its
// own BEGIN and COMMIT.
var levels = []string{"read committed", "repeatable read"}

// behindProxy returns a store behind a proxy, and one that bypasses it.
func behindProxy(t *testing.T, level string) (proxied, direct *postgresWorld, proxy *dbtest.Proxy) {
	t.Helper()
	direct = openPostgres(t)
	server, err := url.Parse(direct.dsn)
	if err != nil {
		t.Fatal(err)
	}
	proxy = dbtest.StartProxy(t, server.Host)
	dsn := withParameter(t, proxy.DSN(t, direct.dsn), "default_transaction_isolation", level)
	return connectPostgres(t, withParameter(t, dsn, "search_path", direct.schema), direct.schema), direct, proxy
}

// wantUnknown fails unless err has the class ErrCommitUnknown and no other.
func wantUnknown(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, driver.ErrCommitUnknown) {
		t.Fatalf("%s whose reply was lost: got the error %v, want %v", what, err, driver.ErrCommitUnknown)
	}
	for _, other := range []error{driver.ErrBadRow, driver.ErrUnavailable, driver.ErrLockTimeout, driver.ErrSerialization} {
		if errors.Is(err, other) {
			t.Errorf("the error %v also says %v", err, other)
		}
	}
}

// TestPostgresLostReply loses the replies to writes. They take effect once, and their outcome is
// unknown.
func TestPostgresLostReply(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			w, direct, proxy := behindProxy(t, level)
			w.mustClaim(t, true, newClaim("before"))
			statement := map[string]string{levels[0]: ".claim(", levels[1]: commit}[level]
			for name, cut := range map[string]dbtest.Cut{"reset": dbtest.CutReset, "silence": dbtest.CutSilence} {
				c := newClaim(name)
				drop := proxy.DropReply(statement, cut)
				_, err := w.Claim(drop.Context(t), &driver.ClaimParams{Claims: []driver.Claim{c}})
				wantUnknown(t, "Claim", err)
				<-drop.Done()
				if n := direct.number(t, "SELECT count(*) FROM {schema}.message WHERE event_key = $1", c.Key[:]); n != 1 {
					t.Errorf("the claim whose reply was lost left %d messages, want 1", n)
				}
				w.mustClaim(t, false, c) // the sender's retry
			}
		})
	}
}

// TestPostgresLostReplyIsNotRepeated loses the reply to a write that would do more if it were
// repeated: to the counts of deliveries.
func TestPostgresLostReplyIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			w, direct, proxy := behindProxy(t, level)
			c := newClaim("evt_1")
			w.mustClaim(t, true, c)
			counts := &driver.CountDeliveriesParams{Counts: []driver.DeliveryCount{{Key: c.Key, Duplicates: 1}}}
			if err := w.CountDeliveries(t.Context(), counts); err != nil {
				t.Fatal(err) // from here on the statement is prepared
			}
			statement := map[string]string{levels[0]: "delivery_count", levels[1]: commit}[level]
			for i, cut := range []dbtest.Cut{dbtest.CutReset, dbtest.CutSilence, dbtest.CutReset} {
				drop := proxy.DropReply(statement, cut)
				wantUnknown(t, "CountDeliveries", w.CountDeliveries(drop.Context(t), counts))
				<-drop.Done()
				if n := direct.number(t, "SELECT duplicates FROM {schema}.delivery_count WHERE key = $1", c.Key[:]); n != i+2 {
					t.Fatalf("%d duplicates are counted, want %d", n, i+2)
				}
			}
		})
	}
}

// TestPostgresLostCommitReply loses the reply to the COMMIT of several statements.
func TestPostgresLostCommitReply(t *testing.T) {
	t.Parallel()
	w, direct, proxy := behindProxy(t, levels[0])
	c := newClaim("evt_1")
	w.mustClaim(t, true, c)
	direct.exec(t, "UPDATE {schema}.message SET state = 2, sent_at = now()")
	for i, cut := range []dbtest.Cut{dbtest.CutReset, dbtest.CutSilence} {
		drop := proxy.DropReply(commit, cut)
		_, err := w.Replay(drop.Context(t), &driver.ReplayParams{Key: c.Key, Mode: driver.ReplayAsNew})
		wantUnknown(t, "Replay", err)
		<-drop.Done()
		if n := direct.number(t, "SELECT max(generation) FROM {schema}.message"); n != i+1 {
			t.Fatalf("the generation is %d, want %d", n, i+1)
		}
		direct.exec(t, "UPDATE {schema}.message SET state = 2, sent_at = now()")
	}
}

// TestPostgresStricterLevel claims at default levels that refuse concurrent writes.
func TestPostgresStricterLevel(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			dsn, schema := dbtest.Postgres(t)
			w := connectPostgres(t, withParameter(t, dsn, "default_transaction_isolation", level), schema)
			w.migrate(t)
			for round := range 20 {
				var wg sync.WaitGroup
				results := make([]driver.ClaimResult, 6)
				for i := range results {
					wg.Go(func() {
						batch := batchOf(func(n int) driver.Claim { return newClaim(string(rune('a'+round)) + string(rune('a'+n))) }, 8)
						got, err := w.Claim(t.Context(), &driver.ClaimParams{Claims: batch})
						if err != nil {
							t.Errorf("Claim: %v", err)
							return
						}
						results[i] = got[0]
					})
				}
				wg.Wait()
				claimed := 0
				for _, result := range results {
					if result.Claimed {
						claimed++
					}
				}
				if claimed != 1 {
					t.Errorf("claimed %d times, want once", claimed)
				}
			}
		})
	}
}

// TestPostgresRestart fills the pools with connections that break all at once. Transactions and
// reads do not notice; writes recover.
func TestPostgresRestart(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	server := dbtest.StartServer(t, &dbtest.Options{Migrated: true})
	w := connectPostgres(t, server.DSN(), hooksql.DefaultSchema)
	w.mustClaim(t, true, newClaim("before"))
	for _, read := range []func() error{
		func() error { _, err := w.Event(t.Context(), "stripe", "before"); return err },
		func() error { _, err := w.Now(t.Context()); return err },
	} {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 20 {
					_, _ = w.Event(t.Context(), "stripe", "before")
					_, _ = w.Now(t.Context())
				}
			})
		}
		wg.Wait()
		server.Kill(t)
		server.Restart(t)
		if err := read(); err != nil {
			t.Errorf("after the restart: %v", err)
		}
	}
	eventually.Succeeds(t, "the store recovers", func() error {
		_, err := w.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{newClaim("after")}})
		if err != nil && !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrCommitUnknown) {
			t.Errorf("Claim after the restart: %v", err)
		}
		return err
	})
	w.mustClaim(t, false, newClaim("before"))
}

// TestPostgresDown checks that all calls report an unavailable database, and end with their
// contexts.
func TestPostgresDown(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	server := dbtest.StartServer(t, &dbtest.Options{Migrated: true})
	w := connectPostgres(t, server.DSN(), hooksql.DefaultSchema)
	calls := map[string]func(ctx context.Context) error{
		"Claim": func(ctx context.Context) error { return claim(ctx, w, "down") },
		"Lease": func(ctx context.Context) error {
			_, err := w.Lease(ctx, &driver.LeaseParams{Destination: "d", Limit: 1, For: time.Minute, MaxAttempts: 1})
			return err
		},
		"Event": func(ctx context.Context) error { _, err := w.Event(ctx, "stripe", "e"); return err },
		"Now":   func(ctx context.Context) error { _, err := w.Now(ctx); return err },
		"Apply": func(ctx context.Context) error { _, err := w.Apply(ctx); return err },
	}
	unavailable := func(when string, timeout time.Duration) {
		for name, call := range calls {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			err := call(ctx)
			cancel()
			if !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrCommitUnknown) {
				t.Errorf("%s on a server that %s: got the error %v", name, when, err)
			}
		}
	}
	server.Stop(t)
	unavailable("is frozen", 300*time.Millisecond)
	server.Cont(t)
	server.Shutdown(t)
	unavailable("was shut down", eventually.Bound)
}

// TestPostgresWeaknesses: the settings are those of the receiving pool.
func TestPostgresWeaknesses(t *testing.T) {
	t.Parallel()
	dsn, schema := dbtest.Postgres(t)
	weak := openPool(t, withParameter(t, dsn, "default_transaction_read_only", "on"), 2)
	w := newPostgres(t, dsn, openPool(t, dsn, 2), &hooksql.PostgresOptions{Schema: schema, Receive: weak})
	if found, err := w.Weaknesses(t.Context()); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("Weaknesses of a read-only session: got %v and the error %v, want %v", found, err, driver.ErrUnavailable)
	}
}

package hookpgx_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
)

// migrated starts a server for this test alone, with the tables in the default schema. config is that of dbtest.Options.
func migrated(t *testing.T, config ...string) *dbtest.Server {
	t.Helper()
	return dbtest.StartServer(t, &dbtest.Options{Config: config, Migrated: true})
}

// private returns a store on the test's own server.
func private(t *testing.T, server *dbtest.Server) *world {
	t.Helper()
	return connect(t, server.DSN(), hookpgx.DefaultSchema, nil)
}

// proxied returns two stores on one schema: the first one behind a proxy, which may lose replies.
func proxied(t *testing.T) (w, direct *world, proxy *dbtest.Proxy) {
	t.Helper()
	direct = open(t, nil)
	proxy = direct.proxy(t)
	return direct.behind(t, proxy), direct, proxy
}

// proxy returns a proxy in front of the world's server.
func (w *world) proxy(t *testing.T) *dbtest.Proxy {
	t.Helper()
	to := w.pool.Config().ConnConfig
	return dbtest.StartProxy(t, net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port))))
}

// behind returns another store on the world's schema, which connects through the proxy.
func (w *world) behind(t *testing.T, proxy *dbtest.Proxy) *world {
	t.Helper()
	return connect(t, proxy.DSN(t, w.pool.Config().ConnString()), strings.Trim(w.schema, `"`), nil)
}

func claimOf(claims ...driver.Claim) *driver.ClaimParams { return &driver.ClaimParams{Claims: claims} }

// mustClaim claims one event, and fails unless the result is claimed or duplicate as wanted.
func (w *world) mustClaim(t testing.TB, want bool, c driver.Claim) {
	t.Helper()
	got, err := w.Claim(t.Context(), claimOf(c))
	if err != nil || len(got) != 1 || got[0].Claimed != want {
		t.Fatalf("Claim of %s: got %+v and the error %v, want claimed %v", c.EventID, got, err, want)
	}
}

func TestLostCommitReply(t *testing.T) {
	t.Parallel()
	direct := open(t, nil)
	for name, cut := range map[string]dbtest.Cut{"reset": dbtest.CutReset, "silence": dbtest.CutSilence} {
		t.Run(name, func(t *testing.T) {
			proxy := direct.proxy(t)
			w := direct.behind(t, proxy)
			w.mustClaim(t, true, newClaim(name+" before", "billing"))

			c := newClaim(name, "billing")
			c.BodyGuard = driver.BodyWatch // made by the claim function
			drop := proxy.DropReply(".claim(", cut)
			got, err := w.Claim(drop.Context(t), claimOf(c))
			if !errors.Is(err, driver.ErrCommitUnknown) {
				t.Fatalf("Claim whose reply was lost: got %+v and the error %v, want %v", got, err, driver.ErrCommitUnknown)
			}
			for _, other := range []error{driver.ErrBadRow, driver.ErrUnavailable, driver.ErrLockTimeout, driver.ErrSerialization} {
				if errors.Is(err, other) {
					t.Errorf("the error %v also says %v", err, other)
				}
			}
			eventually.Receive(t, "the server answers", drop.Done())
			if n := direct.number(t, "SELECT count(*) FROM {schema}.message WHERE event_key = $1", c.Key[:]); n != 1 {
				t.Errorf("the claim whose reply was lost left %d messages, want 1", n)
			}
			w.mustClaim(t, false, c) // the sender's retry, on a fresh connection
		})
	}
}

// TestLostCommitReplyOfWork loses the reply to an outcome. The message is completed once, and the
// retry finds the lease gone.
func TestLostCommitReplyOfWork(t *testing.T) {
	t.Parallel()
	w, _, proxy := proxied(t)
	w.mustClaim(t, true, newClaim("evt_1", "billing"))
	lease, err := w.Lease(t.Context(), &driver.LeaseParams{Destination: "to-billing", Limit: 1, For: time.Hour, MaxAttempts: 3})
	if err != nil || len(lease.Messages) != 1 {
		t.Fatalf("Lease: got %+v and the error %v", lease, err)
	}
	sent := &driver.CompleteParams{Completions: []driver.Completion{{
		ID: lease.Messages[0].ID, Token: lease.Messages[0].Token, Outcome: driver.MessageSent, StatusCode: 200,
	}}}
	proxy.DropReply(".complete(", dbtest.CutReset)
	if _, err := w.Complete(t.Context(), sent); !errors.Is(err, driver.ErrCommitUnknown) {
		t.Fatalf("Complete whose reply was lost: got %v, want %v", err, driver.ErrCommitUnknown)
	}
	held, err := w.Complete(t.Context(), sent)
	if err != nil || cmp.Diff([]bool{false}, held) != "" {
		t.Errorf("Complete again: got %v and the error %v, want the lease gone", held, err)
	}
	detail, err := w.Event(t.Context(), "stripe", "evt_1")
	if err != nil || detail.State != driver.StateDone || len(detail.Tries) != 1 {
		t.Errorf("got %+v and the error %v, want it done with one attempt", detail, err)
	}
}

// wantDown fails unless err means that the database does not answer.
func wantDown(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, driver.ErrCommitUnknown) && !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("%s: got the error %v, want %v or %v", what, err, driver.ErrCommitUnknown, driver.ErrUnavailable)
	}
}

// recovered claims until the store works again.
func (w *world) recovered(t testing.TB, c driver.Claim) {
	t.Helper()
	eventually.Succeeds(t, "the store recovers", func() error {
		attempt, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := w.Claim(attempt, claimOf(c))
		if err != nil {
			wantDown(t, "Claim while the server comes back", err)
		}
		return err
	})
}

func TestFrozenServer(t *testing.T) {
	t.Parallel()
	server := migrated(t)
	w := private(t, server)
	w.mustClaim(t, true, newClaim("before"))
	server.Stop(t)
	for _, id := range []string{"first", "second", "third"} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, err := w.Claim(ctx, claimOf(newClaim(id)))
		cancel()
		wantDown(t, "Claim on a frozen server", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := w.Events(ctx, &driver.EventFilter{}); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("Events on a frozen server: got the error %v, want %v", err, driver.ErrUnavailable)
	}
	server.Cont(t)
	w.recovered(t, newClaim("after"))
	if _, err := w.Event(t.Context(), "stripe", "after"); err != nil {
		t.Error(err)
	}
}

func TestKilledServer(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	server := migrated(t)
	w := private(t, server)
	var acknowledged []driver.Claim
	for _, id := range []string{"one", "two", "three"} {
		c := newClaim(id, "billing")
		w.mustClaim(t, true, c)
		acknowledged = append(acknowledged, c)
		server.Kill(t)
		_, err := w.Claim(t.Context(), claimOf(newClaim("while down after "+id)))
		wantDown(t, "Claim on a killed server", err)
		if _, err := w.Now(t.Context()); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("Now on a killed server: got the error %v, want %v", err, driver.ErrUnavailable)
		}
		server.Restart(t)
		w.recovered(t, newClaim("after "+id))
		for _, c := range acknowledged {
			w.mustClaim(t, false, c)
		}
	}
}

func TestServerShutDown(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	server := migrated(t)
	w := private(t, server)
	server.Shutdown(t)
	_, err := w.Claim(t.Context(), claimOf(newClaim("down")))
	wantDown(t, "Claim on a server that was shut down", err)
	server.Restart(t)
	w.recovered(t, newClaim("up"))
}

// TestReadOnly checks that a read-only server counts as unavailable, on the store's own connections
// and on the caller's.
func TestReadOnly(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	server := migrated(t)
	private(t, server).mustClaim(t, true, newClaim("evt_1", "billing"))
	server.Shutdown(t)
	server.Restart(t, "default_transaction_read_only=on")

	for _, level := range []string{"read committed", "repeatable read"} { // the default of the pool's sessions
		config, err := pgxpool.ParseConfig(server.DSN())
		if err != nil {
			t.Fatal(err)
		}
		config.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
		readOnly(t, connectWith(t, config, hookpgx.DefaultSchema, nil))
	}
}

func readOnly(t *testing.T, w *world) {
	t.Helper()
	if _, err := w.Claim(t.Context(), claimOf(newClaim("evt_2"))); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("Claim on a read-only server: got the error %v, want %v", err, driver.ErrUnavailable)
	}
	if _, err := w.Weaknesses(t.Context()); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("Weaknesses of a read-only server: got the error %v, want %v", err, driver.ErrUnavailable)
	}
	lease := &driver.LeaseParams{Destination: "to-billing", Limit: 1, For: time.Hour, MaxAttempts: 3}
	if _, err := w.Lease(t.Context(), lease); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("Lease on a read-only server: got the error %v, want %v", err, driver.ErrUnavailable)
	}
}

// TestBecomesReadOnly has connections from before the server became read-only.
func TestBecomesReadOnly(t *testing.T) {
	t.Parallel()
	server := migrated(t)
	w := private(t, server)
	w.mustClaim(t, true, newClaim("before"))
	setReadOnly := func(value string) {
		w.exec(t, "ALTER SYSTEM SET default_transaction_read_only = "+value)
		w.exec(t, "SELECT pg_reload_conf()")
	}
	setReadOnly("on")
	n := 0
	eventually.True(t, "the server has read its settings again", func() bool {
		n++
		_, err := w.Claim(t.Context(), claimOf(newClaim(fmt.Sprint("claim ", n))))
		refused := errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrCommitUnknown)
		if err != nil && !refused {
			t.Fatalf("Claim on a server that became read-only: got the error %v, want %v", err, driver.ErrUnavailable)
		}
		return refused
	})
	// A duplicate has nothing to write, and is not acknowledged either.
	for _, mostlyKnown := range []bool{false, true} {
		duplicate := claimOf(newClaim("before"))
		duplicate.MostlyKnown = mostlyKnown
		if got, err := w.Claim(t.Context(), duplicate); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("Claim of a duplicate (mostly known: %v): got %+v and the error %v, want %v", mostlyKnown, got, err, driver.ErrUnavailable)
		}
	}
	setReadOnly("off")
	w.recovered(t, newClaim("after"))
}

func TestStandby(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	server := migrated(t)
	server.Shutdown(t)
	server.MakeStandby(t)
	server.Restart(t, "hot_standby=on")
	w := connect(t, server.DSN(), hookpgx.DefaultSchema, nil)
	if _, err := w.Claim(t.Context(), claimOf(newClaim("evt_1"))); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("Claim on a standby: got the error %v, want %v", err, driver.ErrUnavailable)
	}
	if _, err := w.Weaknesses(t.Context()); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("Weaknesses of a standby: got the error %v, want %v", err, driver.ErrUnavailable)
	}
}

func TestWeaknesses(t *testing.T) {
	t.Parallel()
	server := migrated(t, "fsync=off", "full_page_writes=off", "synchronous_commit=off")
	w := private(t, server)
	// Transactions raise synchronous_commit, so it is no weakness.
	wantWeaknesses(t, w, map[string]string{"fsync": "off", "full_page_writes": "off"})
}

func wantWeaknesses(t *testing.T, w *world, want map[string]string) {
	t.Helper()
	found, err := w.Weaknesses(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, weakness := range found {
		got[weakness.Setting] = weakness.Value
		if weakness.Effect == "" || weakness.Remedy == "" {
			t.Errorf("%s tells neither effect nor remedy", weakness.Setting)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("weaknesses differ (-want +got):\n%s", diff)
	}
}

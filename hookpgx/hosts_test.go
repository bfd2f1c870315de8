package hookpgx_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
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

// oldPrimary returns the DSN of two hosts. The first one is an old primary without a manager: it accepts writes, but
// its standby has gone and is the second host now.
func oldPrimary(t *testing.T) (both string, old, after *world) {
	t.Helper()
	first, second := migrated(t), migrated(t)
	both = dbtest.Together(t, first, second)
	old, after = private(t, first), private(t, second)
	first.Shutdown(t)
	first.Restart(t, "synchronous_standby_names=nobody_here")
	old.pool.Reset() // its connections ended with the server
	return both, old, after
}

// TestOldPrimaryIsLeft has such a primary. The time of the claims ends, or the server is told to stop waiting.
func TestOldPrimaryIsLeft(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	both, old, after := oldPrimary(t)
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
			unknown := 0
			eventually.True(t, "the store leaves the old primary", func() bool {
				c := newClaim(fmt.Sprint(name, unknown))
				err := call(func(ctx context.Context) error { _, err := store.Claim(ctx, claimOf(c)); return err })
				switch {
				case err == nil && after.number(t, "SELECT count(*) FROM {schema}.event WHERE key = $1", c.Key[:]) != 1:
					t.Fatal("a claim succeeded that is not on the second host")
				case errors.Is(err, driver.ErrCommitUnknown):
					if unknown++; unknown == 3 {
						t.Fatal("the store stays with the old primary")
					}
				case err != nil && !errors.Is(err, driver.ErrUnavailable): // a slow machine has not committed in time
					t.Fatalf("Claim on the old primary: got the error %v, want %v", err, driver.ErrCommitUnknown)
				}
				return err == nil
			})
		})
	}
}

// TestOldPrimaryIsLeftByEachConnection has two commits that wait on such a primary. The time of the first one ends, so the
// store leaves the host. Then the wait of the second one is cancelled: its connection must not be used again.
func TestOldPrimaryIsLeftByEachConnection(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	both, old, _ := oldPrimary(t)
	store := openHosts(t, both)
	ctx := eventually.Context(t)
	claim := func(ctx context.Context, id string) <-chan error {
		result := make(chan error, 1)
		go func() {
			_, err := store.Claim(ctx, claimOf(newClaim(id)))
			result <- err
		}()
		return result
	}
	waits := func(what string) int {
		return old.number(t, "SELECT count("+what+") FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
	}
	cancelled := claim(ctx, "is cancelled")
	brief, end := context.WithCancel(ctx)
	defer end()
	late := claim(brief, "is too late")
	eventually.True(t, "both commits wait for a standby", func() bool { return waits("pid") == 2 })
	end()
	if err := <-late; !errors.Is(err, driver.ErrCommitUnknown) {
		t.Errorf("a claim that waits for too long: got the error %v, want %v", err, driver.ErrCommitUnknown)
	}
	waits("pg_cancel_backend(pid)")
	if err := <-cancelled; !errors.Is(err, driver.ErrCommitUnknown) {
		t.Errorf("a claim whose wait is cancelled: got the error %v, want %v", err, driver.ErrCommitUnknown)
	}
	if err := <-claim(ctx, "afterwards"); err != nil {
		t.Errorf("the next claim: %v", err)
	}
}

// A store tells of a server that accepts no writes. pgx may look for any kind of server.
func TestReadOnlyServerIsNamed(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	server := dbtest.StartServer(t, nil)
	server.Fence(t)
	for _, more := range []string{"", "target_session_attrs=read-write"} {
		dsn, err := url.Parse(server.DSN())
		if err != nil {
			t.Fatal(err)
		}
		dsn.RawQuery += "&" + more
		if _, err := openHosts(t, dsn.String()).Now(t.Context()); !errors.Is(err, driver.ErrReadOnly) {
			t.Errorf("with %q: got the error %v, want %v", more, err, driver.ErrReadOnly)
		}
	}
}

// TestHostThatIsGone has a first host that does not answer. Only the first connections wait for it.
func TestHostThatIsGone(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	server := migrated(t)
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

// TestHostsAndTheirAddresses has hosts that have several addresses, or share one, or have none. A part of the
// addresses does not answer at first.
func TestHostsAndTheirAddresses(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	server := dbtest.StartServer(t, nil)
	for _, test := range []struct {
		name, hosts, ports string
		gone               string // addresses and names
		first, later, left string // the addresses that the first, a later and a leaving connection dial
	}{
		{
			"two addresses each", "one,two", "5432", "10.0.0.1:5432 [fd00::1]:5432",
			"10.0.0.1:5432 [fd00::1]:5432 10.0.0.2:5432", "10.0.0.2:5432", "10.0.0.1:5432",
		},
		{
			"the second address answers", "one,two,three", "5432", "10.0.0.1:5432 [fd00::1]:5432 10.0.0.2:5432",
			"10.0.0.1:5432 [fd00::1]:5432 10.0.0.2:5432 [fd00::2]:5432", "10.0.0.2:5432 [fd00::2]:5432", "10.0.0.3:6432",
		},
		{"a name that does not resolve", "one,two", "5432", "one", "10.0.0.2:5432", "10.0.0.2:5432", "10.0.0.1:5432"},
		{
			"a name that does not resolve, and one that is gone", "one,two,three", "5432", "one 10.0.0.2:5432 [fd00::2]:5432",
			"10.0.0.2:5432 [fd00::2]:5432 10.0.0.3:6432", "10.0.0.3:6432", "10.0.0.1:5432",
		},
		{
			"addresses with their own port", "three,one", "5432", "10.0.0.3:6432 [fd00::3]:7432",
			"10.0.0.3:6432 [fd00::3]:7432 10.0.0.1:5432", "10.0.0.1:5432", "10.0.0.3:6432",
		},
		{
			"one name with two ports", "one,one", "5432,5433", "10.0.0.1:5432 [fd00::1]:5432",
			"10.0.0.1:5432 [fd00::1]:5432 10.0.0.1:5433", "10.0.0.1:5433", "10.0.0.1:5432",
		},
		{
			"one host several times", "10.0.0.5,10.0.0.6,10.0.0.5,10.0.0.7", "5432", "10.0.0.5:5432 10.0.0.6:5432",
			"10.0.0.5:5432 10.0.0.6:5432 10.0.0.5:5432 10.0.0.7:5432", "10.0.0.7:5432", "10.0.0.5:5432",
		},
		{
			"one host twice in a row", "one,one,two", "5432", "10.0.0.1:5432 [fd00::1]:5432",
			"10.0.0.1:5432 [fd00::1]:5432 10.0.0.1:5432 [fd00::1]:5432 10.0.0.2:5432", "10.0.0.2:5432", "10.0.0.1:5432",
		},
		{
			"two names for one address", "10.0.0.5,five,one", "5432", "10.0.0.5:5432",
			"10.0.0.5:5432 10.0.0.5:5432 10.0.0.1:5432", "10.0.0.1:5432", "10.0.0.5:5432",
		},
		{
			"with TLS and without", "three,10.0.0.5,10.0.0.6", "5432&sslmode=prefer", "10.0.0.3:6432 [fd00::3]:7432 10.0.0.5:5432",
			"10.0.0.3:6432 [fd00::3]:7432 10.0.0.3:6432 [fd00::3]:7432 10.0.0.5:5432 10.0.0.5:5432 10.0.0.6:5432 10.0.0.6:5432",
			"10.0.0.6:5432 10.0.0.6:5432", "10.0.0.3:6432 [fd00::3]:7432 10.0.0.3:6432",
		},
		{
			"a socket", "one,/run/b,two", "5432", "10.0.0.1:5432 [fd00::1]:5432",
			"10.0.0.1:5432 [fd00::1]:5432 /run/b/.s.PGSQL.5432", "/run/b/.s.PGSQL.5432", "10.0.0.2:5432",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			n := &network{server: server, gone: strings.Fields(test.gone)}
			store := n.open(t, test.hosts, test.ports)
			n.dials(t, store, "the first connection", test.first)
			n.dials(t, store, "a later connection", test.later)
			n.gone = nil
			if !hookpgx.LeaveHost(t, store) {
				t.Fatal("the store does not leave the host")
			}
			n.dials(t, store, "a connection that leaves the host", test.left)
		})
	}
}

// TestRequestToCancelIsNoHost has a request to cancel that is dialed before a connection is ready.
func TestRequestToCancelIsNoHost(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	n := &network{server: dbtest.StartServer(t, nil), gone: []string{"10.0.0.5:5432"}, cancels: true}
	store := n.open(t, "10.0.0.5,10.0.0.6", "5432")
	n.dials(t, store, "the first connection", "10.0.0.5:5432 10.0.0.6:5432")
	n.dials(t, store, "a later connection", "10.0.0.6:5432")
}

// network has one server behind all addresses.
type network struct {
	server  *dbtest.Server
	gone    []string
	cancels bool // each new connection sends a request to cancel

	mu     sync.Mutex
	dialed []string
}

func (n *network) open(t *testing.T, hosts, ports string) *hookpgx.Store {
	t.Helper()
	config, err := pgxpool.ParseConfig(n.server.DSN() + "&host=" + hosts + "&port=" + ports)
	if err != nil {
		t.Fatal(err)
	}
	c := config.ConnConfig
	c.LookupFunc = func(_ context.Context, name string) ([]string, error) {
		if slices.Contains(n.gone, name) {
			return nil, errors.New("no such host")
		}
		switch name {
		case "one":
			return []string{"10.0.0.1", "fd00::1"}, nil
		case "two":
			return []string{"10.0.0.2", "fd00::2"}, nil
		case "three":
			return []string{"10.0.0.3:6432", "[fd00::3]:7432"}, nil
		case "five":
			return []string{"10.0.0.5"}, nil
		}
		return []string{name}, nil // as the usual function does for an address
	}
	c.DialFunc = func(ctx context.Context, _, address string) (net.Conn, error) {
		if address != n.server.Addr() { // a request to cancel
			n.mu.Lock()
			n.dialed = append(n.dialed, address)
			n.mu.Unlock()
		}
		if slices.Contains(n.gone, address) {
			return nil, errors.New("no route to host")
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", n.server.Addr())
	}
	if n.cancels {
		c.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error { return conn.CancelRequest(ctx) }
	}
	store, err := hookpgx.Open(config, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// dials makes a new connection for claims, and compares the addresses that it dials.
func (n *network) dials(t *testing.T, store *hookpgx.Store, what, want string) {
	t.Helper()
	n.mu.Lock()
	n.dialed = nil
	n.mu.Unlock()
	pool := hookpgx.ReceivePool(store)
	pool.Reset()
	if err := pool.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if got := strings.Join(n.dialed, " "); got != want {
		t.Errorf("%s dials %s, want %s", what, got, want)
	}
}

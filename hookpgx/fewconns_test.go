package hookpgx_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
)

// TestFewConnections has a role with fewer connections than the pools would take. What arrives is acknowledged and
// done, and the store stays ready, as all calls share what there is.
func TestFewConnections(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	limits := []int{2, 5}
	if group.Long() {
		limits = append(limits, 3)
	}
	for _, limit := range limits {
		for _, kind := range []string{"sent", "queued", "inline", "on the caller's pool"} {
			t.Run(fmt.Sprint(limit, " ", kind), func(t *testing.T) {
				t.Parallel()
				store := openFew(t, 1, limit, kind == "on the caller's pool")[0]
				var done atomic.Int64
				in := newFew(t, store, kind, &done)
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- in.Run(ctx) }()
				const n = 100
				good := deliverFrom(t, in, 0, n)
				if good < n*97/100 {
					t.Errorf("%d of %d deliveries were answered 200", good, n)
				}
				eventually.True(t, "the work of all acknowledged events is done", func() bool { return done.Load() >= good })
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestTwoGatewaysOnFewConnections has two gateways whose one role has two connections for each. Each of them acknowledges, stays
// ready and does the work of both.
func TestTwoGatewaysOnFewConnections(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	for _, kind := range []string{"sent", "queued", "inline"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			stores := openFew(t, 2, 4, false)
			var done atomic.Int64
			gateways := []*hookonce.Engine{newFew(t, stores[0], kind, &done), newFew(t, stores[1], kind, &done)}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, len(gateways))
			for _, in := range gateways {
				go func() { ended <- in.Run(ctx) }()
			}
			const n = 50
			good := make([]int64, len(gateways))
			var senders sync.WaitGroup
			for i, in := range gateways {
				senders.Go(func() { good[i] = deliverFrom(t, in, i*n, n) })
			}
			senders.Wait()
			if got := good[0] + good[1]; got < 2*n*97/100 {
				t.Errorf("%d of %d deliveries were answered 200", good, 2*n)
			}
			eventually.True(t, "the work of all acknowledged events is done", func() bool { return done.Load() >= good[0]+good[1] })
			stop()
			for range gateways {
				if err := <-ended; err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestLongHandlerOnTwoConnections has a handler that holds one of two connections. The listings of background
// calls then wait. Messages are sent meanwhile, and the engine stays ready.
func TestLongHandlerOnTwoConnections(t *testing.T) {
	t.Parallel()
	store := openFew(t, 1, 2, false)[0]
	sending, handling := github, github
	handling.Name = "handled"
	var sent atomic.Int64
	begun, release := make(chan struct{}), make(chan struct{})
	cfg := &hookonce.Config{
		Sources: []hookonce.Source{sending, handling}, Logger: slog.New(slog.DiscardHandler),
		Destinations: []hookonce.Destination{{Name: "app", Sender: hookonce.SenderFunc(func(context.Context, *hookonce.Outgoing) error {
			sent.Add(1)
			return nil
		})}},
		Routes: []hookonce.Route{{Name: "all", Sources: []string{sending.Name}, To: "app"}},
	}
	mux := &hookpgx.Mux{}
	hookonce.Handle(mux, handling.Name, "*", func(ctx context.Context, tx pgx.Tx, _ *hookonce.Event) error {
		_, err := tx.Exec(ctx, "SELECT 1")
		close(begun)
		<-release
		return err
	})
	in, err := hookonce.New(store, mux, cfg)
	if err != nil {
		t.Fatal(err)
	}
	queued := newClaim("held")
	queued.Source, queued.Key, queued.Work = handling.Name, driver.EventKey(handling.Name, "held"), driver.WorkQueued
	if _, err := store.Claim(t.Context(), claimOf(queued)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx) }()
	eventually.Receive(t, "the handler begins", begun)
	good := deliverFrom(t, in.Engine, 0, 100)
	if good < 97 {
		t.Errorf("%d of 100 deliveries were answered 200", good)
	}
	eventually.True(t, "all messages are sent beside the handler", func() bool { return sent.Load() >= good })
	close(release)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// newFew returns an engine that counts the done work of each event: a message that was sent, or a handler that ran.
func newFew(t *testing.T, store *hookpgx.Store, kind string, done *atomic.Int64) *hookonce.Engine {
	t.Helper()
	source := github
	source.Inline = kind == "inline"
	cfg := &hookonce.Config{Sources: []hookonce.Source{source}, Logger: slog.New(slog.DiscardHandler)}
	if kind == "sent" {
		cfg.Destinations = []hookonce.Destination{{Name: "app", Sender: hookonce.SenderFunc(func(context.Context, *hookonce.Outgoing) error {
			done.Add(1)
			return nil
		})}}
		cfg.Routes = []hookonce.Route{{Name: "all", To: "app"}}
		in, err := hookonce.NewEngine(store, cfg)
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	mux := &hookpgx.Mux{}
	hookonce.Handle(mux, source.Name, "*", func(ctx context.Context, tx pgx.Tx, _ *hookonce.Event) error {
		_, err := tx.Exec(ctx, "SELECT 1")
		done.Add(1)
		return err
	})
	in, err := hookonce.New(store, mux, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return in.Engine
}

// deliverFrom delivers n events, from a number on, by 20 senders, and returns how many were answered 200. The engine must be ready
// meanwhile.
func deliverFrom(t *testing.T, in *hookonce.Engine, first, n int) int64 {
	t.Helper()
	var senders sync.WaitGroup
	next := make(chan int)
	var good atomic.Int64
	for range 20 {
		senders.Go(func() {
			for i := range next {
				if deliver(t, in, i) == http.StatusOK {
					good.Add(1)
				}
				if err := in.Ready(t.Context()); err != nil {
					t.Errorf("not ready: %v", err)
				}
			}
		})
	}
	for i := range n {
		next <- first + i
	}
	close(next)
	senders.Wait()
	return good.Load()
}

// openFew returns n stores whose one role may have so many connections. Their handlers may have the caller's pool.
func openFew(t *testing.T, n, limit int, callers bool) (stores []*hookpgx.Store) {
	t.Helper()
	dsn, schema := dbtest.Ready(t)
	w := connect(t, dsn, schema, nil)
	role := strings.Replace(schema, "ready_", "few_", 1)
	w.exec(t, fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD 'test only' CONNECTION LIMIT %d", role, limit))
	w.exec(t, fmt.Sprintf("GRANT USAGE, CREATE ON SCHEMA {schema} TO %[1]s; GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO %[1]s; GRANT ALL ON ALL SEQUENCES IN SCHEMA {schema} TO %[1]s", role))
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.User, config.ConnConfig.Password = role, "test only"
	opts := &hookpgx.Options{Schema: schema}
	open := func() (*hookpgx.Store, error) { return hookpgx.Open(config, opts) }
	if callers {
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		open = func() (*hookpgx.Store, error) { return hookpgx.NewWithOptions(pool, opts) }
	}
	t.Cleanup(func() {
		if _, err := w.pool.Exec(context.WithoutCancel(t.Context()), "DROP OWNED BY "+role+"; DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	})
	for range n {
		store, err := open()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		stores = append(stores, store)
	}
	return stores
}

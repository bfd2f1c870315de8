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

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// TestFewConnections has a role with fewer connections than the pools would take. What arrives is acknowledged and sent, as
// the pools leave each other some.
func TestFewConnections(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{2, 3, 5} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			t.Parallel()
			w := openFew(t, limit)
			var sent atomic.Int64
			const n = 100
			in, err := hookonce.NewEngine(w, &hookonce.Config{
				Sources: []hookonce.Source{github},
				Destinations: []hookonce.Destination{{Name: "app", Sender: hookonce.SenderFunc(func(context.Context, *hookonce.Outgoing) error {
					sent.Add(1)
					return nil
				})}},
				Routes: []hookonce.Route{{Name: "all", To: "app"}},
				Logger: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- in.Run(ctx) }()
			var wg sync.WaitGroup
			next := make(chan int)
			var bad atomic.Int64
			for range 20 {
				wg.Go(func() {
					for i := range next {
						if deliver(t, in, i) != http.StatusOK {
							bad.Add(1)
						}
					}
				})
			}
			for i := range n {
				next <- i
			}
			close(next)
			wg.Wait()
			if bad.Load() > n*3/100 {
				t.Errorf("%d of %d deliveries were not answered 200", bad.Load(), n)
			}
			eventually.True(t, "all acknowledged events are sent", func() bool { return sent.Load() >= n-bad.Load() })
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// openFew returns a store whose role may have so many connections.
func openFew(t *testing.T, limit int) *hookpgx.Store {
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
	store, err := hookpgx.Open(config, &hookpgx.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
		if _, err := w.pool.Exec(context.WithoutCancel(t.Context()), "DROP OWNED BY "+role+"; DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	})
	return store
}

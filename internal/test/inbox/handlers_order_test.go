package inbox_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
	"github.com/hookonce/hookonce/provider"
)

var byVersion = hookonce.Order{Key: "body:o", Version: "body:v"}

// TestHandlersInOrder runs the versions of a few objects, delivered in any order, by many workers. Some fail once. Of each
// object one event runs at a time, and no version after a higher one.
func TestHandlersInOrder(t *testing.T) {
	t.Parallel()
	t.Run("PostgreSQL", func(t *testing.T) { t.Parallel(); handlersInOrder(t, onPGX(t), 2) })
	t.Run("SQLite", func(t *testing.T) { t.Parallel(); handlersInOrder(t, onSQLite(t), 1) })
}

func handlersInOrder[T any](t *testing.T, l *library[T], processes int) {
	const objects = 3
	versions := group.Rounds(8, 40)
	var mu sync.Mutex
	running, highest, failed := map[string]bool{}, map[string]int{}, map[string]bool{}
	mux := &hookonce.Mux[T]{}
	hookonce.HandleJSON(mux, "gh", "*", func(ctx context.Context, tx T, ev *hookonce.Event, body struct {
		O string
		V int `json:",string"`
	},
	) error {
		mu.Lock()
		if running[body.O] {
			t.Errorf("%s runs while another event of its object does", ev.ID)
		}
		if body.V < highest[body.O] {
			t.Errorf("%s runs after version %d", ev.ID, highest[body.O])
		}
		running[body.O] = true
		mu.Unlock()
		<-time.After(time.Duration(rand.IntN(20)) * time.Millisecond)
		err := l.insert(ctx, tx, ev.ID)
		mu.Lock()
		defer mu.Unlock()
		running[body.O] = false
		if body.V%4 == 0 && !failed[ev.ID] {
			failed[ev.ID] = true
			return errors.New("once")
		}
		highest[body.O] = max(highest[body.O], body.V)
		return err
	}, byVersion)
	settings := func(c *hookonce.Config) { c.Workers, c.Batch, c.Retry.Attempts = 4, 1, 20 }
	var all []*hookonce.Inbox[T]
	for range processes {
		all = append(all, inbox(t, l, mux, settings))
		run(t, all[len(all)-1])
	}
	var wg sync.WaitGroup
	for o := range objects {
		for v := range versions {
			wg.Go(func() { deliver(all[v%processes], versioned(fmt.Sprint(o), fmt.Sprint((v*7+o)%versions))) })
		}
	}
	wg.Wait()
	var effects []string
	for o := range objects {
		for v := range versions {
			id := fmt.Sprintf("%d-%d", o, v)
			switch ev := ended(t, l, id); {
			case ev.State == driver.StateDone:
				effects = append(effects, id)
			case ev.Note != driver.NoteStale || v == versions-1:
				t.Errorf("%s is %s, note %q", id, ev.State, ev.Note)
			}
		}
	}
	wantEffects(t, l, effects...)
}

// TestOrderHoldsAndPasses lets a version die. Its line waits, or goes on.
func TestOrderHoldsAndPasses(t *testing.T) {
	t.Parallel()
	l := onSQLite(t)
	mux := &hookonce.Mux[*sql.Tx]{}
	handle := func(ctx context.Context, tx *sql.Tx, ev *hookonce.Event) error {
		if strings.HasSuffix(ev.ID, "-1") && ev.Generation == 0 {
			return hookonce.Permanent(errors.New("no"))
		}
		return l.insert(ctx, tx, ev.ID)
	}
	hookonce.Handle(mux, "gh", "issues", handle, byVersion)
	hookonce.Handle(mux, "gh", "push", handle, hookonce.Order{Key: "body:o", Version: "body:v", OnDead: hookonce.DeadPass})
	in := inbox(t, l, mux, nil)
	for _, r := range []string{"a", "b"} {
		kind := map[string]string{"a": "issues", "b": "push"}[r]
		deliver(in, versioned(r, "1", typed(kind)))
		deliver(in, versioned(r, "2", typed(kind)))
	}
	deliver(in, delivery("without", `{}`))
	run(t, in)
	dead := outcome{State: driver.StateDead, Attempts: 1, LastError: "no"}
	wantOutcome(t, l, "a-1", dead)
	wantOutcome(t, l, "b-1", dead)
	wantDone(t, l, "b-2", "without")
	if ev := eventState(t, l.db, "a-2"); ev.State != driver.StatePending {
		t.Errorf("a-2 is %s, want it to wait", ev.State)
	}
	if _, err := in.Replay(t.Context(), &hookonce.ReplayRequest{Source: "gh", EventID: "a-1"}); err != nil {
		t.Fatal(err)
	}
	wantDone(t, l, "a-2")
	_, err := in.Replay(t.Context(), &hookonce.ReplayRequest{Source: "gh", EventID: "a-1", Mode: driver.ReplaySameID})
	if !errors.Is(err, driver.ErrPassed) {
		t.Errorf("the replay of a passed version: %v, want %v", err, driver.ErrPassed)
	}
	wantEffects(t, l, "a-1", "a-2", "b-2", "without")
}

func TestBadOrdersOfHandlers(t *testing.T) {
	t.Parallel()
	l := onSQLite(t)
	for name, bad := range map[string]struct {
		source string
		order  hookonce.Order
		change func(*hookonce.Config)
		want   string
	}{
		"no key":         {"gh", hookonce.Order{Version: "body:v"}, nil, "order.key: it is missing"},
		"bad key":        {"gh", hookonce.Order{Key: "nowhere:o"}, nil, "order.key"},
		"bad version":    {"gh", hookonce.Order{Key: "body:o", Version: "query:v"}, nil, "order.version"},
		"bad on_dead":    {"gh", hookonce.Order{Key: "body:o", OnDead: "wait"}, nil, "order.on_dead"},
		"unknown source": {"github", byVersion, nil, "there is no such source"},
		"inline":         {"gh", byVersion, inline, "a handler with an Order cannot be inline"},
		"consumers, too": {"gh", byVersion, func(c *hookonce.Config) { forConsumers(c); c.Sources[0].Consume = hookonce.ConsumeSQL }, "handlers of this process take the events of the source"},
		"no consumers":   {"gh", byVersion, forConsumers, "it is for SQL consumers, and the source has none"},
	} {
		mux := &hookonce.Mux[*sql.Tx]{}
		hookonce.Handle(mux, bad.source, "*", effectOf(l), bad.order)
		cfg := &hookonce.Config{Sources: []hookonce.Source{{Name: "gh", Provider: provider.GitHub, Secrets: hookonce.StaticSecrets(secret)}}}
		if bad.change != nil {
			bad.change(cfg)
		}
		if _, err := hookonce.New(l.db, mux, cfg); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%s: New returned the error %v, want one that says %q", name, err, bad.want)
		}
	}
}

func forConsumers(c *hookonce.Config) { c.Sources[0].Order = &byVersion }

// The worker of TestOrderUnderKills gets its database and schema in these variables.
const (
	orderWorkerDSN    = "HOOKONCE_ORDER_WORKER_DSN"
	orderWorkerSchema = "HOOKONCE_ORDER_WORKER_SCHEMA"
)

// TestOrderUnderKills kills the processes of ordered handlers again and again. Each effect exists once, those of an object
// in the order of its versions, and no two events of an object run at once.
func TestOrderUnderKills(t *testing.T) {
	if dsn := os.Getenv(orderWorkerDSN); dsn != "" {
		workInOrder(t, dsn, os.Getenv(orderWorkerSchema))
		return
	}
	t.Parallel()
	const objects = 20
	versions, kills := group.Rounds(10, 100), group.Rounds(4, 40)
	dsn, schema := dbtest.Ready(t)
	pool, db, in := orderedInbox(t, dsn, schema, nil)
	var wg sync.WaitGroup
	wg.Go(func() {
		for _, n := range rand.Perm(objects * versions) {
			if got := deliver(in, versioned(fmt.Sprint(n%objects), fmt.Sprint(n/objects))); got != ok {
				t.Errorf("a delivery: %+v, want ok", got)
			}
			<-time.After(time.Duration(rand.IntN(70)) * time.Millisecond) // lower versions come while higher ones run
		}
	})
	workers := []*exec.Cmd{startOrderWorker(t, dsn, schema), startOrderWorker(t, dsn, schema)}
	for i := range kills {
		<-time.After(time.Duration(500+rand.IntN(1500)) * time.Millisecond) // anywhere in their work
		_ = workers[i%2].Process.Kill()
		_ = workers[i%2].Wait() // killed
		workers[i%2] = startOrderWorker(t, dsn, schema)
	}
	wg.Wait()
	handled := 0
	for o := range objects {
		for v := range versions {
			id := fmt.Sprintf("%d-%d", o, v)
			var ev *driver.EventDetail
			eventually.True(t, id+" has ended", func() bool {
				ev = eventState(t, db, id)
				return ev.State == driver.StateDone || ev.State == driver.StateSkipped
			})
			if ev.State == driver.StateDone {
				handled++
			} else if v == versions-1 {
				t.Errorf("%s is skipped, and no version is higher", id)
			}
		}
	}
	checkApplied(t, pool, schema, handled)
}

// checkApplied compares the effects of the handlers with the promise of order.
func checkApplied(t *testing.T, pool *pgxpool.Pool, schema string, handled int) {
	t.Helper()
	rows, err := pool.Query(t.Context(), "SELECT o, v FROM "+pgx.Identifier{schema}.Sanitize()+".applied ORDER BY n")
	if err != nil {
		t.Fatal(err)
	}
	highest, applied := map[string]int{}, 0
	var o string
	var v int
	_, err = pgx.ForEachRow(rows, []any{&o, &v}, func() error {
		if last, ok := highest[o]; ok && v <= last {
			t.Errorf("version %d of %s was applied after %d", v, o, last)
		}
		highest[o], applied = v, applied+1
		return nil
	})
	if err != nil || applied != handled {
		t.Errorf("%d effects of %d events that are done, %v", applied, handled, err)
	}
	var overlaps int
	if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM "+pgx.Identifier{schema}.Sanitize()+".overlap").Scan(&overlaps); err != nil || overlaps > 0 {
		t.Errorf("%d times two events of an object ran at once, %v", overlaps, err)
	}
	t.Logf("%d events were handled in order", handled)
}

// orderedInbox returns an Inbox with an ordered handler; a nil handler is never run.
func orderedInbox(t *testing.T, dsn, schema string, h hookonce.HandlerFunc[pgx.Tx]) (*pgxpool.Pool, driver.Store, *hookonce.Inbox[pgx.Tx]) {
	t.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	db, err := hookpgx.NewWithOptions(pool, &hookpgx.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	mux := &hookpgx.Mux{}
	if h == nil {
		h = func(context.Context, pgx.Tx, *hookonce.Event) error { return errors.New("it does not run here") }
	}
	hookonce.Handle(mux, "gh", "*", h, byVersion)
	if os.Getenv(orderWorkerDSN) == "" {
		for _, text := range []string{
			"CREATE TABLE %s.applied (n bigserial PRIMARY KEY, o text NOT NULL, v integer NOT NULL)",
			"CREATE TABLE %s.overlap (o text NOT NULL)",
		} {
			if _, err := pool.Exec(t.Context(), fmt.Sprintf(text, pgx.Identifier{schema}.Sanitize())); err != nil {
				t.Fatal(err)
			}
		}
	}
	in, err := hookonce.New(db, mux, &hookonce.Config{
		Sources: []hookonce.Source{{Name: "gh", Provider: provider.GitHub, Secrets: hookonce.StaticSecrets(secret), AckTimeout: 30 * time.Second}},
		Workers: 4, Batch: 4, Retry: hookonce.Retry{Attempts: 1000, First: 10 * time.Millisecond, Max: 100 * time.Millisecond},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return pool, db, in
}

func startOrderWorker(t *testing.T, dsn, schema string) *exec.Cmd {
	t.Helper()
	return startWorker(t, "TestOrderUnderKills", orderWorkerDSN+"="+dsn, orderWorkerSchema+"="+schema)
}

// startWorker starts this program again, for a test that works in another process.
func startWorker(t *testing.T, test string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+test+"$")
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	if err := dbtest.StartChild(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // no other test ends it
		_ = cmd.Wait()         // killed
	})
	return cmd
}

// workInOrder handles events until the process is killed.
func workInOrder(t *testing.T, dsn, schema string) {
	name := pgx.Identifier{schema}.Sanitize()
	var pool *pgxpool.Pool
	pool, _, in := orderedInbox(t, dsn, schema, func(ctx context.Context, tx pgx.Tx, ev *hookonce.Event) error {
		var body struct{ O, V string }
		if err := json.Unmarshal(ev.Body, &body); err != nil {
			return err
		}
		version, err := strconv.Atoi(body.V)
		if err != nil {
			return err
		}
		var alone bool
		if err := tx.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock(hashtext($1))", schema+body.O).Scan(&alone); err != nil {
			return err
		}
		if !alone {
			if _, err := pool.Exec(ctx, "INSERT INTO "+name+".overlap VALUES ($1)", body.O); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, "INSERT INTO "+name+".applied (o, v) VALUES ($1, $2)", body.O, version); err != nil {
			return err
		}
		<-time.After(time.Duration(10+rand.IntN(60)) * time.Millisecond)
		if rand.IntN(10) == 0 {
			return errors.New("now and then")
		}
		return nil
	})
	if err := in.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

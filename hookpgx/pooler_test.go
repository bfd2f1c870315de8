package hookpgx_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
	"github.com/hookonce/hookonce/internal/test/storetest"
)

// TestPooler holds all that concerns poolers.
func TestPooler(t *testing.T) {
	group.Need(t, "pooler")
	t.Parallel()
	for name, test := range map[string]func(*testing.T){
		"Driver":                poolerDriver,
		"Work":                  poolerWork,
		"Migrations":            poolerMigrations,
		"Settings":              poolerSettings,
		"Handlers":              poolerHandlers,
		"IsNoticed":             poolerIsNoticed,
		"BesideAFullPool":       poolerBesideAFullPool,
		"IsNoticedByItsProcess": poolerIsNoticedByItsProcess,
		"WithFewSessions":       poolerWithFewSessions,
	} {
		t.Run(name, test)
	}
}

// pooledWorld is a store behind a PgBouncer, and direct access to its database.
type pooledWorld struct {
	*world               // its pool bypasses PgBouncer
	users  *pgxpool.Pool // through PgBouncer
}

// openPooled returns a migrated store behind a PgBouncer of its own. Sessions of the server find the
// tables of the test.
func openPooled(t *testing.T, opts dbtest.BouncerOptions) *pooledWorld {
	t.Helper()
	dsn, schema := dbtest.Ready(t)
	opts.OnServer = "SET search_path TO " + schema
	opts.Config = append(opts.Config, "max_client_conn = 1000")
	bouncer := dbtest.StartBouncer(t, dsn, opts)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("PgBouncer's log ends with:\n%s", bouncer.Log())
		}
	})
	w := connectPooled(t, bouncer.DSN(), dsn, schema)
	if err := hookmigrate.Check(t.Context(), w.Store); err != nil { // the first use notices the pooler
		t.Fatal(err)
	}
	w.exec(t, "CREATE TABLE {schema}.effects (name text)")
	return w
}

// connectPooled connects with the plain DSN, without an option for poolers.
func connectPooled(t *testing.T, pooled, direct, schema string) *pooledWorld {
	t.Helper()
	through := connect(t, pooled, schema, nil)
	pool, err := pgxpool.New(t.Context(), direct)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return &pooledWorld{
		world: &world{Store: through.Store, pool: pool, schema: through.schema},
		users: through.pool,
	}
}

var byTransaction = dbtest.BouncerOptions{Mode: "transaction", PoolSize: 40}

// poolerDriver runs the cases of the conformance suite that concern poolers, behind a PgBouncer that
// hands each transaction to another session. A long run has all cases.
func poolerDriver(t *testing.T) {
	t.Parallel()
	var worlds sync.Map // driver.Store to *pooledWorld
	features := queuedFeatures(func(s driver.Store) *world {
		w, _ := worlds.Load(s)
		return w.(*pooledWorld).world
	})
	features.Transport = true
	storetest.Exercise(t, func(t *testing.T) driver.Store {
		w := openPooled(t, byTransaction)
		worlds.Store(driver.Store(w.Store), w)
		return w.Store
	}, features)
}

// poolerWork does the same with the suite of handlers' transactions. The caller's pool prepares named
// statements, as pgx does by default.
func poolerWork(t *testing.T) {
	t.Parallel()
	var worlds sync.Map // driver.Driver[pgx.Tx] to *pooledWorld
	keep := func(w *pooledWorld) driver.Driver[pgx.Tx] {
		worlds.Store(driver.Driver[pgx.Tx](w.Store), w)
		return w.Store
	}
	worldOf := func(d driver.Driver[pgx.Tx]) *pooledWorld {
		w, _ := worlds.Load(d)
		return w.(*pooledWorld)
	}
	storetest.ExerciseWork(t, storetest.Harness[pgx.Tx]{
		Open: func(t *testing.T) driver.Driver[pgx.Tx] { return keep(openPooled(t, byTransaction)) },
		Second: func(t *testing.T, d driver.Driver[pgx.Tx]) driver.Driver[pgx.Tx] {
			w := worldOf(d)
			return keep(connectPooled(t, w.users.Config().ConnString(), w.pool.Config().ConnString(), strings.Trim(w.schema, `"`)))
		},
		Effect: effect,
		Fail: func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "SELECT 1/0")
			return err
		},
		Commit:   command("COMMIT"),
		Rollback: command("ROLLBACK"),
		Begin: func(t *testing.T, d driver.Driver[pgx.Tx]) (tx pgx.Tx, commit, rollback func() error) {
			tx, err := worldOf(d).users.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			rollback = func() error {
				err := tx.Rollback(context.WithoutCancel(t.Context()))
				if errors.Is(err, pgx.ErrTxClosed) {
					return nil
				}
				return err
			}
			t.Cleanup(func() { _ = rollback() }) // if the test failed
			return hookpgx.Unnamed(tx), func() error { return tx.Commit(t.Context()) }, rollback
		},
		Effects: func(t *testing.T, d driver.Driver[pgx.Tx]) map[string]int { return worldOf(d).effects(t) },
		Interrupt: func(t *testing.T, d driver.Driver[pgx.Tx], run driver.Run[pgx.Tx]) {
			pid := hookpgx.ServerPID(run)
			w := worldOf(d)
			w.exec(t, "SELECT pg_terminate_backend($1::integer)", pid)
			w.awaitEnd(t, pid)
			hookpgx.GiveBack(t.Context(), run)
		},
		Drop: func(t *testing.T, d driver.Driver[pgx.Tx], table string, key driver.Key) {
			worldOf(d).drop(t, table, key)
		},
		Refuse: func(t *testing.T, d driver.Driver[pgx.Tx], table string, key driver.Key) (allow func()) {
			return worldOf(d).refuse(t, table, key)
		},
		Transport: true,
	})
}

// poolerMigrations migrates concurrently behind the same PgBouncer.
func poolerMigrations(t *testing.T) {
	t.Parallel()
	storetest.ExerciseMigrations(t, func(t *testing.T) (a, b driver.Store) {
		dsn, schema := dbtest.Postgres(t)
		bouncer := dbtest.StartBouncer(t, dsn, byTransaction)
		return connectPooled(t, bouncer.DSN(), dsn, schema).Store, connectPooled(t, bouncer.DSN(), dsn, schema).Store
	})
}

// poolerSettings reads the settings of transactions behind PgBouncer, and checks that none stays on
// the session of the server.
func poolerSettings(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"session", "transaction"} {
		for _, config := range []string{"", "ignore_startup_parameters = jit, work_mem, statement_timeout, lock_timeout," +
			" idle_in_transaction_session_timeout, default_transaction_isolation"} {
			name := mode
			if config != "" {
				name += ", parameters ignored"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := openPooled(t, dbtest.BouncerOptions{Mode: mode, Config: []string{config}})
				for i := range 3 {
					w.mustClaim(t, true, newClaim(fmt.Sprint("evt_", i), "billing"))
				}
				ofStatement, ofTx := hookpgx.ReceiveSettings(t, w.Store, "statement_timeout", "lock_timeout", "work_mem", "jit",
					"idle_in_transaction_session_timeout", "transaction_isolation", "application_name")
				want := "2s 1s 32MB off 1min read committed hookonce receive"
				if ofStatement != want || ofTx != want {
					t.Errorf("a statement has the settings %q, a transaction %q, want %q", ofStatement, ofTx, want)
				}
				if mode == "transaction" {
					var left string
					if err := w.users.QueryRow(t.Context(), "SELECT current_setting('statement_timeout')", pgx.QueryExecModeExec).Scan(&left); err != nil || left != "0" {
						t.Errorf("another transaction has statement_timeout = %q and the error %v, want 0", left, err)
					}
				}
			})
		}
	}
}

// poolerHandlers runs the same statement in two handlers, on one connection but two sessions of the
// server. pgx would prepare it under a name in the first session, and use the name in the second one.
func poolerHandlers(t *testing.T) {
	t.Parallel()
	dsn, schema := dbtest.Postgres(t)
	bouncer := dbtest.StartBouncer(t, dsn, dbtest.BouncerOptions{Mode: "transaction"})
	w := connectPooled(t, bouncer.DSN()+"&pool_max_conns=1", dsn, schema)
	if _, err := hookmigrate.Up(t.Context(), w.Store); err != nil {
		t.Fatal(err)
	}
	handle := func(id string) (pid uint32) {
		t.Helper()
		run := w.takeOne(t, id)
		for _, tx := range []func() (pgx.Tx, error){
			func() (pgx.Tx, error) { return run.Tx(), nil },
			func() (pgx.Tx, error) { return run.Tx().Begin(t.Context()) }, // a savepoint
		} {
			tx, err := tx()
			if err != nil {
				t.Fatal(err)
			}
			var n int
			if _, err := tx.Exec(t.Context(), "SELECT $1::int + 1", 1); err != nil {
				t.Errorf("Exec of the handler of %s: %v", id, err)
			}
			if err := tx.QueryRow(t.Context(), "SELECT $1::int + 2", 1).Scan(&n); err != nil || n != 3 {
				t.Errorf("QueryRow of the handler of %s: got %d and the error %v, want 3", id, n, err)
			}
		}
		pid = hookpgx.ServerPID(run)
		if err := run.Finish(t.Context(), succeeded(run)); err != nil {
			t.Errorf("Finish of %s: %v", id, err)
		}
		return pid
	}
	first := handle("one")
	for held := uint32(0); held != first; { // occupy sessions until the first one is among them
		conn, err := pgx.Connect(t.Context(), bouncer.DSN())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		if _, err := conn.Exec(t.Context(), "BEGIN"); err != nil {
			t.Fatal(err)
		}
		if err := conn.QueryRow(t.Context(), "SELECT pg_backend_pid()", pgx.QueryExecModeExec).Scan(&held); err != nil {
			t.Fatal(err)
		}
	}
	if second := handle("two"); second == first {
		t.Error("both handlers ran in the same session")
	}
}

// poolerIsNoticed checks that a direct connection is not taken for a pooler.
func poolerIsNoticed(t *testing.T) {
	t.Parallel()
	direct := open(t, nil)
	pooled := openPooled(t, byTransaction)
	for what, want := range map[*hookpgx.Store]bool{direct.Store: false, pooled.Store: true} {
		if got := hookpgx.Pooled(what); got != want {
			t.Errorf("a store takes its server for a pooler: %v, want %v", got, want)
		}
	}
}

// poolerBesideAFullPool waits for a connection of the store's own full pool until its time is over. The pooler has
// others to spare.
func poolerBesideAFullPool(t *testing.T) {
	t.Parallel()
	w := openPooled(t, byTransaction)
	pool := hookpgx.ReceivePool(w.Store)
	for range pool.Config().MaxConns {
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := w.Claim(ctx, claimOf(newClaim("1", "billing"))); err == nil {
		t.Error("a claim succeeded without a connection")
	}
	if hookpgx.Scarce(w.Store) {
		t.Error("the store takes its own full pool for a pooler without connections")
	}
}

// poolerIsNoticedByItsProcess has a pooler whose sessions have the right settings by themselves.
func poolerIsNoticedByItsProcess(t *testing.T) {
	t.Parallel()
	dsn, _ := dbtest.Postgres(t)
	bouncer := dbtest.StartBouncer(t, dsn, dbtest.BouncerOptions{Mode: "session", OnServer: "SET jit TO off"})
	for dsn, pooled := range map[string]bool{bouncer.DSN(): true, dsn: false} {
		conn, err := pgx.Connect(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		if _, err := conn.Exec(t.Context(), "SET jit TO off"); err != nil {
			t.Fatal(err)
		}
		if err := hookpgx.AssertSettings(t.Context(), conn, map[string]string{"jit": "off"}); (err != nil) != pooled {
			t.Errorf("behind a pooler: %t; the error is %v", pooled, err)
		}
	}
}

// poolerWithFewSessions has fewer sessions of the server than the store has pools. With session
// pooling an idle connection of one pool keeps a session from the others.
func poolerWithFewSessions(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"session", "transaction"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			dsn, schema := dbtest.Postgres(t)
			bouncer := dbtest.StartBouncer(t, dsn, dbtest.BouncerOptions{Mode: mode, PoolSize: 2})
			config, err := pgxpool.ParseConfig(bouncer.DSN())
			if err != nil {
				t.Fatal(err)
			}
			store, err := hookpgx.Open(config, &hookpgx.Options{Schema: schema})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = store.Close() })
			if _, err := hookmigrate.Up(t.Context(), store); err != nil {
				t.Fatal(err)
			}
			ctx := eventually.Context(t)
			for i := range 10 {
				var calls sync.WaitGroup
				for j := range 4 {
					c := newClaim(fmt.Sprint("evt ", i, j), "billing")
					calls.Go(func() {
						if _, err := store.Claim(ctx, claimOf(c)); err != nil {
							t.Errorf("Claim: %v", err)
						}
					})
					calls.Go(func() {
						if _, err := store.Lease(ctx, leaseParams()); err != nil {
							t.Errorf("Lease: %v", err)
						}
					})
					calls.Go(func() {
						if _, err := store.Events(ctx, &driver.EventFilter{}); err != nil {
							t.Errorf("Events: %v", err)
						}
					})
				}
				calls.Wait()
			}
		})
	}
}

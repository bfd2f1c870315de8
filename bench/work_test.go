package bench

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/observe"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// workSource is the source of the events for handlers, take and sending.
const workSource = "gh"

const (
	effectsTable  = "CREATE TABLE effects (event_id text NOT NULL, at timestamptz NOT NULL DEFAULT now())"
	countFinished = "SELECT count(*) FROM hookonce.event_state WHERE state = 2"
)

// handlers compares handlers of one INSERT each with River and DBOS. The events, the jobs and the workflows are in their
// tables before the clock starts.
func handlers(t *testing.T, s *scale) *comparison {
	server := newServer(t)
	c := &comparison{unit: "events/s", rows: []row{
		{what: "exactly-once handlers, against River that completes in the transaction", subject: "hookonce", baseline: "River in the transaction", want: 9},
		{what: "exactly-once handlers, against River as it is usually used (at least once)", subject: "hookonce", baseline: "River after it", want: 2.5},
		{what: "exactly-once handlers, against DBOS Transact in the user's transaction", subject: "hookonce", baseline: "DBOS in the transaction", want: 5},
	}}
	inDatabase := func(measure func(t testing.TB, dsn string) float64) func(testing.TB) float64 {
		return func(t testing.TB) float64 { return onNewDatabase(t, server, measure) }
	}
	river, dbos := buildModule(t, "river"), buildModule(t, "dbos")
	with := func(program string, more ...string) func(testing.TB) float64 {
		return inDatabase(func(t testing.TB, dsn string) float64 {
			return eventsPerSecond(t, exec.Command(program, append([]string{"-database", dsn, "-jobs", fmt.Sprint(s.events)}, more...)...))
		})
	}
	c.contestants = []contestant{
		{"hookonce", inDatabase(func(t testing.TB, dsn string) float64 { return workOff(t, dsn, s.events) })},
		{"River in the transaction", with(river, "-mode", "tx")},
		{"River after it", with(river, "-mode", "after")},
		{"DBOS in the transaction", with(dbos)},
	}
	return c
}

// takeFromPython compares hookonce.take with the usual hand-written loop.
func takeFromPython(t *testing.T, s *scale) *comparison {
	server := newServer(t)
	inDatabase := func(measure func(t testing.TB, dsn string) float64) func(testing.TB) float64 {
		return func(t testing.TB) float64 { return onNewDatabase(t, server, measure) }
	}
	python := func(program, dsn string, more ...string) *exec.Cmd {
		cmd := exec.Command("/usr/bin/python3", append([]string{program, dsn, fmt.Sprint(s.events)}, more...)...)
		cmd.Dir = "take"
		cmd.Env = append(os.Environ(), "SOURCE="+workSource)
		return cmd
	}
	return &comparison{
		unit: "events/s",
		contestants: []contestant{
			{"hookonce.take", inDatabase(func(t testing.TB, dsn string) float64 {
				store, pool := openStore(t, dsn)
				claimQueued(t, store, s.events)
				pool.Close()
				settle(t, dsn)
				return eventsPerSecond(t, python("take.py", dsn))
			})},
			{"by hand", inDatabase(func(t testing.TB, dsn string) float64 {
				runToEnd(t, python("byhand.py", dsn, "--fill"))
				return eventsPerSecond(t, python("byhand.py", dsn))
			})},
		},
		rows: []row{{
			what:    "hookonce.take in batches of 50 from Python, against the same loop by hand with SKIP LOCKED",
			subject: "hookonce.take", baseline: "by hand", want: 0.95,
		}},
	}
}

// onNewDatabase measures in a database of its own, which replaces that of the last measurement.
func onNewDatabase(t testing.TB, on *dbtest.Server, measure func(t testing.TB, dsn string) float64) float64 {
	t.Helper()
	execute(t, on.DSN(), "DROP DATABASE IF EXISTS work WITH (FORCE)")
	return measure(t, newDatabase(t, on, "work"))
}

// settle gives the tables statistics and writes them to the disk, as in a server that has run for a
// while.
func settle(t testing.TB, dsn string) {
	t.Helper()
	execute(t, dsn, "VACUUM ANALYZE hookonce.event", "VACUUM ANALYZE hookonce.event_state", "VACUUM ANALYZE hookonce.message", "CHECKPOINT")
}

// workOff claims n events, and returns how many of them handlers of a new process finish in a second.
func workOff(t testing.TB, dsn string, n int) float64 {
	t.Helper()
	return workOffAfter(t, dsn, 0, n)
}

// workOffAfter does the same, and starts the clock once the process has finished others events.
func workOffAfter(t testing.TB, dsn string, others, n int) float64 {
	t.Helper()
	n += others
	store, pool := openStore(t, dsn)
	defer pool.Close()
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	execute(t, dsn, "DROP TABLE IF EXISTS effects", effectsTable)
	claimQueued(t, store, n)
	settle(t, dsn)
	before := count(t, dsn, countFinished)

	mux := &hookpgx.Mux{}
	hookonce.Handle(mux, workSource, "push", func(ctx context.Context, tx pgx.Tx, ev *hookonce.Event) error {
		_, err := tx.Exec(ctx, "INSERT INTO effects (event_id) VALUES ($1)", ev.ID)
		return err
	})
	var began atomic.Pointer[time.Time]
	var did atomic.Int64
	all := make(chan time.Time, 1)
	done := func(a observe.Attempt) { // called after the commit
		if a.Outcome != "done" {
			return
		}
		switch did.Add(1) {
		case int64(others):
			began.Store(new(time.Now()))
		case int64(n):
			all <- time.Now()
		}
	}
	in, err := hookonce.New(store, mux, &hookonce.Config{
		Sources: []hookonce.Source{{
			Name: workSource, Provider: provider.HMAC, Secrets: hookonce.StaticSecrets("a-secret-of-the-benchmark-only"),
			Signature: &verify.Scheme{ID: "sha256", Family: verify.FamilyHMAC, Header: "X-Signature"},
			Event:     provider.EventRules{ID: "body:id"},
		}},
		Observer: &observe.Observer{Attempt: done},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	began.Store(new(time.Now()))
	ran := make(chan error, 1)
	go func() { ran <- in.Run(ctx) }()
	ended := <-all
	stop()
	if err := <-ran; err != nil {
		t.Fatal(err)
	}
	effects := count(t, dsn, "SELECT count(DISTINCT event_id) FROM effects")
	rows := count(t, dsn, "SELECT count(*) FROM effects")
	finished := count(t, dsn, countFinished) - before
	if effects != n || rows != n || finished != n {
		t.Fatalf("%d effects of %d events and %d events done, want %d of each", rows, effects, finished, n)
	}
	return float64(n-others) / ended.Sub(*began.Load()).Seconds()
}

// openStore opens and migrates a store with a pool of 16 connections.
func openStore(t testing.TB, dsn string) (*hookpgx.Store, *pgxpool.Pool) {
	t.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	store := hookpgx.New(pool)
	if _, err := hookmigrate.Up(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	return store, pool
}

// claimQueued claims n events that wait for a handler or a consumer.
func claimQueued(t testing.TB, store driver.Store, n int) {
	t.Helper()
	claim(t, store, n, func(*driver.Claim) {})
}

// claim claims n events, each with an id of its own; change may alter each claim.
func claim(t testing.TB, store driver.Store, n int, change func(*driver.Claim)) {
	t.Helper()
	content := bytes.Repeat([]byte("0123456789ab"), 100)
	start := firstOf(t)
	for first := 0; first < n; first += 500 {
		var p driver.ClaimParams
		for i := start + int64(first); i < start+int64(min(first+500, n)); i++ {
			id := fmt.Sprint("evt_", i)
			c := driver.Claim{
				Key: driver.EventKey(workSource, id), Source: workSource, EventID: id, Type: "push", Work: driver.WorkQueued,
				Headers: []byte(`{"Content-Type":["application/json"]}`), Body: content, BodyHash: sha256.Sum256(content),
			}
			change(&c)
			p.Claims = append(p.Claims, c)
		}
		slices.SortFunc(p.Claims, func(x, y driver.Claim) int { return bytes.Compare(x.Key[:], y.Key[:]) })
		if _, err := store.Claim(t.Context(), &p); err != nil {
			t.Fatal(err)
		}
	}
}

// eventsPerSecond runs a program that prints the number of finished events and the seconds that
// they took.
func eventsPerSecond(t testing.TB, cmd *exec.Cmd) float64 {
	t.Helper()
	var said struct {
		Events  int     `json:"events"`
		Seconds float64 `json:"seconds"`
	}
	out := runToEnd(t, cmd)
	if err := json.Unmarshal(out, &said); err != nil || said.Seconds <= 0 {
		t.Fatalf("%s printed %q: %v", cmd.Path, out, err)
	}
	return float64(said.Events) / said.Seconds
}

// runToEnd runs a program and returns its output.
func runToEnd(t testing.TB, cmd *exec.Cmd) []byte {
	t.Helper()
	var failure bytes.Buffer
	cmd.Stderr = &failure
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, failure.String())
	}
	return out
}

// buildModule builds a baseline that is a module of its own.
func buildModule(t testing.TB, folder string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), folder)
	cmd := exec.Command("go", "build", "-o", binary, ".")
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building bench/%s: %v\n%s", folder, err, out)
	}
	return binary
}

package sqltest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/examplestest"
	"github.com/hookonce/hookonce/internal/test/program"
)

const (
	trialEvents   = 500
	trialKills    = 10
	trialSide     = 2  // processes side by side
	trialBatch    = 25 // events in one claim
	trialAttempts = 3
	pollEvery     = 20 * time.Millisecond
)

// Python returns a Python interpreter that has psycopg2. If there is none, it is installed, or the
// test fails.
func Python(t testing.TB) (path string) {
	t.Helper()
	dbtest.Need(t, "examples", func() error {
		// Debian's packages work only with Debian's own interpreter.
		for _, path = range []string{"python3", "/usr/bin/python3"} {
			if exec.Command(path, "-c", "import psycopg2").Run() == nil {
				return nil
			}
		}
		return errors.New("no Python with psycopg2 was found: install it (apt-get install python3-psycopg2, pip install psycopg2-binary)")
	}, "python3-psycopg2")
	return path
}

// Consumer runs two processes of a consumer and feeds them events. It kills them again and again
// with SIGKILL in the middle of their work, and checks that each event took effect once: the table
// ledger, which schema creates, has no unique constraint. Some events always fail, and must end
// dead.
//
// The consumer takes from the source "shop", in the schema "hookonce" of the database in
// DATABASE_URL, and obeys NEXT_API, ATTEMPTS and FIRST_RETRY.
func Consumer(t *testing.T, schema string, command ...string) {
	ctx, cancel := context.WithTimeout(t.Context(), eventually.Bound)
	w := newTrial(t, schema)
	var feeding sync.WaitGroup
	defer func() { cancel(); feeding.Wait() }()
	feeding.Go(func() { w.feed(ctx, t) })
	w.start(t, command)
	for kill := range trialKills {
		w.await(ctx, t, "SELECT count(*) >= $1::int FROM ledger", trialEvents*kill/(trialKills+1))
		select {
		case <-w.api.Called: // a consumer is in the middle of its work
		case <-ctx.Done():
			t.Fatalf("no consumer began work within %s", eventually.Bound)
		}
		for _, p := range w.processes {
			p.Kill()
		}
		w.start(t, command)
	}
	feeding.Wait()
	w.await(ctx, t, "SELECT count(*) = $1::int FROM ledger", trialEvents)
	var begun int
	w.scan(t, "SELECT last_value FROM begun", &begun)
	if begun == trialEvents {
		t.Errorf("the trial is void: no kill interrupted an effect")
	}
	t.Logf("%d effects of %d were undone by %d kills and repeated", begun-trialEvents, begun, trialKills)

	w.poison(ctx, t)
	w.await(ctx, t, "SELECT count(*) = $1::int FROM hookonce.dead_letters", len(poisons))
	for _, p := range w.processes {
		p.Stop(t)
	}
	w.check(t)
}

// poisons are bodies of events whose work always fails.
var poisons = map[string]string{
	"no_order":    `{"customer":"anna","cents":1}`,
	"no_json":     `order=7`,
	"nul":         `{"order":"a\u0000b","customer":"anna","cents":1}`,
	"wrong_cents": `{"order":"wrong","customer":"anna","cents":"many"}`,
}

// trial is a database and the consumer processes that work on it.
type trial struct {
	url   string
	pool  *pgxpool.Pool
	store *hookpgx.Store
	api   *examplestest.API

	processes []*program.Process
}

func newTrial(t *testing.T, schema string) *trial {
	t.Helper()
	w := &trial{api: examplestest.NewAPI(t)}
	w.url, w.pool, _ = examplestest.Postgres(t)
	w.store = hookpgx.New(w.pool)
	t.Cleanup(func() {
		if err := w.store.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := hookmigrate.Up(t.Context(), w.store); err != nil {
		t.Fatal(err)
	}
	// A rollback does not reset a sequence, so it counts the effects that were begun.
	for _, script := range []string{schema, `
		CREATE SEQUENCE begun;
		CREATE FUNCTION count_begun() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN PERFORM nextval('begun'); RETURN NEW; END
		$$;
		CREATE TRIGGER count_begun BEFORE INSERT ON ledger FOR EACH ROW EXECUTE FUNCTION count_begun();`} {
		if _, err := w.pool.Exec(t.Context(), script); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// feed claims the events whose work succeeds.
func (w *trial) feed(ctx context.Context, t *testing.T) {
	for first := 0; first < trialEvents; first += trialBatch {
		var claims []driver.Claim
		for i := range trialBatch {
			n := first + i
			claims = append(claims, newClaim("shop", fmt.Sprint("evt_", n),
				fmt.Sprintf(`{"order":"order %d","customer":"customer %d","cents":%d}`, n, n%7, n)))
		}
		if err := claim(ctx, w.store, claims...); err != nil {
			t.Errorf("claiming: %v", err)
			return
		}
	}
}

func (w *trial) poison(ctx context.Context, t *testing.T) {
	t.Helper()
	var claims []driver.Claim
	for id, body := range poisons {
		claims = append(claims, newClaim("shop", id, body))
	}
	if err := claim(ctx, w.store, claims...); err != nil {
		t.Fatalf("claiming: %v", err)
	}
}

func (w *trial) scan(t *testing.T, query string, to any, args ...any) {
	t.Helper()
	if err := w.pool.QueryRow(t.Context(), query, args...).Scan(to); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// await waits until a query returns true.
func (w *trial) await(ctx context.Context, t *testing.T, query string, args ...any) {
	t.Helper()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		var reached bool
		if w.scan(t, query, &reached, args...); reached {
			return
		}
		for _, p := range w.processes {
			if !p.Running() {
				t.Fatalf("a consumer ended by itself: %s", p.Cmd.ProcessState)
			}
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			t.Fatalf("%s %v: not true within %s", query, args, eventually.Bound)
		}
	}
}

// check checks the final state of the database.
func (w *trial) check(t *testing.T) {
	t.Helper()
	var wrong int
	w.scan(t, "SELECT count(*) FROM (SELECT FROM ledger GROUP BY event_id HAVING count(*) <> 1) x", &wrong)
	if wrong > 0 {
		t.Errorf("%d events took effect more than once", wrong)
	}
	w.scan(t, `SELECT count(*) FROM hookonce.events e FULL JOIN ledger l USING (event_id)
		WHERE (e.state = 'done') IS NOT TRUE <> (l.event_id IS NULL)`, &wrong)
	if wrong > 0 {
		t.Errorf("%d events are done without an effect, or have an effect without being done", wrong)
	}
	type ended struct {
		State    string
		Attempts int
		Events   int
		Errors   int
	}
	var got []ended
	rows, err := w.pool.Query(t.Context(), `SELECT state, attempts, count(*), count(*) FILTER (WHERE last_error <> '')
		FROM hookonce.events GROUP BY state, attempts ORDER BY state, attempts`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var row ended
		if err := rows.Scan(&row.State, &row.Attempts, &row.Events, &row.Errors); err != nil {
			t.Fatal(err)
		}
		got = append(got, row)
	}
	// A consumer that was killed counted no attempt.
	want := []ended{{"dead", trialAttempts, len(poisons), len(poisons)}, {"done", 1, trialEvents, 0}}
	if diff := cmp.Diff(want, got); rows.Err() != nil || diff != "" {
		t.Errorf("error %v, final states of the events (-want +got):\n%s", rows.Err(), diff)
	}
	w.api.Check(t, trialEvents)
}

// start starts the consumers. The log of each is shown if the test fails.
func (w *trial) start(t *testing.T, command []string) {
	t.Helper()
	w.processes = nil
	for range trialSide {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Env = []string{
			"PATH=" + os.Getenv("PATH"), "DATABASE_URL=" + w.url, "NEXT_API=" + w.api.URL,
			fmt.Sprint("ATTEMPTS=", trialAttempts), "FIRST_RETRY=50 milliseconds",
		}
		w.processes = append(w.processes, program.Start(t, cmd))
	}
}

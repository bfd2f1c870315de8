package sqltest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/internal/test/examplestest"
)

func TestTake(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.put(t, "shop", "a", "b", "c")
	w.put(t, "other", "x")
	s := w.connect(t)

	s.run(t, "BEGIN")
	s.wantTake(t, 2, "a", "b")
	s.wantTake(t, 2, "c")
	s.wantTake(t, 2)
	w.wantState(t, "a", state{State: "pending"}) // to other sessions
	s.run(t, "ROLLBACK")
	w.wantState(t, "a", state{State: "pending"})

	s.run(t, "BEGIN")
	s.wantTake(t, 2, "a", "b")
	s.run(t, "COMMIT")
	for _, id := range []string{"a", "b"} {
		w.wantState(t, id, state{State: "done", Attempts: 1, Processed: true})
	}
	w.wantState(t, "c", state{State: "pending"})

	s.run(t, "BEGIN")
	got := get1(t, s, "SELECT event_id FROM hookonce.take('shop')")
	s.run(t, "COMMIT")
	if got != "c" {
		t.Errorf("took %q, want the remaining event", got)
	}
	s.run(t, "BEGIN")
	s.wantTake(t, 1000)
	if got := s.taken(t, "nobody", 10); len(got) > 0 {
		t.Errorf("took %v of a source without events", got)
	}
	s.run(t, "COMMIT")
	if n := get[int](t, w, "SELECT count(*) FROM hookonce.take_call"); n > 0 {
		t.Errorf("%d rows of calls were committed", n)
	}
}

func get1(t testing.TB, s *session, sql string) (v string) {
	t.Helper()
	if err := s.QueryRow(t.Context(), s.w.text(sql)).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// The columns of take, with extreme values.
func TestTakeReturns(t *testing.T) {
	t.Parallel()
	w := open(t)
	occurred := time.Date(2024, 2, 29, 12, 0, 0, 123456000, time.UTC)
	c := newClaim("shop", "evt_1", "\x00\xff\\ not text")
	c.OccurredAt = occurred
	// jsonb refuses the first, and text the second.
	c.Headers = []byte(`{"X-Nul":["a\u0000b"],"X-Umlaut":["` + "ü" + `"]}`)
	bare := driver.Claim{Key: driver.EventKey("shop", "evt_2"), Source: "shop", EventID: "evt_2", Headers: []byte("{}"), Work: driver.WorkQueued}
	if err := claim(t.Context(), w.store, c, bare); err != nil {
		t.Fatal(err)
	}
	w.exec(t, "UPDATE hookonce.event_state SET generation = 3, due_at = now() - interval '1 hour' WHERE key = $1", key("shop", "evt_1"))
	s := w.connect(t)
	s.run(t, "BEGIN")
	got := s.taken(t, "shop", 10)
	s.run(t, "ROLLBACK")
	want := []takenEvent{
		{
			Source: "shop", EventID: "evt_1", Type: "order.paid", Generation: 3, Attempt: 1,
			OccurredAt: &occurred, Headers: string(c.Headers), Body: c.Body,
		},
		{Source: "shop", EventID: "evt_2", Attempt: 1, Headers: "{}", Body: []byte{}},
	}
	if len(got) != len(want) {
		t.Fatalf("took %v", got)
	}
	if got[0].OccurredAt != nil {
		*got[0].OccurredAt = got[0].OccurredAt.UTC()
	}
	keys := map[string]bool{}
	for i := range got {
		if age := time.Since(got[i].ReceivedAt); age < -time.Hour || age > time.Hour {
			t.Errorf("received %s ago", age)
		}
		if k := got[i].IdempotencyKey; !strings.HasPrefix(k, "hookonce_") || len(k) != len("hookonce_")+40 {
			t.Errorf("the idempotency key is %q", k)
		}
		keys[got[i].IdempotencyKey] = true
		got[i].ReceivedAt, got[i].IdempotencyKey = time.Time{}, ""
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("take (-want +got):\n%s", diff)
	}

	// The key stays the same over attempts and reopenings, and changes with a replay as new.
	again := func(n int) string {
		s.run(t, "BEGIN")
		defer s.run(t, "ROLLBACK")
		return s.taken(t, "shop", 10)[n].IdempotencyKey
	}
	if k := again(0); !keys[k] {
		t.Errorf("the key of the next attempt changed to %q", k)
	}
	w.exec(t, "UPDATE hookonce.event_state SET generation = 4 WHERE key = $1", key("shop", "evt_1"))
	if k := again(0); !keys[k] {
		t.Errorf("the key changed to %q with a reopening", k)
	}
	w.exec(t, "UPDATE hookonce.event_state SET generation = 5, key_generation = 5 WHERE key = $1", key("shop", "evt_1"))
	keys[again(0)] = true
	if len(keys) != 3 {
		t.Errorf("got the keys %v, want one for each event, and a new one after a replay as new", keys)
	}
}

// take skips events that are not due, not pending, tried, or in a run.
func TestTakeSelects(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.put(t, "shop", "tried", "fresh", "crashed", "later", "done", "dead", "skipped", "running", "young")
	set := func(id, what string) {
		w.exec(t, "UPDATE hookonce.event_state SET "+what+" WHERE key = $1", key("shop", id))
	}
	set("tried", "attempts = 4, last_error = 'it was bad', failed_at = now()")
	set("crashed", "crashes = 1")
	set("later", "due_at = now() + interval '1 minute'")
	set("done", "state = 2")
	set("dead", "state = 3")
	set("skipped", "state = 4")
	w.exec(t, "INSERT INTO hookonce.run (id, keys, started_at) VALUES (7, ARRAY[$1::bytea], now())", key("shop", "running"))
	s := w.connect(t)
	s.run(t, "BEGIN")
	s.wantTake(t, 1000, "tried", "fresh", "crashed", "young")
	s.run(t, "COMMIT")
	w.wantState(t, "tried", state{State: "done", Attempts: 5, Processed: true})
	w.wantState(t, "running", state{State: "running"})

	w.exec(t, "DELETE FROM hookonce.run")
	s.run(t, "BEGIN")
	s.wantTake(t, 1000, "running")
	s.run(t, "COMMIT")
}

func TestTakeRefuses(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.put(t, "shop", "a")
	s := w.connect(t)
	for sql, code := range map[string]string{
		"SELECT hookonce.take(NULL)":                     isNull,
		"SELECT hookonce.take('shop', 0)":                invalid,
		"SELECT hookonce.take('shop', -1)":               invalid,
		"SELECT hookonce.take('shop', 1001)":             invalid,
		"SELECT hookonce.take('shop', NULL)":             invalid,
		"SELECT hookonce.take(n => 0, source => 'shop')": invalid,
	} {
		s.run(t, "BEGIN")
		s.fails(t, code, sql)
		s.run(t, "ROLLBACK")
	}
	w.wantState(t, "a", state{State: "pending"})
}

// However a driver sends a statement: without a transaction it is refused, and in one it is not.
func TestTakeAutocommit(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.put(t, "shop", "a")
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		s := w.connect(t)
		for range 2 { // and once it is prepared
			if refused := s.fails(t, notActive, "SELECT event_id FROM hookonce.take($1, 10)", mode, "shop"); !strings.Contains(refused.Hint, "BEGIN") {
				t.Errorf("the hint is %q", refused.Hint)
			}
		}
		w.wantState(t, "a", state{State: "pending"})
		for range 2 {
			s.run(t, "BEGIN")
			var id string
			if err := s.QueryRow(t.Context(), w.text("SELECT event_id FROM hookonce.take($1, 10)"), mode, "shop").Scan(&id); err != nil || id != "a" {
				t.Errorf("%v: took %q, error %v", mode, id, err)
			}
			s.run(t, "SAVEPOINT x")
			s.run(t, "COMMIT")
			w.exec(t, "UPDATE hookonce.event_state SET state = 0, attempts = 0")
		}
	}
}

// Statements that look like autocommit, and others that do not.
func TestTakeTransactions(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.exec(t, "CREATE TABLE hookonce.effect (event_id text)")
	w.exec(t, `CREATE FUNCTION hookonce.work() RETURNS bigint LANGUAGE sql AS
		'INSERT INTO hookonce.effect SELECT event_id FROM hookonce.take(''shop'', 10); SELECT count(*) FROM hookonce.effect'`)
	w.exec(t, `CREATE PROCEDURE hookonce.work_on() LANGUAGE plpgsql AS
		'BEGIN INSERT INTO hookonce.effect SELECT event_id FROM hookonce.take(''shop'', 10); END'`)
	const insert = "INSERT INTO hookonce.effect SELECT event_id FROM hookonce.take('shop', 10)"
	for name, c := range map[string]struct {
		messages []string // the client's statements, in order
		refused  bool     // of the last one
	}{
		"BEGIN in the same message":         {messages: []string{"BEGIN; " + insert, "COMMIT"}},
		"all in one message":                {messages: []string{"BEGIN; " + insert + "; COMMIT"}, refused: true},
		"several statements, no BEGIN":      {messages: []string{insert + "; SELECT 1"}, refused: true},
		"a function that does the work":     {messages: []string{"SELECT hookonce.work()"}},
		"a procedure that does the work":    {messages: []string{"CALL hookonce.work_on()"}},
		"a DO block that does the work":     {messages: []string{"DO 'BEGIN " + strings.ReplaceAll(insert, "'", "''") + "; END'"}},
		"nothing in between":                {messages: []string{"BEGIN", insert, "COMMIT"}},
		"constraints made immediate before": {messages: []string{"BEGIN", "SET CONSTRAINTS ALL IMMEDIATE", insert, "COMMIT"}},
		"constraints made immediate after":  {messages: []string{"BEGIN", insert, "SET CONSTRAINTS ALL IMMEDIATE", "COMMIT"}},
		"in a savepoint":                    {messages: []string{"BEGIN", "SAVEPOINT a", insert, "RELEASE a", "COMMIT"}},
		"serializable":                      {messages: []string{"BEGIN ISOLATION LEVEL SERIALIZABLE", insert, "COMMIT"}},
	} {
		id := "evt of " + name
		w.put(t, "shop", id)
		s := w.connect(t)
		for i, message := range c.messages {
			if c.refused && i == len(c.messages)-1 {
				s.fails(t, notActive, message)
				s.run(t, "ROLLBACK") // of the failed one
				w.exec(t, "UPDATE hookonce.event_state SET state = 4 WHERE state = 0")
			} else {
				s.run(t, message)
			}
		}
		effects := get[int](t, w, "SELECT count(*) FROM hookonce.effect WHERE event_id = $1", id)
		done := w.stateOf(t, "shop", id).State == "done"
		if done == c.refused || (effects == 1) == c.refused {
			t.Errorf("%s: %d effects, done: %v, want refused: %v", name, effects, done, c.refused)
		}
	}

	// A rollback to a savepoint releases the events taken since.
	w.put(t, "shop", "undone")
	s := w.connect(t)
	s.run(t, "BEGIN")
	s.run(t, "SAVEPOINT a")
	s.wantTake(t, 10, "undone")
	s.run(t, "ROLLBACK TO a")
	s.run(t, "COMMIT")
	w.wantState(t, "undone", state{State: "pending"})
	s.run(t, "BEGIN READ ONLY")
	s.fails(t, "25006", "SELECT hookonce.take('shop')")
	s.run(t, "ROLLBACK")
}

// Above READ COMMITTED the second of two consumers gets 40001, and may try again: it loses no event
// and takes none twice.
func TestTakeIsolation(t *testing.T) {
	t.Parallel()
	w := open(t)
	for _, level := range []string{"REPEATABLE READ", "SERIALIZABLE"} {
		ids := []string{level + " 1", level + " 2"}
		w.put(t, "shop", ids...)
		first, second := w.connect(t), w.connect(t)
		second.run(t, "BEGIN ISOLATION LEVEL "+level)
		second.run(t, "SELECT count(*) FROM hookonce.events") // takes its snapshot
		first.run(t, "BEGIN ISOLATION LEVEL "+level)
		first.wantTake(t, 1, ids[0])
		first.run(t, "COMMIT")
		second.fails(t, serialization, "SELECT hookonce.take('shop', 10)")
		second.run(t, "ROLLBACK")
		second.run(t, "BEGIN ISOLATION LEVEL "+level)
		second.wantTake(t, 10, ids[1])
		second.run(t, "COMMIT")
	}
}

// The functions depend neither on the name of the schema nor on the caller's search path.
func TestSchemaOfAnotherName(t *testing.T) {
	t.Parallel()
	url, _, _ := examplestest.Postgres(t)
	w := openSchema(t, url, "select") // a word that must be quoted
	if _, err := hookmigrate.Up(t.Context(), w.store); err != nil {
		t.Fatal(err)
	}
	w.put(t, "shop", "a", "b")
	s := w.connect(t)
	s.run(t, `CREATE SCHEMA hostile`)
	for _, table := range []string{"event", "event_state", "run", "message", "take_call", "feed_watch", "feed_consumed"} {
		s.run(t, fmt.Sprintf("CREATE TABLE hostile.%s (x int)", table))
	}
	s.run(t, `CREATE FUNCTION hostile.now() RETURNS timestamptz LANGUAGE sql AS 'SELECT NULL::timestamptz'`)
	s.run(t, `CREATE FUNCTION hostile.left(text, int) RETURNS text LANGUAGE sql AS 'SELECT NULL::text'`)
	for _, path := range []string{"hostile, pg_catalog", "''"} {
		s.run(t, "SET search_path = "+path)
		s.run(t, "BEGIN")
		s.wantTake(t, 1, "a")
		s.run(t, "ROLLBACK")
		if got := get1(t, s, "SELECT hookonce.fail('shop', 'a', 'why', first => '1 microsecond')"); got != "pending" {
			t.Errorf("fail returned %q", got)
		}
		s.run(t, "SELECT hookonce.enqueue('crm', 'body', source => 'shop', event_id => 'a')")
		s.run(t, "UPDATE hookonce.event_state SET due_at = pg_catalog.now() - interval '1 hour', attempts = 0 WHERE attempts > 0")
		s.run(t, "DELETE FROM hookonce.event_attempt")
	}
	s.run(t, "SET search_path = hostile, pg_catalog")
	s.run(t, "SELECT * FROM hookonce.events, hookonce.dead_letters")
}

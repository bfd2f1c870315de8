package sqltest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
)

func TestFail(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.put(t, "shop", "a", "b", "c")
	s := w.connect(t)
	s.run(t, "BEGIN")
	s.wantTake(t, 10, "a", "b", "c")
	s.run(t, "ROLLBACK")

	for attempt := 1; attempt <= 3; attempt++ {
		want := state{State: "pending", Attempts: attempt, LastError: fmt.Sprint("no such order ", attempt)}
		if attempt == 3 {
			want.State, want.Failed = "dead", true
		}
		if got := w.fail(t, "a", ", '"+want.LastError+"', 3"); got != want.State {
			t.Errorf("attempt %d: fail returned %q", attempt, got)
		}
		w.wantState(t, "a", want)
	}
	if got := w.fail(t, "b", ", 'never', permanent => true"); got != "dead" {
		t.Errorf("a permanent failure: fail returned %q", got)
	}
	w.wantState(t, "b", state{State: "dead", Attempts: 1, LastError: "never", Failed: true})
	for id, want := range map[string]string{"a": "no such order #", "b": "never"} {
		if got := get[string](t, w, "SELECT signature FROM hookonce.event_state WHERE key = $1", key("shop", id)); got != want {
			t.Errorf("the dead event %s has the signature %q, want %q", id, got, want)
		}
	}

	// take skips events that wait for a retry or are dead, and other events are unchanged.
	s.run(t, "BEGIN")
	s.wantTake(t, 10, "c")
	s.run(t, "COMMIT")

	detail, err := w.store.Event(t.Context(), "shop", "a")
	if err != nil {
		t.Fatal(err)
	}
	for i := range detail.Tries {
		if detail.Tries[i].At.IsZero() {
			t.Errorf("attempt %d has no timestamp", i)
		}
		detail.Tries[i].At = time.Time{}
	}
	want := []driver.Attempt{
		{Number: 1, Outcome: "retry", Error: "no such order 1"},
		{Number: 2, Outcome: "retry", Error: "no such order 2"},
		{Number: 3, Outcome: "dead", Error: "no such order 3"},
	}
	if diff := cmp.Diff(want, detail.Tries); diff != "" {
		t.Errorf("the recorded attempts (-want +got):\n%s", diff)
	}

	// Success after a failure clears the error.
	w.put(t, "shop", "d")
	w.fail(t, "d", ", 'once'")
	w.exec(t, "UPDATE hookonce.event_state SET due_at = now() WHERE key = $1", key("shop", "d"))
	s.run(t, "BEGIN")
	if got := s.taken(t, "shop", 10); len(got) != 1 || got[0].Attempt != 2 {
		t.Errorf("took %v, want the second attempt", got)
	}
	s.run(t, "COMMIT")
	w.wantState(t, "d", state{State: "done", Attempts: 2, Processed: true})
}

// The n-th wait is random between 0 and first·2ⁿ⁻¹, and at most max. With many events the longest
// wait shows the upper bound, and the shortest one shows the lower.
func TestFailSchedule(t *testing.T) {
	t.Parallel()
	w := open(t)
	const events = 200
	var ids []string
	for i := range events {
		ids = append(ids, fmt.Sprint("evt_", i))
	}
	w.put(t, "shop", ids...)
	for _, c := range []struct {
		arguments string
		attempts  int // attempts before this one
		ceiling   time.Duration
	}{
		{"", 0, 10 * time.Second},
		{"", 1, 20 * time.Second},
		{"", 5, 320 * time.Second},
		{"", 13, 12 * time.Hour}, // 81,920 s without max
		{", first => '1 minute', max => '1 hour'", 3, 8 * time.Minute},
		{", first => '1 minute', max => '1 hour'", 6, time.Hour},
		{", first => '1 second', max => '1 second'", 18, time.Second},
		{", first => '1 microsecond', max => '366 days', attempts => 2147483647", 2000, 366 * 24 * time.Hour},
	} {
		w.exec(t, "UPDATE hookonce.event_state SET attempts = $1, due_at = now()", c.attempts)
		w.exec(t, "DELETE FROM hookonce.event_attempt")
		w.exec(t, "SELECT hookonce.fail('shop', e.event_id, 'x'"+c.arguments+") FROM hookonce.event e")
		var shortest, longest float64
		err := w.pool.QueryRow(t.Context(), w.text(`SELECT extract(epoch FROM min(s.due_at - a.at))::float8, extract(epoch FROM max(s.due_at - a.at))::float8
			FROM hookonce.event_state s JOIN hookonce.event_attempt a USING (key) WHERE s.state = 0 AND s.attempts = a.number`)).Scan(&shortest, &longest)
		if err != nil {
			t.Fatal(err)
		}
		// This fails by chance once in 10⁹ times.
		if ceiling := c.ceiling.Seconds(); shortest < 0 || shortest > ceiling/8 || longest > ceiling || longest < ceiling*7/8 {
			t.Errorf("attempt %d%s: the waits are %g to %g s, want 0 to %g", c.attempts+1, c.arguments, shortest, longest, ceiling)
		}
	}
}

func TestFailRefuses(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.put(t, "shop", "a")
	s := w.connect(t)
	for arguments, code := range map[string]string{
		"NULL, 'a', 'x'":                                           isNull,
		"'shop', NULL, 'x'":                                        isNull,
		"'shop', 'a', NULL":                                        isNull,
		"'shop', 'a', 'x', 0":                                      invalid,
		"'shop', 'a', 'x', -1":                                     invalid,
		"'shop', 'a', 'x', NULL":                                   invalid,
		"'shop', 'a', 'x', first => '0'":                           invalid,
		"'shop', 'a', 'x', first => '-1 second'":                   invalid,
		"'shop', 'a', 'x', first => NULL":                          invalid,
		"'shop', 'a', 'x', max => '1 second'":                      invalid,
		"'shop', 'a', 'x', max => NULL":                            invalid,
		"'shop', 'a', 'x', max => '400 days'":                      invalid,
		"'shop', 'b', 'x'":                                         noData,
		"'other', 'a', 'x'":                                        noData,
		"'shop', '', 'x'":                                          noData,
		"'shop', '" + strings.Repeat("a:", 30) + "', 'x'":          noData,
		"'shop', '" + strings.Repeat("long", 100_000) + "', 'x'":   noData,
		"'shop', 'a', 'x', permanent => true, attempts => NULL":    invalid,
		"source => 'shop', event_id => '%', error => 'a pattern?'": noData,
	} {
		if refused := s.fails(t, code, "SELECT hookonce.fail("+arguments+")"); code == noData && !strings.Contains(refused.Hint, "take returned") {
			t.Errorf("%.100s: the hint is %q", arguments, refused.Hint)
		}
	}
	w.wantState(t, "a", state{State: "pending"})
}

// An error text of any length, and permanent as NULL, which counts as false.
func TestFailTexts(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.put(t, "shop", "long", "empty", "null")
	long := strings.Repeat("ä", 5000)
	if got := get[string](t, w, "SELECT hookonce.fail('shop', 'long', $1)", long); got != "pending" {
		t.Errorf("fail returned %q", got)
	}
	w.wantState(t, "long", state{State: "pending", Attempts: 1, LastError: long[:2*4096]})
	if got := w.fail(t, "empty", ", ''"); got != "pending" {
		t.Errorf("fail returned %q", got)
	}
	w.wantState(t, "empty", state{State: "pending", Attempts: 1})
	if got := w.fail(t, "null", ", 'x', permanent => NULL"); got != "pending" {
		t.Errorf("permanent => NULL: fail returned %q", got)
	}
}

// fail returns the state of an event that is not pending, and leaves the event unchanged.
func TestFailTouchesOnlyPending(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.put(t, "shop", "done", "dead", "skipped", "running")
	for n, id := range []string{"done", "dead", "skipped"} {
		w.exec(t, "UPDATE hookonce.event_state SET state = $2, processed_at = '2024-02-29' WHERE key = $1", key("shop", id), n+2)
	}
	w.exec(t, "INSERT INTO hookonce.run (id, keys, started_at) VALUES (7, ARRAY[$1::bytea], now())", key("shop", "running"))
	routed := newClaim("shop", "routed", "body")
	routed.Work = driver.WorkNone
	routed.Messages = []driver.NewMessage{{ID: "msg_1", Route: "r", Destination: "d"}}
	if err := claim(t.Context(), w.store, routed); err != nil {
		t.Fatal(err)
	}
	before := get[string](t, w, "SELECT string_agg(s::text, ' ' ORDER BY key) FROM hookonce.event_state s")
	for id, want := range map[string]string{
		"done": "done", "dead": "dead", "skipped": "skipped", "running": "running", "routed": "running",
	} {
		if got := w.fail(t, id, ", 'x', 1"); got != want {
			t.Errorf("event %q: fail returned %q, want %q", id, got, want)
		}
	}
	if after := get[string](t, w, "SELECT string_agg(s::text, ' ' ORDER BY key) FROM hookonce.event_state s"); after != before {
		t.Errorf("the states changed from\n%s\nto\n%s", before, after)
	}
	if n := get[int](t, w, "SELECT count(*) FROM hookonce.event_attempt"); n > 0 {
		t.Errorf("%d attempts were recorded", n)
	}
}

// fail does not wait for long for a session that has the event, and never lets a failed transaction commit.
func TestFailWhileTaken(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.put(t, "shop", "a")
	first, second := w.connect(t), w.connect(t)
	first.run(t, "BEGIN")
	first.wantTake(t, 1, "a")
	if refused := second.fails(t, lockedRow, "SELECT hookonce.fail('shop', 'a', 'x')"); !strings.Contains(refused.Hint, "ROLLBACK") {
		t.Errorf("the hint is %q", refused.Hint)
	}
	for range 2 {
		refused := first.fails(t, stillActive, "SELECT hookonce.fail('shop', 'a', 'x')")
		if !strings.Contains(refused.Hint, "ROLLBACK") {
			t.Errorf("the hint is %q", refused.Hint)
		}
		first.run(t, "ROLLBACK")
		first.run(t, "BEGIN")
		first.run(t, "SAVEPOINT a")
		first.wantTake(t, 1, "a")
		first.run(t, "RELEASE a")
	}
	first.run(t, "ROLLBACK")
	w.wantState(t, "a", state{State: "pending"})

	// fail is transactional itself, and two concurrent calls count two attempts.
	first.run(t, "BEGIN")
	first.run(t, "SELECT hookonce.fail('shop', 'a', 'x')")
	second.fails(t, lockedRow, "SELECT hookonce.fail('shop', 'a', 'y')")
	first.run(t, "ROLLBACK")
	w.wantState(t, "a", state{State: "pending"})
	first.run(t, "SELECT hookonce.fail('shop', 'a', 'x')")
	second.run(t, "SELECT hookonce.fail('shop', 'a', 'y')")
	w.wantState(t, "a", state{State: "pending", Attempts: 2, LastError: "y"})
}

// Ids of several parts are shown joined by ':', so several keys may look the same.
func TestFailFindsCompositeIDs(t *testing.T) {
	t.Parallel()
	w := open(t)
	many := strings.Repeat("a:", 11) + "b" // with so many parts that all events are read
	ids := [][]string{
		{"x"},
		{"a:b"},
		{"a", "c"},
		{"a", "b:c", "d"},
		{"a:b", "c:d"},
		{"", ""},
		{":"},
		{"ü", "🙂:"},
		strings.Split(many, ":"),
		{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"},
	}
	for _, parts := range ids {
		c := newClaim("shop", strings.Join(parts, ":"), "body")
		c.Key = driver.EventKey("shop", parts...)
		if err := claim(t.Context(), w.store, c); err != nil {
			t.Fatalf("%q: %v", parts, err)
		}
	}
	for _, parts := range ids {
		id := strings.Join(parts, ":")
		// Where two look the same, fail finds the same one as the API.
		found, err := w.store.Event(t.Context(), "shop", id)
		if err != nil {
			t.Fatalf("%q: %v", parts, err)
		}
		if got := w.fail(t, id, ", 'x', 100"); got != "pending" {
			t.Errorf("%q: fail returned %q", parts, got)
		}
		if n := get[int](t, w, "SELECT attempts FROM hookonce.event_state WHERE key = $1", found.Key[:]); n < 1 {
			t.Errorf("%q: fail found another event than the API", parts)
		}
	}
	if n := get[int](t, w, "SELECT sum(attempts) FROM hookonce.event_state"); n != len(ids) {
		t.Errorf("%d attempts were counted, want %d", n, len(ids))
	}
}

package pgsession

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/hookonce/hookonce/internal/pgstore"
)

// stateError is an error of the server.
type stateError string

func (e stateError) Error() string    { return "SQLSTATE " + string(e) }
func (e stateError) SQLState() string { return string(e) }

var errBroken = errors.New("the connection is broken")

// levelSQL asks for the default isolation level.
const levelSQL = "SELECT current_setting($1::text)"

func withLevel(level string) *fakeClient {
	return &fakeClient{rows: map[string][]string{levelSQL: {level}, "INSERT": {"a", "b"}}, fail: map[string]error{}}
}

// readRows reads up to n rows of INSERT, and closes them.
func readRows(t *testing.T, db *DB, n int) error {
	t.Helper()
	rows, err := db.Query(t.Context(), "INSERT")
	if err != nil {
		return err
	}
	defer rows.Close()
	for range n {
		if !rows.Next() {
			break
		}
	}
	err = rows.Err()
	rows.Close()
	return err
}

func TestQuery(t *testing.T) {
	t.Parallel()
	const all, one = 3, 1
	for _, test := range []struct {
		name, level string
		rows        int
		want        []string
	}{
		{"read committed", "read committed", all, []string{"acquire", levelSQL, "INSERT", "release"}},
		{"read uncommitted", "read uncommitted", all, []string{"acquire", levelSQL, "INSERT", "release"}},
		{"repeatable read", "repeatable read", all, []string{"acquire", levelSQL, "release", "begin 0", "INSERT", "commit", "release"}},
		{"closed early", "serializable", one, []string{"acquire", levelSQL, "release", "begin 0", "INSERT", "rollback", "release"}},
		{"not read", "serializable", 0, []string{"acquire", levelSQL, "release", "begin 0", "INSERT", "rollback", "release"}},
	} {
		client := withLevel(test.level)
		if err := readRows(t, New(client), test.rows); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		client.wantCalls(t, test.name, test.want...)
	}
}

func TestQueryAsksForTheLevelOnce(t *testing.T) {
	t.Parallel()
	client := withLevel("read committed")
	db := New(client)
	for range 2 {
		if err := readRows(t, db, 3); err != nil {
			t.Fatal(err)
		}
	}
	client.wantCalls(t, "two statements", "acquire", levelSQL, "INSERT", "release", "acquire", "INSERT", "release")
	if err := readRows(t, NewReadCommitted(client), 3); err != nil {
		t.Fatal(err)
	}
	client.wantCalls(t, "a statement at a known level", "acquire", "INSERT", "release")
}

func TestFailures(t *testing.T) {
	t.Parallel()
	script := func(db *DB) error { return db.Script(t.Context(), "INSERT") }
	query := func(db *DB) error { return readRows(t, db, 3) }
	for _, test := range []struct {
		name, level, failing string
		do                   func(*DB) error
		outcome              pgstore.Outcome
		last                 string
	}{
		{"no connection", "read committed", "acquire", query, pgstore.NotSent, "acquire"},
		{"no connection for a script", "read committed", "acquire", script, pgstore.NotSent, "acquire"},
		{"the level is unknown", "read committed", levelSQL, query, pgstore.NotSent, "release"},
		{"the level cannot be read", "read committed", "rows of " + levelSQL, query, pgstore.NotSent, "release"},
		{"the statement", "read committed", "INSERT", query, pgstore.Unknown, "release"},
		{"the rows", "read committed", "rows of INSERT", query, pgstore.Unknown, "release"},
		{"the script", "read committed", "INSERT", script, pgstore.Unknown, "release"},
		{"BEGIN", "serializable", "begin 0", query, pgstore.NotSent, "begin 0"},
		{"the statement in a transaction", "serializable", "INSERT", query, pgstore.Unknown, "release"},
		{"the rows in a transaction", "serializable", "rows of INSERT", query, pgstore.Unknown, "release"},
		{"COMMIT", "serializable", "commit", query, pgstore.Unknown, "release"},
	} {
		client := withLevel(test.level)
		client.fail[test.failing] = io.ErrUnexpectedEOF
		db := New(client)
		err := test.do(db)
		if got := db.Outcome(err); !errors.Is(err, io.ErrUnexpectedEOF) || got != test.outcome {
			t.Errorf("%s: got the error %v with the outcome %v, want the outcome %v", test.name, err, got, test.outcome)
		}
		if calls := client.took(); calls[len(calls)-1] != test.last {
			t.Errorf("%s: the calls were %q, want %q as the last one", test.name, calls, test.last)
		}
	}
}

func TestTransaction(t *testing.T) {
	t.Parallel()
	mine := errors.New("mine")
	for _, test := range []struct {
		name    string
		level   pgstore.Isolation
		failing string
		f       error
		want    error
		calls   []string
	}{
		{"committed", pgstore.ReadCommitted, "", nil, nil, []string{"begin 0", "commit", "release"}},
		{"a snapshot", pgstore.Snapshot, "", nil, nil, []string{"begin 1", "commit", "release"}},
		{"failed", pgstore.ReadCommitted, "", mine, mine, []string{"begin 0", "rollback", "release"}},
		{"COMMIT failed", pgstore.ReadCommitted, "commit", nil, io.EOF, []string{"begin 0", "commit", "release"}},
		{"BEGIN failed", pgstore.ReadCommitted, "begin 0", nil, io.EOF, []string{"begin 0"}},
	} {
		client := withLevel("serializable")
		client.fail[test.failing] = io.EOF
		if err := New(client).Transaction(t.Context(), test.level, func(pgstore.Conn) error { return test.f }); !errors.Is(err, test.want) {
			t.Errorf("%s: got the error %v, want %v", test.name, err, test.want)
		}
		client.wantCalls(t, test.name, test.calls...)
	}
	client := withLevel("read committed")
	func() {
		defer func() { _ = recover() }()
		_ = New(client).Transaction(t.Context(), pgstore.ReadCommitted, func(pgstore.Conn) error { panic("a bug") })
	}()
	client.wantCalls(t, "a transaction that panics", "begin 0", "rollback", "release")
}

// TestBrokenConnections begins transactions in a pool full of lost connections.
func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, test := range []struct {
		broken, tries int
		ctx           context.Context
		want          error
	}{
		{maxBroken, maxBroken + 1, t.Context(), nil},
		{maxBroken + 1, maxBroken + 1, t.Context(), errBroken},
		{2, 1, ended, errBroken},
	} {
		for name, begin := range map[string]func(*DB) error{
			"Begin": func(db *DB) error { _, err := db.Begin(test.ctx); return err },
			"Transaction": func(db *DB) error {
				return db.Transaction(test.ctx, pgstore.ReadCommitted, func(pgstore.Conn) error { return nil })
			},
		} {
			client := &fakeClient{broken: test.broken}
			db := New(client)
			err := begin(db)
			if !errors.Is(err, test.want) || err != nil && db.Outcome(err) != pgstore.NotSent {
				t.Errorf("%s with %d broken connections: got the error %v, want %v that was not sent", name, test.broken, err, test.want)
			}
			tries := 0
			for _, call := range client.took() {
				if call == "begin 0" || call == "begin run" {
					tries++
				}
			}
			if tries != test.tries {
				t.Errorf("%s with %d broken connections: %d tries, want %d", name, test.broken, tries, test.tries)
			}
		}
	}
}

// TestSpoil has a server that refuses writes or shuts down. The first call that meets the error spoils the
// connection before it releases it; other errors spoil nothing.
func TestSpoil(t *testing.T) {
	t.Parallel()
	query := func(db *DB) { _ = readRows(t, db, 3) }
	for _, test := range []struct {
		name, level, failing string
		do                   func(*DB)
		want                 []string
	}{
		{"a statement", "read committed", "INSERT", query, []string{"acquire", levelSQL, "INSERT", "spoil", "release"}},
		{"rows", "read committed", "rows of INSERT", query, []string{"acquire", levelSQL, "INSERT", "spoil", "release"}},
		{"a script", "", "INSERT", func(db *DB) { _ = db.Script(t.Context(), "INSERT") }, []string{"acquire", "INSERT", "spoil", "release"}},
		{
			"a statement in a transaction of its own", "serializable", "INSERT", query,
			[]string{"acquire", levelSQL, "release", "begin 0", "INSERT", "spoil", "rollback", "release"},
		},
		{
			"rows in a transaction of their own", "serializable", "rows of INSERT", query,
			[]string{"acquire", levelSQL, "release", "begin 0", "INSERT", "rollback", "spoil", "release"},
		},
		{"a transaction", "", "INSERT", func(db *DB) {
			_ = db.Transaction(t.Context(), pgstore.ReadCommitted, func(conn pgstore.Conn) error {
				_, err := conn.Query(t.Context(), "INSERT")
				return err
			})
		}, []string{"begin 0", "INSERT", "spoil", "rollback", "release"}},
		{"COMMIT", "", "commit", func(db *DB) {
			_ = db.Transaction(t.Context(), pgstore.ReadCommitted, func(pgstore.Conn) error { return nil })
		}, []string{"begin 0", "commit", "spoil", "release"}},
		{"a run", "", "rows of INSERT", func(db *DB) {
			tx, err := db.Begin(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			if rows, err := tx.Query(t.Context(), "INSERT"); err == nil {
				rows.Close()
			}
			tx.Rollback(t.Context())
		}, []string{"begin run", "INSERT", "spoil", "rollback", "release"}},
	} {
		for _, state := range []string{"25006", "57P01", "42501"} {
			client := withLevel(test.level)
			client.fail[test.failing] = stateError(state)
			test.do(New(client))
			want := test.want
			if state == "42501" {
				want = slices.DeleteFunc(slices.Clone(want), func(call string) bool { return call == "spoil" })
			}
			client.wantCalls(t, fmt.Sprint(test.name, " that fails with ", state), want...)
		}
	}
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	db := New(&fakeClient{})
	for err, want := range map[error]pgstore.Outcome{
		io.ErrUnexpectedEOF:          pgstore.Unknown,
		stateError("57P01"):          pgstore.Unknown,
		stateError("23505"):          pgstore.Refused,
		NotSent(stateError("57P03")): pgstore.NotSent,
		NotSent(io.EOF):              pgstore.NotSent,
	} {
		if got := db.Outcome(fmt.Errorf("a statement: %w", errors.Join(err))); got != want {
			t.Errorf("the outcome of %v is %v, want %v", err, got, want)
		}
	}
}

func TestUndone(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]struct{ unsaid, asERROR, asFATAL bool }{
		"":      {false, false, false},
		"08006": {false, false, false}, // the connection
		"57P01": {false, false, false}, // the server shuts down
		"57P03": {false, false, false},
		"53100": {false, true, false}, // the disk is full
		"58030": {false, true, false}, // an I/O error
		"XX000": {false, true, false},
		"23505": {true, true, false},
		"25P02": {true, true, false},
		"25P03": {true, true, false},
		"40001": {true, true, false},
		"42P01": {true, true, false},
		"57014": {true, true, false}, // cancelled
	} {
		for severity, want := range map[string]bool{"": want.unsaid, "ERROR": want.asERROR, "FATAL": want.asFATAL} {
			if got := Undone(state, severity); got != want {
				t.Errorf("Undone(%q, %q) is %v, want %v", state, severity, got, want)
			}
		}
	}
}

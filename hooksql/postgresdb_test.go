package hooksql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/internal/pgstore"
	"github.com/hookonce/hookonce/internal/test/dbtest"
)

// TestPostgresWritesOnce loses the replies to statements that commit by themselves.
// On a *sql.DB some of them would be run again: each without arguments, and with
// the simple protocol all.
func TestPostgresWritesOnce(t *testing.T) {
	t.Parallel()
	server := dbtest.StartServer(t, nil)
	proxy := dbtest.StartProxy(t, server.Addr())
	direct := poolOf(t, server.DSN())
	for _, mode := range argModes {
		db := &postgresDB{pool: poolOf(t, withMode(t, proxy.DSN(t, server.DSN()), mode))}
		for name, write := range map[string]func(table string) error{
			"query": func(table string) error {
				rows, err := db.Query(t.Context(), "INSERT INTO "+table+" VALUES (1) RETURNING n")
				if err == nil {
					defer rows.Close()
					for rows.Next() {
					}
					err = rows.Err()
				}
				return err
			},
			"query with an argument": func(table string) error {
				rows, err := db.Query(t.Context(), "INSERT INTO "+table+" VALUES ($1::int)", 1)
				if err == nil {
					defer rows.Close()
					for rows.Next() {
					}
					err = rows.Err()
				}
				return err
			},
			"script": func(table string) error { return db.Script(t.Context(), "INSERT INTO "+table+" VALUES (1)") },
		} {
			table := fmt.Sprintf("%q", mode+" "+name)
			if _, err := direct.ExecContext(t.Context(), "CREATE TABLE "+table+" (n int)"); err != nil {
				t.Fatal(err)
			}
			drop := proxy.DropReply("INSERT INTO", dbtest.CutReset)
			err := write(table)
			<-drop.Done()
			if got := db.Outcome(err); err == nil || got != pgstore.Unknown {
				t.Errorf("%s in the mode %s: the outcome of the error %v is %v, want it unknown", name, mode, err, got)
			}
			var n int
			if err := direct.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil || n != 1 {
				t.Errorf("%s in the mode %s: %d rows and the error %v, want 1", name, mode, n, err)
			}
		}
	}
}

// stateError is an error of a server.
type stateError string

func (e stateError) Error() string    { return "SQLSTATE " + string(e) }
func (e stateError) SQLState() string { return string(e) }

func TestPostgresOutcome(t *testing.T) {
	t.Parallel()
	got := map[string]pgstore.Outcome{}
	want := map[string]pgstore.Outcome{}
	for err, outcome := range map[error]pgstore.Outcome{
		io.ErrUnexpectedEOF: pgstore.Unknown, driver.ErrBadConn: pgstore.Unknown, context.DeadlineExceeded: pgstore.Unknown,
		stateError(""): pgstore.Unknown, stateError("08006"): pgstore.Unknown, stateError("57P01"): pgstore.Unknown,
		stateError("57P03"): pgstore.Unknown, stateError("58030"): pgstore.Unknown, stateError("53100"): pgstore.Unknown,
		stateError("XX000"): pgstore.Unknown,
		stateError("23505"): pgstore.Refused, stateError("57014"): pgstore.Refused, stateError("40001"): pgstore.Refused,
		stateError("25P02"): pgstore.Refused, stateError("25P03"): pgstore.Refused, stateError("42P01"): pgstore.Refused,
		notSentError{stateError("57P03")}: pgstore.NotSent, notSentError{io.EOF}: pgstore.NotSent,
	} {
		err := fmt.Errorf("a statement: %w", errors.Join(err))
		got[err.Error()], want[err.Error()] = new(postgresDB).Outcome(err), outcome
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
}

// TestPostgresTransactions ends transactions in every way, and wants the connections
// back and nothing written but what was committed.
func TestPostgresTransactions(t *testing.T) {
	t.Parallel()
	db, table := openTxDB(t)
	insert := "INSERT INTO " + table + " VALUES ($1::text)"
	add := func(ctx context.Context, conn pgstore.Conn) error {
		rows, err := conn.Query(ctx, insert, "a")
		if err == nil {
			rows.Close()
			err = rows.Err()
		}
		if errors.Is(err, errNotRead) {
			err = nil
		}
		return err
	}
	mine := errors.New("mine")
	ended, cancel := context.WithCancel(t.Context())
	for _, test := range []struct {
		name  string
		ctx   context.Context
		level pgstore.Isolation
		f     func(pgstore.Conn) error
		want  func(error) bool
		added int
	}{
		{"committed", t.Context(), pgstore.ReadCommitted, func(c pgstore.Conn) error { return add(t.Context(), c) }, func(err error) bool { return err == nil }, 1},
		{"script", t.Context(), pgstore.ReadCommitted, func(c pgstore.Conn) error {
			return c.Script(t.Context(), "INSERT INTO "+table+" VALUES ('a;'); DO $$ BEGIN INSERT INTO "+table+" VALUES ('b;'); END $$;")
		}, func(err error) bool { return err == nil }, 2},
		{"failed", t.Context(), pgstore.ReadCommitted, func(c pgstore.Conn) error { return errors.Join(mine, add(t.Context(), c)) }, func(err error) bool { return errors.Is(err, mine) }, 0},
		{"refused", t.Context(), pgstore.ReadCommitted, func(c pgstore.Conn) error { return c.Script(t.Context(), "SELECT 1/0") }, func(err error) bool { return db.Outcome(err) == pgstore.Refused }, 0},
		{"a write in a snapshot", t.Context(), pgstore.Snapshot, func(c pgstore.Conn) error { return add(t.Context(), c) }, func(err error) bool { return sqlState(err) == "25006" }, 0},
		{"context ended", ended, pgstore.ReadCommitted, func(c pgstore.Conn) error {
			defer cancel()
			return add(t.Context(), c)
		}, func(err error) bool { return err != nil }, 0},
		{"context ended before", ended, pgstore.ReadCommitted, func(pgstore.Conn) error { return mine }, func(err error) bool { return db.Outcome(err) == pgstore.NotSent }, 0},
	} {
		before := count(t, db, table)
		if err := db.Transaction(test.ctx, test.level, test.f); !test.want(err) {
			t.Errorf("%s: got the error %v", test.name, err)
		}
		wantIdle(t, db)
		if n := count(t, db, table) - before; n != test.added {
			t.Errorf("%s: %d rows were added, want %d", test.name, n, test.added)
		}
	}
}

// TestPostgresRowsNotRead closes rows before their end, at a level at which their
// statement is in a transaction: it is rolled back, because nobody knows what it
// told.
func TestPostgresRowsNotRead(t *testing.T) {
	t.Parallel()
	db, table := openTxDB(t)
	db.level.Store(levelOther)
	for _, rowsRead := range []int{1, 5} {
		rows, err := db.Query(t.Context(), "INSERT INTO "+table+" SELECT 'a' FROM generate_series(1, 4) RETURNING name")
		if err != nil {
			t.Fatal(err)
		}
		for range rowsRead {
			rows.Next()
		}
		err = rows.Err()
		rows.Close()
		rows.Close()
		if err != nil {
			t.Errorf("after %d rows: %v", rowsRead, err)
		}
		if n, want := count(t, db, table), rowsRead/5*4; n != want {
			t.Errorf("%d rows were committed after %d were read, want %d", n, rowsRead, want)
		}
		wantIdle(t, db)
	}
}

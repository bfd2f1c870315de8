package hooksql

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/hookonce/hookonce/internal/pgstore"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/group"
)

// TestPostgresWritesOnce loses the replies to statements that commit by themselves. On a *sql.DB
// some of them would be repeated: each without arguments, and all in the simple protocol.
func TestPostgresWritesOnce(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	server := dbtest.StartServer(t, nil)
	proxy := dbtest.StartProxy(t, server.Addr())
	direct := poolOf(t, server.DSN())
	for _, mode := range argModes {
		db := newTestDB(poolOf(t, withMode(t, proxy.DSN(t, server.DSN()), mode)))
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

// TestPostgresTransactions ends transactions in every way. The connections must come back, and only
// committed rows may be there.
func TestPostgresTransactions(t *testing.T) {
	t.Parallel()
	db, table := openTxDB(t)
	insert := "INSERT INTO " + table + " VALUES ($1::text)"
	add := func(ctx context.Context, conn pgstore.Conn) error {
		rows, err := conn.Query(ctx, insert, "a")
		if err == nil {
			for rows.Next() {
			}
			rows.Close()
			err = rows.Err()
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
		{"a write in a snapshot", t.Context(), pgstore.Snapshot, func(c pgstore.Conn) error { return add(t.Context(), c) }, func(err error) bool { return pgstore.SQLState(err) == "25006" }, 0},
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

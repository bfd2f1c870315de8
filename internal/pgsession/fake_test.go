package pgsession

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/internal/pgstore"
)

// fakeClient is a Client that writes down every call, and answers as the test says.
type fakeClient struct {
	calls  []string
	fail   map[string]error    // by call
	broken int                 // how many connections break at BEGIN
	rows   map[string][]string // by statement, one column
	status pgstore.TxStatus
}

func (c *fakeClient) call(name string) error {
	c.calls = append(c.calls, name)
	return c.fail[name]
}

// took returns the calls since the last time.
func (c *fakeClient) took() []string {
	calls := c.calls
	c.calls = nil
	return calls
}

func (c *fakeClient) wantCalls(t *testing.T, what string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, c.took()); diff != "" {
		t.Errorf("calls of %s (-want +got):\n%s", what, diff)
	}
}

func (c *fakeClient) Acquire(context.Context) (Session, error) {
	if err := c.call("acquire"); err != nil {
		return nil, err
	}
	return fakeConn{c}, nil
}

func (c *fakeClient) begin(name string) (broken bool, err error) {
	err = c.call(name)
	if err == nil && c.broken > 0 {
		c.broken--
		return true, errBroken
	}
	return false, err
}

func (c *fakeClient) Begin(_ context.Context, level pgstore.Isolation) (Tx, bool, error) {
	broken, err := c.begin(fmt.Sprint("begin ", level))
	return fakeTx{fakeConn{c}}, broken, err
}

func (c *fakeClient) BeginRun(context.Context) (RunTx, bool, error) {
	broken, err := c.begin("begin run")
	return fakeTx{fakeConn{c}}, broken, err
}

func (c *fakeClient) Refused(err error) bool { return Undone(pgstore.SQLState(err), "") }

type fakeConn struct{ c *fakeClient }

func (f fakeConn) Query(_ context.Context, sql string, _ ...any) (pgstore.Rows, error) {
	if err := f.c.call(sql); err != nil {
		return nil, err
	}
	return &fakeRows{c: f.c, sql: sql, rest: slices.Clone(f.c.rows[sql])}, nil
}

func (f fakeConn) Script(_ context.Context, sql string) error { return f.c.call(sql) }

func (f fakeConn) Release() { _ = f.c.call("release") }

func (f fakeConn) Spoil() { _ = f.c.call("spoil") }

type fakeTx struct{ fakeConn }

func (f fakeTx) Commit(context.Context) error { return f.c.call("commit") }

func (f fakeTx) Rollback(context.Context) { _ = f.c.call("rollback") }

func (f fakeTx) Status(context.Context) pgstore.TxStatus {
	_ = f.c.call("status")
	return f.c.status
}

func (f fakeTx) Cut() { _ = f.c.call("cut") }

type fakeRows struct {
	c         *fakeClient
	sql, next string
	rest      []string
	closed    bool
}

func (r *fakeRows) Next() bool {
	if r.closed || len(r.rest) == 0 {
		return false
	}
	r.next, r.rest = r.rest[0], r.rest[1:]
	return true
}

func (r *fakeRows) Scan(dest ...any) error {
	*dest[0].(*string) = r.next
	return nil
}

func (r *fakeRows) Err() error { return r.c.fail["rows of "+r.sql] }

func (r *fakeRows) Close() { r.closed = true }

package sqlitestore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"sync/atomic"
	"testing"

	"modernc.org/sqlite"
)

// faults make the connections of one driver fail at the end of a transaction, over a real database,
// as a disk would.
type faults struct {
	// If set, commit and rollback replace the call of the real one.
	commit   atomic.Pointer[func(real func() error) error]
	rollback atomic.Pointer[func(real func() error) error]
	// If set, read fails a query with its error.
	read atomic.Pointer[func(query string) error]
}

var faultDrivers atomic.Int64

// register registers a driver with these faults and returns its name.
func (f *faults) register() string {
	name := fmt.Sprintf("sqlite-with-faults-%d", faultDrivers.Add(1))
	sql.Register(name, &faultDriver{faults: f})
	return name
}

func (f *faults) onCommit(do func(real func() error) error)   { f.commit.Store(&do) }
func (f *faults) onRollback(do func(real func() error) error) { f.rollback.Store(&do) }

// hangCommit makes one COMMIT hang until goOn is closed. started is closed when it hangs.
func (f *faults) hangCommit() (started, goOn chan struct{}) {
	started, goOn = make(chan struct{}), make(chan struct{})
	f.onCommit(func(real func() error) error {
		close(started)
		<-goOn
		return real()
	})
	return started, goOn
}

type faultDriver struct {
	sqlite.Driver
	faults *faults
}

func (d *faultDriver) Open(name string) (driver.Conn, error) {
	conn, err := d.Driver.Open(name)
	if err != nil {
		return nil, err
	}
	return &faultConn{Conn: conn, faults: d.faults}, nil
}

type faultConn struct {
	driver.Conn
	faults *faults
}

// The hooks of the real connection. A store refuses handlers without them.
func (c *faultConn) RegisterCommitHook(callback sqlite.CommitHookFn) {
	c.Conn.(interface{ RegisterCommitHook(sqlite.CommitHookFn) }).RegisterCommitHook(callback)
}

func (c *faultConn) RegisterRollbackHook(callback sqlite.RollbackHookFn) {
	c.Conn.(interface{ RegisterRollbackHook(sqlite.RollbackHookFn) }).RegisterRollbackHook(callback)
}

func (c *faultConn) Prepare(query string) (driver.Stmt, error) {
	if read := c.faults.read.Load(); read != nil {
		if err := (*read)(query); err != nil {
			return nil, err
		}
	}
	return c.Conn.Prepare(query)
}

func (c *faultConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	tx, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
	if err != nil {
		return nil, err
	}
	return &faultTx{real: tx, faults: c.faults}, nil
}

type faultTx struct {
	real   driver.Tx
	faults *faults
}

func (t *faultTx) Commit() error   { return through(&t.faults.commit, t.real.Commit) }
func (t *faultTx) Rollback() error { return through(&t.faults.rollback, t.real.Rollback) }

func through(fault *atomic.Pointer[func(func() error) error], real func() error) error {
	if do := fault.Load(); do != nil {
		return (*do)(real)
	}
	return real()
}

// code is an error with an SQLite result code.
type code int

func (c code) Error() string { return fmt.Sprintf("SQLite result code %d", int(c)) }
func (c code) Code() int     { return int(c) }

func TestFaultsAreOffByDefault(t *testing.T) {
	t.Parallel()
	var f faults
	store := storeWith(t, &f)
	if got := claim(t, store, "evt_1"); got != nil {
		t.Errorf("claim: %v", got)
	}
	wantEvents(t, store, "evt_1")
}

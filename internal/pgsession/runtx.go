package pgsession

import (
	"context"
	"errors"
	"sync"

	"github.com/hookonce/hookonce/internal/pgstore"
)

// runTx is the pgstore.Tx of a run.
type runTx struct {
	tx RunTx

	mu      sync.Mutex
	over    bool // guarded by mu: the connection is released and may belong to another transaction
	severed bool // guarded by mu
}

var _ pgstore.Tx = (*runTx)(nil)

var (
	errOver    = errors.New("the transaction is over")
	errSevered = errors.New("the connection was cut off")
)

// Begin implements pgstore.DB.
func (d *DB) Begin(ctx context.Context) (pgstore.Tx, error) {
	tx, err := retryBroken(ctx, func() (RunTx, bool, error) { return d.client.BeginRun(ctx) })
	if err != nil {
		return nil, err
	}
	return &runTx{tx: tx}, nil
}

// usable returns nil while statements can be sent.
func (t *runTx) usable() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.over:
		return notSentError{errOver}
	case t.severed:
		return notSentError{errSevered}
	}
	return nil
}

// Query implements pgstore.Conn.
func (t *runTx) Query(ctx context.Context, sql string, args ...any) (pgstore.Rows, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	rows, err := t.tx.Query(ctx, sql, args...)
	if err != nil {
		spoil(t.tx, err)
		return nil, err
	}
	return &watchedRows{rows, t.tx}, nil
}

// Script implements pgstore.Conn.
func (t *runTx) Script(ctx context.Context, sql string) error {
	if err := t.usable(); err != nil {
		return err
	}
	return t.tx.Script(ctx, sql)
}

// Status implements pgstore.Tx.
func (t *runTx) Status(ctx context.Context) pgstore.TxStatus {
	if t.usable() != nil {
		return pgstore.TxLost
	}
	return t.tx.Status(ctx)
}

// Commit implements pgstore.Tx. The transaction stays open if ctx has ended already.
func (t *runTx) Commit(ctx context.Context) error {
	if err := t.usable(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return notSentError{err}
	}
	err := t.tx.Commit(ctx)
	t.release()
	return err
}

// Rollback implements pgstore.Tx.
func (t *runTx) Rollback(ctx context.Context) {
	if errors.Is(t.usable(), errOver) {
		return
	}
	t.tx.Rollback(ctx)
	t.release()
}

func (t *runTx) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	t.tx.Release()
}

// Sever implements pgstore.Tx.
func (t *runTx) Sever() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over || t.severed {
		return
	}
	t.severed = true
	t.tx.Cut()
}

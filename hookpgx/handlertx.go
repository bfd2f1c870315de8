package hookpgx

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hookonce/hookonce/internal/pgsession"
	"github.com/hookonce/hookonce/internal/pgstore"
)

// handlerTx is the transaction of a run as its handlers see it. Its Commit and Rollback only make
// the run fail. It keeps the first error of a statement, to report it if the handler ignores it.
type handlerTx struct {
	pgx.Tx
	run *pgstore.Run
}

func newHandlerTx(run *pgstore.Run, tx pgsession.RunTx) pgx.Tx {
	t := tx.(*poolTx)
	t.handlers = handlerTx{t.tx, run}
	if run.PID() != int32(t.tx.Conn().PgConn().PID()) { // a pooler invents the connection's number
		t.handlers.Tx = unnamedTx{t.tx}
	}
	return &t.handlers
}

// Commit implements pgx.Tx.
func (t *handlerTx) Commit(context.Context) error { return t.run.Refuse("Commit") }

// Rollback implements pgx.Tx.
func (t *handlerTx) Rollback(context.Context) error { return t.run.Refuse("Rollback") }

// Exec implements pgx.Tx.
func (t *handlerTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	tag, err := t.Tx.Exec(ctx, sql, args...)
	t.run.Note(err)
	return tag, err
}

// Query implements pgx.Tx.
func (t *handlerTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	rows, err := t.Tx.Query(ctx, sql, args...)
	t.run.Note(err)
	return rows, err
}

// QueryRow implements pgx.Tx.
func (t *handlerTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return notingRow{t.Tx.QueryRow(ctx, sql, args...), t.run}
}

// notingRow is a row that keeps its error in the run.
type notingRow struct {
	pgx.Row
	run *pgstore.Run
}

// Scan implements pgx.Row.
func (r notingRow) Scan(dest ...any) error {
	err := r.Row.Scan(dest...)
	if !errors.Is(err, pgx.ErrNoRows) {
		r.run.Note(err)
	}
	return err
}

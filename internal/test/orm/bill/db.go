// Package bill has the shape that sqlc generates from query.sql with sql_package: pgx/v5.
package bill

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// DBTX is a pool, a connection or a transaction.
type DBTX interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
	Query(context.Context, string, ...any) (pgx.Rows, error)
	QueryRow(context.Context, string, ...any) pgx.Row
}

// New returns the queries over db.
func New(db DBTX) *Queries { return &Queries{db: db} }

// Queries has a method for each query.
type Queries struct{ db DBTX }

const addInvoice = `-- name: AddInvoice :exec
INSERT INTO invoices (id, amount) VALUES ($1, $2)
`

// AddInvoiceParams are the arguments of AddInvoice.
type AddInvoiceParams struct {
	ID     string
	Amount int64
}

// AddInvoice adds an invoice.
func (q *Queries) AddInvoice(ctx context.Context, arg AddInvoiceParams) error {
	_, err := q.db.Exec(ctx, addInvoice, arg.ID, arg.Amount)
	return err
}

package withent

import (
	"database/sql"
	"os"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/hooktest"
)

// The handler writes an invoice and its line in its transaction. ORM_DSN names the database.
func TestHandler(t *testing.T) {
	pool, err := sql.Open("pgx", os.Getenv("ORM_DSN"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pool.Close() }()
	tx, err := pool.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	mux := &hookonce.Mux[*sql.Tx]{}
	hookonce.Handle(mux, "stripe", "invoice.paid", withEnt)
	ev := hooktest.NewEvent("stripe", "evt_1", "invoice.paid", `{"id":"evt_1"}`)
	if r := hooktest.Work(t.Context(), t, tx, mux, ev); !r.Handled || r.Err != nil {
		t.Fatalf("handled %v: %v", r.Handled, r.Err)
	}
	const lines = "SELECT count(*) FROM lines WHERE invoice_lines = 'evt_1'"
	var n int
	if err := tx.QueryRowContext(t.Context(), lines).Scan(&n); err != nil || n != 1 {
		t.Errorf("%d lines in the transaction (%v), want 1", n, err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := pool.QueryRowContext(t.Context(), "SELECT count(*) FROM lines").Scan(&n); err != nil || n != 0 {
		t.Errorf("%d lines after the rollback (%v): the handler wrote outside of its transaction", n, err)
	}
}

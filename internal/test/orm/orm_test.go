package orm

import (
	"context"
	"database/sql"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/jmoiron/sqlx"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/hooktest"
	"github.com/hookonce/hookonce/internal/test/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

const schema = `CREATE TABLE invoices (id text PRIMARY KEY, amount bigint NOT NULL);
CREATE TABLE lines (id text PRIMARY KEY, invoice_lines text REFERENCES invoices)`

// invoices returns a pool and an empty table of invoices, which is in a schema of its own.
func invoices(t *testing.T) (dsn string, pool *sql.DB) {
	t.Helper()
	dsn, name := dbtest.Postgres(t)
	separator := "?"
	if strings.Contains(dsn, "?") {
		separator = "&"
	}
	dsn += separator + "search_path=" + name
	pool, err := sql.Open("pgx", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	if _, err := pool.ExecContext(t.Context(), "CREATE SCHEMA "+name+"; "+schema); err != nil {
		t.Fatal(err)
	}
	return dsn, pool
}

// check counts the rows that the handler of mux wrote, in its transaction and after the rollback.
func check(t *testing.T, result *hooktest.Result, inside func() int, rollback func() error, pool *sql.DB) {
	t.Helper()
	if !result.Handled || result.Err != nil {
		t.Fatalf("handled %v: %v", result.Handled, result.Err)
	}
	if n := inside(); n != 1 {
		t.Errorf("%d invoices of 5 in the transaction, want 1", n)
	}
	if err := rollback(); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := pool.QueryRowContext(t.Context(), "SELECT count(*) FROM invoices").Scan(&n); err != nil || n != 0 {
		t.Errorf("%d invoices after the rollback (%v): the handler wrote outside of its transaction", n, err)
	}
}

const countInside = "SELECT count(*) FROM invoices WHERE id = 'evt_1' AND amount = 5"

// The handlers of the page write in the transaction that they get.
func TestHandlers(t *testing.T) {
	t.Parallel()
	ev := hooktest.NewEvent("stripe", "evt_1", "invoice.paid", `{"id":"evt_1"}`)
	_, pool := invoices(t)
	for name, handler := range map[string]hookonce.HandlerFunc[*sql.Tx]{
		"gorm": withGORM, "bun": withBun(pool), "sqlx": withSQLX,
	} {
		t.Run(name, func(t *testing.T) {
			tx, err := pool.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback() }() // after a failure
			mux := &hookonce.Mux[*sql.Tx]{}
			hookonce.Handle(mux, "stripe", "invoice.paid", handler)
			check(t, hooktest.Work(t.Context(), t, tx, mux, ev), func() (n int) {
				if err := tx.QueryRowContext(t.Context(), countInside).Scan(&n); err != nil {
					t.Error(err)
				}
				return n
			}, tx.Rollback, pool)
		})
	}
}

func TestSQLC(t *testing.T) {
	t.Parallel()
	ev := hooktest.NewEvent("stripe", "evt_1", "invoice.paid", `{"id":"evt_1"}`)
	dsn, pool := invoices(t)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mux := &hookonce.Mux[pgx.Tx]{}
	hookonce.Handle(mux, "stripe", "invoice.paid", withSQLC)
	check(t, hooktest.Work(t.Context(), t, tx, mux, ev), func() (n int) {
		if err := tx.QueryRow(t.Context(), countInside).Scan(&n); err != nil {
			t.Error(err)
		}
		return n
	}, func() error { return tx.Rollback(t.Context()) }, pool)
}

// ent's client is generated, and not kept.
func TestEnt(t *testing.T) {
	t.Parallel()
	dsn, _ := invoices(t)
	for _, args := range [][]string{
		{"tool", "ent", "generate", "--target", "generated", "./ent/schema"},
		{"test", "-count=1", "./testdata/withent"},
	} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Env = append(os.Environ(), "ORM_DSN="+dsn)
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, output)
		}
	}
}

// NamedExec fails, as the page says.
func TestNamedExec(t *testing.T) {
	t.Parallel()
	_, pool := invoices(t)
	tx, err := pool.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	wrapped := &sqlx.Tx{Tx: tx, Mapper: sqlx.NewDb(pool, "pgx").Mapper}
	if _, err := wrapped.NamedExec("INSERT INTO invoices (id, amount) VALUES (:id, :amount)", Invoice{ID: "evt_1"}); err == nil {
		t.Error("NamedExec works now: the page needs no workaround")
	}
}

var block = regexp.MustCompile("(?s)```go\n(.*?)```")

// Every block of the page is code of this package.
func TestPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/orms.md")
	if err != nil {
		t.Fatal(err)
	}
	var code []byte
	for _, name := range []string{"orm.go", "testdata/withent/withent.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		code = append(code, text...)
	}
	blocks := block.FindAllSubmatch(page, -1)
	if len(blocks) == 0 {
		t.Error("the page has no code")
	}
	for _, b := range blocks {
		if !strings.Contains(string(code), string(b[1])) {
			t.Errorf("the page has code that no test runs:\n%s", b[1])
		}
	}
}

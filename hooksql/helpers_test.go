package hooksql_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	sqldriver "database/sql/driver"
	"os"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"modernc.org/sqlite"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/dbtest"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childVariable); path != "" {
		childMain(path)
		return
	}
	sql.Register(otherDriver, &ignoresSettings{})
	dbtest.Parallel(4)
	goleak.VerifyTestMain(withPostgres{m}, spawner())
}

// ignoresSettings is modernc.org/sqlite, except that it ignores everything after the '?'.
type ignoresSettings struct {
	sqlite.Driver
}

func (d *ignoresSettings) Open(name string) (sqldriver.Conn, error) {
	file, _, _ := strings.Cut(name, "?")
	return d.Driver.Open(file)
}

// fileOf holds the files of stores.
type fileOf struct {
	paths sync.Map
}

func (f *fileOf) set(s driver.Store, path string) { f.paths.Store(s, path) }

func (f *fileOf) get(s driver.Store) string {
	path, ok := f.paths.Load(s)
	if !ok {
		panic("unknown store")
	}
	return path.(string)
}

func newClaim(id string) driver.Claim {
	key := driver.EventKey("stripe", id)
	return driver.Claim{
		Key: key, Source: "stripe", EventID: id, Type: "invoice.paid",
		Headers: []byte(`{"Content-Type":["application/json"]}`),
		Body:    []byte(id), BodyHash: sha256.Sum256([]byte(id)),
		Messages: []driver.NewMessage{{ID: driver.MessageID(key, 0, "r"), Route: "r", Destination: "d"}},
	}
}

func claim(ctx context.Context, s driver.Store, id string) error {
	_, err := s.Claim(ctx, &driver.ClaimParams{Claims: []driver.Claim{newClaim(id)}})
	return err
}

func mustClaim(t testing.TB, s driver.Store, id string) {
	t.Helper()
	if err := claim(t.Context(), s, id); err != nil {
		t.Fatalf("claim of %s: %v", id, err)
	}
}

// has reports whether the store has the event.
func has(t testing.TB, s driver.Store, id string) bool {
	t.Helper()
	page, err := s.Events(t.Context(), &driver.EventFilter{Source: "stripe", ID: id})
	if err != nil {
		t.Fatal(err)
	}
	return len(page.Events) == 1
}

// countEffects runs a query of names and their counts.
func countEffects(t testing.TB, db *sql.DB, query string) map[string]int {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	found := map[string]int{}
	for rows.Next() {
		var name string
		var n int
		if err := rows.Scan(&name, &n); err != nil {
			t.Fatal(err)
		}
		found[name] = n
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}

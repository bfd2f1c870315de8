package hooksql_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/driver"
)

// TestFull fills the file up to a limit that SQLite treats as a full disk. Acknowledged events
// stay, refused ones are absent, reading goes on, and so does claiming once there is room.
func TestFull(t *testing.T) {
	t.Parallel()
	store, writer, reader := onOwnPools(t)
	// The limit belongs to the connection; the pool has one.
	if _, err := writer.ExecContext(t.Context(), `PRAGMA max_page_count = 200`); err != nil {
		t.Fatal(err)
	}
	refused := -1
	for i := 0; refused < 0; i++ {
		c := newClaim(fmt.Sprint("evt_", i))
		c.Body = []byte(strings.Repeat("x", 10_000))
		_, err := store.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{c}})
		switch {
		case err == nil && i == 1000:
			t.Fatal("the file never became full")
		case errors.Is(err, driver.ErrUnavailable):
			refused = i
		case err != nil:
			t.Fatalf("claim %d: got the error %v, want %v", i, err, driver.ErrUnavailable)
		}
	}
	for i := range refused {
		if id := fmt.Sprint("evt_", i); !has(t, store, id) {
			t.Errorf("event %s was acknowledged and is lost", id)
		}
	}
	last := fmt.Sprint("evt_", refused)
	if has(t, store, last) {
		t.Errorf("event %s was refused and is there", last)
	}
	// SQLite has undone the transaction by itself, so the store took another connection since then.
	if _, err := writer.ExecContext(t.Context(), `PRAGMA max_page_count = 1`); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Prove(t.Context()); !errors.Is(err, driver.ErrFull) {
		t.Errorf("Prove of a full file: got the error %v, want %v", err, driver.ErrFull)
	}
	if _, err := writer.ExecContext(t.Context(), `PRAGMA max_page_count = 1000000`); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Prove(t.Context()); err != nil {
		t.Errorf("Prove of a file with room: %v", err)
	}
	mustClaim(t, store, last)
	var integrity string
	if err := reader.QueryRowContext(t.Context(), `PRAGMA integrity_check`).Scan(&integrity); err != nil || integrity != "ok" {
		t.Errorf("integrity check: %q, error %v", integrity, err)
	}
}

// A file that cannot be written answers questions.
func TestProofOfAReadOnlyFile(t *testing.T) {
	t.Parallel()
	store, writer, _ := onOwnPools(t)
	if _, err := store.Prove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := writer.ExecContext(t.Context(), `PRAGMA query_only = on`); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Prove(t.Context()); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("got the error %v, want %v", err, driver.ErrUnavailable)
	}
	if _, err := store.Stats(t.Context()); err != nil {
		t.Errorf("Stats: %v", err)
	}
}

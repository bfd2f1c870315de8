package sqlitestore

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
)

// A write gives up while another program holds the write lock. The error says so, with the code of
// SQLite for a locked file.
func TestWriteLockHeld(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hookonce.db")
	store := New(openWith(t, "sqlite", path), openWith(t, "sqlite", path), hookmigrate.SQLite())
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	if _, err := store.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	other, err := openWith(t, "sqlite", path).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	store.lockWait = time.Millisecond
	_, err = store.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{newClaim("evt_1")}})
	if !errors.Is(err, driver.ErrUnavailable) || !IsBusy(err) || !strings.Contains(err.Error(), "another writer held the database for 1ms") {
		t.Errorf("a claim beside a writer: %v", err)
	}
	if err := other.Rollback(); err != nil {
		t.Fatal(err)
	}
	store.lockWait = maxLockWait
	if _, err := store.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{newClaim("evt_1")}}); err != nil {
		t.Errorf("a claim after the writer: %v", err)
	}
}

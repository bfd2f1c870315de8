package hooksql_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// TestReaderDoesNotBlockTheWriter keeps a reader in the middle of a snapshot
// while events are claimed.
func TestReaderDoesNotBlockTheWriter(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hookonce.db")
	store := openMigrated(t, path)
	mustClaim(t, store, "evt_1")
	db := openDSN(t, "file:"+path)
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	count := func() (n int) {
		if err := tx.QueryRowContext(t.Context(), `SELECT count(*) FROM hookonce_event`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := count()
	mustClaim(t, store, "evt_2")
	if !has(t, store, "evt_2") {
		t.Error("the store does not see its own event")
	}
	if after := count(); before != 1 || after != before {
		t.Errorf("the reader saw %d, then %d events in one snapshot, want 1", before, after)
	}
}

// TestWriterOutsideOfTheProcess has another connection hold the write lock, like a command beside
// the gateway. A call ends with its deadline, and writes nothing, not even later.
func TestWriterOutsideOfTheProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hookonce.db")
	store := openMigrated(t, path)
	mustClaim(t, store, "before")
	tx, err := openPlain(t, path).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
	defer cancel()
	var group sync.WaitGroup
	for i := range 4 { // one waits in SQLite, the others in Go
		group.Go(func() {
			if err := claim(ctx, store, fmt.Sprint("during-", i)); !errors.Is(err, driver.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("claim: got the error %v, want %v", err, driver.ErrUnavailable)
			}
		})
	}
	group.Wait()
	if _, err := store.Now(t.Context()); err != nil {
		t.Errorf("reading while another writes: %v", err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	mustClaim(t, store, "after")
	for id, want := range map[string]bool{"before": true, "after": true, "during-0": false, "during-1": false, "during-2": false, "during-3": false} {
		if has(t, store, id) != want {
			t.Errorf("event %q: exists is %v, want %v", id, !want, want)
		}
	}
}

// TestWaitsForTheWriter: a claim during a held lock succeeds as soon as the lock is free.
func TestWaitsForTheWriter(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hookonce.db")
	store := openMigrated(t, path)
	tx, err := openPlain(t, path).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	claimed := make(chan error, 1)
	go func() { claimed <- claim(t.Context(), store, "evt_1") }()
	// Longer than one busy timeout of the writer, so that it must poll again.
	timer := time.NewTimer(300 * time.Millisecond)
	defer timer.Stop()
	select {
	case err := <-claimed:
		t.Fatalf("the claim returned %v while another held the lock", err)
	case <-timer.C:
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-claimed; err != nil {
		t.Errorf("claim: %v", err)
	}
}

// TestPruneLetsClaimsIn claims with one store while another prunes many events, like a command
// beside the gateway. No new event is lost, and all old ones go.
func TestPruneLetsClaimsIn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hookonce.db")
	serve, command := openMigrated(t, path), open(t, path)
	const old, fresh = 2000, 200
	now := time.Now()
	for i := range old / 100 {
		batch := batchOf(func(n int) driver.Claim {
			c := newClaim(fmt.Sprintf("old-%d-%d", i, n))
			c.Messages = nil
			return c
		}, 100)
		if _, err := serve.Claim(t.Context(), &driver.ClaimParams{Claims: batch, Now: now.Add(-48 * time.Hour)}); err != nil {
			t.Fatal(err)
		}
	}
	var group sync.WaitGroup
	group.Go(func() {
		for i := range fresh {
			if err := claim(t.Context(), serve, fmt.Sprint("new-", i)); err != nil {
				t.Errorf("claim: %v", err)
			}
		}
	})
	result, err := command.Prune(t.Context(), &driver.PruneParams{DedupeWindow: 24 * time.Hour, Retention: 24 * time.Hour})
	group.Wait()
	if err != nil || result.Events != old {
		t.Errorf("Prune: got %+v and the error %v, want %d events", result, err, old)
	}
	for i := range fresh {
		if id := fmt.Sprint("new-", i); !has(t, serve, id) {
			t.Errorf("event %s is lost", id)
		}
	}
}

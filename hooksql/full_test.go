package hooksql_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

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

// TestFullBehindTheClaim has no room for what follows a claim: leases, outcomes and pruning. Each says that the disk is full, names no
// row as refused, and goes on when there is room.
func TestFullBehindTheClaim(t *testing.T) {
	t.Parallel()
	store, writer, _ := onOwnPools(t)
	exec := func(text string) {
		t.Helper()
		if _, err := writer.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE TABLE marks (bytes BLOB)`)
	for _, change := range []string{"UPDATE ON hookonce_message", "DELETE ON hookonce_message"} {
		exec(`CREATE TRIGGER "` + change + `" AFTER ` + change + ` BEGIN INSERT INTO marks VALUES (zeroblob(50000)); END`)
	}
	full := func(what string, call func() error) {
		t.Helper()
		exec(`PRAGMA max_page_count = 1`)
		if err := call(); !errors.Is(err, driver.ErrFull) || driver.FaultOfRows(err) {
			t.Errorf("%s on a full disk: the error %v, want %v", what, err, driver.ErrFull)
		}
		exec(`PRAGMA max_page_count = 1000000`)
	}
	for i := range 3 {
		mustClaim(t, store, fmt.Sprint("evt_", i))
	}
	var leased *driver.Leased
	lease := func() (err error) {
		leased, err = store.Lease(t.Context(), &driver.LeaseParams{Destination: "d", Limit: 9, For: time.Minute, MaxAttempts: 1})
		return err
	}
	full("Lease", lease)
	if err := lease(); err != nil || len(leased.Messages) != 3 || len(leased.Refused) > 0 {
		t.Fatalf("Lease with room: %+v and the error %v, want three messages", leased, err)
	}
	done := &driver.CompleteParams{}
	for _, m := range leased.Messages {
		done.Completions = append(done.Completions, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent})
	}
	complete := func() error {
		_, err := store.Complete(t.Context(), done)
		return err
	}
	full("Complete", complete)
	if err := complete(); err != nil {
		t.Fatalf("Complete with room: %v", err)
	}
	var pruned *driver.PruneResult
	prune := func() (err error) {
		pruned, err = store.Prune(t.Context(), &driver.PruneParams{DedupeWindow: time.Hour, Retention: time.Hour, Now: time.Now().Add(9 * time.Hour)})
		return err
	}
	full("Prune", prune)
	if !has(t, store, "evt_0") {
		t.Error("evt_0 was pruned though the disk is full")
	}
	if err := prune(); err != nil || pruned.Events != 3 {
		t.Errorf("Prune with room: %+v and the error %v, want three events", pruned, err)
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

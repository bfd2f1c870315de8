package hooksql_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
)

// TestUpgradeFromTheFirstStep brings a file of the first schema to the newest:
// messages written before stand at their places in the listings, and leases find
// them.
func TestUpgradeFromTheFirstStep(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hookonce.db")
	db := openPlain(t, path)
	if _, err := db.ExecContext(t.Context(), hookmigrate.SQLite()[0].SQL); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	write := func(id string, receivedAt time.Time, state int) {
		t.Helper()
		c := newClaim(id)
		if _, err := db.ExecContext(t.Context(), `INSERT INTO hookonce_event
			(key, source, event_id, type, received_at, headers, body, body_sha256, work) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)`,
			c.Key[:], c.Source, c.EventID, c.Type, receivedAt.UnixMicro(), c.Headers, c.Body, c.BodyHash[:]); err != nil {
			t.Fatal(err)
		}
		// Of a message that was replayed the event is older.
		if _, err := db.ExecContext(t.Context(), `INSERT INTO hookonce_message
			(id, event_key, route, destination, state, due_at, created_at) VALUES (?, ?, 'r', 'd', ?, ?4, ?4)`,
			c.Messages[0].ID, c.Key[:], state, at.UnixMicro()); err != nil {
			t.Fatal(err)
		}
	}
	const pending, dead, skipped = 0, 3, 4
	write("dead_2", at.Add(2*time.Second), dead)
	write("dead_1", at.Add(1*time.Second), dead)
	write("dead_3", at.Add(3*time.Second), dead)
	write("skipped_1", at.Add(1*time.Second), skipped)
	write("skipped_2", at.Add(2*time.Second), skipped)
	write("pending", at, pending)

	store := open(t, path)
	if _, err := store.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	letters, err := store.DeadLetters(t.Context(), &driver.MessageFilter{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range letters.DeadLetters {
		got = append(got, l.EventID)
	}
	if diff := cmp.Diff([]string{"dead_3", "dead_2", "dead_1"}, got); diff != "" {
		t.Errorf("dead letters (-want +got):\n%s", diff)
	}
	page, err := store.Messages(t.Context(), &driver.MessageFilter{State: driver.StateSkipped})
	if err != nil {
		t.Fatal(err)
	}
	got = nil
	for i := range page.Messages {
		got = append(got, page.Messages[i].EventID)
	}
	if diff := cmp.Diff([]string{"skipped_2", "skipped_1"}, got); diff != "" {
		t.Errorf("skipped messages (-want +got):\n%s", diff)
	}
	leased, err := store.Lease(t.Context(), &driver.LeaseParams{Destination: "d", Limit: 10, For: time.Minute, MaxAttempts: 1})
	if err != nil || len(leased.Messages) != 1 || leased.Messages[0].EventID != "pending" {
		t.Errorf("Lease: %+v, %v; want the pending message", leased, err)
	}
}

package hooksql_test

import (
	"database/sql"
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
	const pending, dead, skipped = 0, 3, 4
	writeOld(t, db, "dead_2", at.Add(2*time.Second), dead)
	writeOld(t, db, "dead_1", at.Add(1*time.Second), dead)
	writeOld(t, db, "dead_3", at.Add(3*time.Second), dead)
	writeOld(t, db, "skipped_1", at.Add(1*time.Second), skipped)
	writeOld(t, db, "skipped_2", at.Add(2*time.Second), skipped)
	writeOld(t, db, "pending", at, pending)

	store := open(t, path)
	if _, err := store.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantLetters(t, store, "dead_3", "dead_2", "dead_1")
	page, err := store.Messages(t.Context(), &driver.MessageFilter{State: driver.StateSkipped})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
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

// TestReplayOfWhatWasSentBeforeTheUpgrade has messages that were sent before they
// knew when their events were received, and that the upgrade left alone. They are
// found by that time, and when they are owed again they stand at their places.
func TestReplayOfWhatWasSentBeforeTheUpgrade(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hookonce.db")
	db := openPlain(t, path)
	if _, err := db.ExecContext(t.Context(), hookmigrate.SQLite()[0].SQL); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const sent, dead = 2, 3
	writeOld(t, db, "dead_1", at.Add(1*time.Second), dead)
	writeOld(t, db, "sent_2", at.Add(2*time.Second), sent)
	writeOld(t, db, "dead_3", at.Add(3*time.Second), dead)
	store := open(t, path)
	if _, err := store.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := newClaim("sent_2")
	var receivedAt int64
	if err := db.QueryRowContext(t.Context(), `SELECT received_at FROM hookonce_message WHERE event_key = ?`, c.Key[:]).Scan(&receivedAt); err != nil || receivedAt != 0 {
		t.Errorf("the time of the message that was sent is %d with the error %v, want it not written", receivedAt, err)
	}
	for _, state := range []string{"", driver.StateSent} {
		f := driver.MessageFilter{MessageID: c.Messages[0].ID, State: state, Since: at.Add(2 * time.Second), Until: at.Add(3 * time.Second)}
		if ids := messageIDs(t, store, f, 1); len(ids) != 1 {
			t.Errorf("found %q by id, time and the state %q, want the message", ids, state)
		}
	}

	if _, err := store.Replay(t.Context(), &driver.ReplayParams{Key: c.Key, Mode: driver.ReplaySameID}); err != nil {
		t.Fatal(err)
	}
	f := driver.MessageFilter{State: driver.StatePending, Since: at.Add(2 * time.Second), Until: at.Add(3 * time.Second)}
	if ids := messageIDs(t, store, f, 1); len(ids) != 1 {
		t.Errorf("found %q by time when it was pending, want the message", ids)
	}
	leased, err := store.Lease(t.Context(), &driver.LeaseParams{Destination: "d", Limit: 10, For: time.Minute, MaxAttempts: 1})
	if err != nil || len(leased.Messages) != 1 {
		t.Fatalf("Lease: %+v, %v; want the replayed message", leased, err)
	}
	if _, err := store.Complete(t.Context(), &driver.CompleteParams{Completions: []driver.Completion{
		{ID: leased.Messages[0].ID, Token: leased.Messages[0].Token, Outcome: driver.MessageDead, Error: "no"},
	}}); err != nil {
		t.Fatal(err)
	}
	wantLetters(t, store, "dead_3", "sent_2", "dead_1")
}

// TestUpgradeOfWhatWaits: an event that has waited for a handler since before there
// were any is taken by its source and type.
func TestUpgradeOfWhatWaits(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hookonce.db")
	db := openPlain(t, path)
	for _, step := range hookmigrate.SQLite()[:2] {
		if _, err := db.ExecContext(t.Context(), step.SQL); err != nil {
			t.Fatal(err)
		}
	}
	c := newClaim("evt_1")
	if _, err := db.ExecContext(t.Context(), `INSERT INTO hookonce_event
		(key, source, event_id, type, received_at, headers, body, body_sha256, work) VALUES (?, ?, ?, ?, 1, ?, ?, ?, 1)`,
		c.Key[:], c.Source, c.EventID, c.Type, c.Headers, c.Body, c.BodyHash[:]); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), `INSERT INTO hookonce_event_state (key, state, due_at) VALUES (?, 0, 1)`, c.Key[:]); err != nil {
		t.Fatal(err)
	}
	store := open(t, path)
	if _, err := store.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	run, err := store.Take(t.Context(), &driver.TakeParams{Source: c.Source, Types: []string{c.Type}, Limit: 1, HandlerTimeout: time.Second})
	if err != nil || run == nil {
		t.Fatalf("Take: %v, %v; want the event", run, err)
	}
	if err := run.Finish(t.Context(), outcomes(run, driver.WorkSucceeded)); err != nil {
		t.Fatal(err)
	}
}

// writeOld writes an event with a message into a file of the first schema.
func writeOld(t *testing.T, db *sql.DB, id string, receivedAt time.Time, state int) {
	t.Helper()
	c := newClaim(id)
	if _, err := db.ExecContext(t.Context(), `INSERT INTO hookonce_event
		(key, source, event_id, type, received_at, headers, body, body_sha256, work) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)`,
		c.Key[:], c.Source, c.EventID, c.Type, receivedAt.UnixMicro(), c.Headers, c.Body, c.BodyHash[:]); err != nil {
		t.Fatal(err)
	}
	// Of a message that was replayed the event is older.
	at := time.Date(2026, 1, 3, 3, 4, 5, 0, time.UTC)
	if _, err := db.ExecContext(t.Context(), `INSERT INTO hookonce_message
		(id, event_key, route, destination, state, due_at, created_at) VALUES (?, ?, 'r', 'd', ?, ?4, ?4)`,
		c.Messages[0].ID, c.Key[:], state, at.UnixMicro()); err != nil {
		t.Fatal(err)
	}
}

func wantLetters(t *testing.T, store driver.Store, want ...string) {
	t.Helper()
	page, err := store.DeadLetters(t.Context(), &driver.MessageFilter{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range page.DeadLetters {
		got = append(got, page.DeadLetters[i].EventID)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("dead letters (-want +got):\n%s", diff)
	}
}

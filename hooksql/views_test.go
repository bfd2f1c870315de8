package hooksql_test

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
)

// viewColumns are the columns that the views promise, in order.
var viewColumns = []string{
	"source", "event_id", "type", "state", "note", "attempts", "generation", "duplicates",
	"received_at", "occurred_at", "processed_at", "failed_at", "last_error", "headers", "body",
}

// TestViews reads the views like an application.
func TestViews(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hookonce.db")
	store := openMigrated(t, path)
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	dead, unrouted, old := newClaim("dead"), newClaim("unrouted"), newClaim("old")
	dead.OccurredAt = time.Unix(1, 0)
	dead.Body = []byte{0, 0xff}
	unrouted.Messages = nil
	old.OccurredAt = time.Date(1969, 12, 31, 23, 59, 58, 1000, time.UTC)
	for _, c := range []driver.Claim{dead, unrouted, old} {
		if _, err := store.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{c}, Now: at}); err != nil {
			t.Fatal(err)
		}
	}
	kill(t, store, dead.Messages[0].ID, at.Add(time.Second))
	tx, err := openPlain(t, path).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	// A message that was enqueued by itself is not an event.
	if err := store.EnqueueTx(t.Context(), tx, []driver.OutboxMessage{{
		ID: "m1", Destination: "d", Source: dead.Source, EventID: dead.EventID, Type: dead.Type, Cause: dead.Key,
		Headers: []byte(`{}`), Body: []byte(`{}`),
	}}); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}

	db := openDSN(t, "file:"+path)
	wantDead := map[string]any{
		"source": "stripe", "event_id": "dead", "type": "invoice.paid", "state": "dead", "note": "",
		"attempts": int64(1), "generation": int64(0), "duplicates": int64(0),
		"received_at": "2026-01-02T03:04:05.678901Z", "occurred_at": "1970-01-01T00:00:01.000000Z",
		"processed_at": nil, "failed_at": "2026-01-02T03:04:06.678901Z", "last_error": "no such order",
		"headers": `{"Content-Type":["application/json"]}`, "body": []byte{0, 0xff},
	}
	wantUnrouted := map[string]any{
		"source": "stripe", "event_id": "unrouted", "type": "invoice.paid", "state": "done", "note": "no route",
		"attempts": int64(0), "generation": int64(0), "duplicates": int64(0),
		"received_at": "2026-01-02T03:04:05.678901Z", "occurred_at": nil,
		"processed_at": "2026-01-02T03:04:05.678901Z", "failed_at": nil, "last_error": "",
		"headers": `{"Content-Type":["application/json"]}`, "body": []byte("unrouted"),
	}
	events := readView(t, db, `SELECT * FROM hookonce_events ORDER BY event_id`)
	if len(events) != 3 {
		t.Fatalf("hookonce_events has %d rows, want 3", len(events))
	}
	if diff := cmp.Diff([]map[string]any{wantDead, wantUnrouted}, []map[string]any{events[0], events[2]}); diff != "" {
		t.Errorf("hookonce_events (-want +got):\n%s", diff)
	}
	if got := events[1]["occurred_at"]; got != "1969-12-31T23:59:58.000001Z" {
		t.Errorf("a time before 1970 is shown as %v", got)
	}
	letters := readView(t, db, `SELECT * FROM hookonce_dead_letters`)
	if diff := cmp.Diff([]map[string]any{wantDead}, letters); diff != "" {
		t.Errorf("hookonce_dead_letters (-want +got):\n%s", diff)
	}
}

// kill leases the one due message and makes it dead.
func kill(t *testing.T, store driver.Store, id string, at time.Time) {
	t.Helper()
	leased, err := store.Lease(t.Context(), &driver.LeaseParams{Destination: "d", Limit: 10, For: time.Minute, MaxAttempts: 5, Now: at})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range leased.Messages {
		if m.ID != id {
			continue
		}
		held, err := store.Complete(t.Context(), &driver.CompleteParams{Now: at, Completions: []driver.Completion{
			{ID: m.ID, Token: m.Token, Outcome: driver.MessageDead, Error: "no such order"},
		}})
		if err != nil || !held[0] {
			t.Fatalf("Complete: %v, %v", held, err)
		}
	}
}

func readView(t *testing.T, db *sql.DB, query string) []map[string]any {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(viewColumns, columns); diff != "" {
		t.Errorf("columns of %s (-want +got):\n%s", query, diff)
	}
	var all []map[string]any
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		row := map[string]any{}
		for i, column := range columns {
			row[column] = values[i]
		}
		all = append(all, row)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

package hooksql_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// TestDamagedBody has a file that has lost a part of one body. That event alone cannot be read: it is leased and taken with the
// reason, and holds up no other one.
func TestDamagedBody(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hookonce.db")
	store := openMigrated(t, path)
	for id, body := range map[string]string{"sent_1": "a", "sent_2": "x", "queued_1": "b", "queued_2": "y"} {
		c := newClaim(id)
		c.Body = bytes.Repeat([]byte(body), 50_000)
		if id[0] == 'q' {
			c.Messages, c.Work = nil, driver.WorkQueued
		}
		if _, err := store.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{c}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{"x", "y"} {
		damage(t, path, body)
	}
	store = open(t, path)
	leased, err := store.Lease(t.Context(), &driver.LeaseParams{Destination: "d", Limit: 10, For: time.Minute, MaxAttempts: 3})
	if err != nil || len(leased.Messages) != 2 {
		t.Fatalf("Lease: %+v and the error %v, want both messages", leased, err)
	}
	for _, m := range leased.Messages {
		if lost := m.EventID == "sent_2"; lost != (m.Unreadable != nil) || lost == (len(m.Body) == 50_000) {
			t.Errorf("%s has %d bytes, unreadable because of %v", m.EventID, len(m.Body), m.Unreadable)
		}
	}
	for range 2 { // one alone in each run
		run, err := takeFrom(t.Context(), store, 10)
		if err != nil || run == nil || len(run.Events()) != 1 {
			t.Fatalf("Take: %+v and the error %v, want an event", run, err)
		}
		e := run.Events()[0]
		if lost := e.EventID == "queued_2"; lost != (e.Unreadable != nil) || lost == (len(e.Body) == 50_000) {
			t.Errorf("%s has %d bytes, unreadable because of %v", e.EventID, len(e.Body), e.Unreadable)
		}
		done := &driver.FinishParams{Results: []driver.WorkResult{{Key: e.Key, Outcome: driver.WorkFailed, Error: "no"}}}
		if err := run.Finish(t.Context(), done); err != nil {
			t.Error(err)
		}
	}
}

// damage cuts a body off that is a repeated byte. Each of its pages begins with the number of the next one.
func damage(t *testing.T, path, body string) {
	t.Helper()
	const pageSize = 4096
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for page := range len(file) / pageSize {
		at := page * pageSize
		if bytes.Count(file[at+4:at+pageSize], []byte(body)) == pageSize-4 {
			copy(file[at:], "\xff\xff\xff\xff")
			if err := os.WriteFile(path, file, 0o600); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("no page has the body %s", body)
}

package sqlitestore

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
)

// A reader of another program keeps the log from being emptied: the redaction says so, and a repeated
// one empties the log.
func TestRedactBesideAReader(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hookonce.db")
	store := New(openWith(t, "sqlite", path), openWith(t, "sqlite", path), hookmigrate.SQLite())
	t.Cleanup(func() { _ = store.Close() })
	if _, err := store.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := newClaim("evt_1")
	c.Messages = nil
	if _, err := store.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{c}}); err != nil {
		t.Fatal(err)
	}
	other := openWith(t, "sqlite", path) // it has one connection
	for _, statement := range []string{`BEGIN`, `SELECT count(*) FROM hookonce_event`} {
		if _, err := other.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	tries := store.readers.isShut(ctx) // the redaction is committed, and empties the log
	go func() {
		<-tries
		cancel()
	}()
	redacted, err := store.Redact(ctx, &driver.RedactParams{Key: c.Key})
	if err != nil || redacted.Repeated || !strings.Contains(redacted.Remains, "(-wal)") {
		t.Errorf("redacted beside a reader: %+v, %v; want a note about the log", redacted, err)
	}
	if _, err := other.ExecContext(t.Context(), `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	redacted, err = store.Redact(t.Context(), &driver.RedactParams{Key: c.Key})
	if err != nil || !redacted.Repeated || redacted.Remains != "" {
		t.Errorf("redacted again: %+v, %v; want the log emptied", redacted, err)
	}
}

package hookpgx_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// TestLacks has servers that lack one thing each. The proof names it, and leaves no row.
func TestLacks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change string // SQL
		d      hookpgx.Deviation
		lack   string
	}{
		"a key does not wait": {change: "ALTER TABLE {schema}.proof DROP CONSTRAINT proof_pkey", lack: "a unique key waits"},
		"a key refuses nothing": {
			change: refill("proof", "DELETE FROM {schema}.proof WHERE key = NEW.key"), lack: "a unique key refuses",
		},
		"SKIP LOCKED locks nothing": {d: hookpgx.Deviation{Old: "FOR UPDATE SKIP LOCKED"}, lack: "SKIP LOCKED skips"},
		"SKIP LOCKED waits":         {d: hookpgx.Deviation{Old: "SKIP LOCKED"}, lack: "SKIP LOCKED skips"},
		"SKIP LOCKED is unknown":    {d: hookpgx.Deviation{Old: "SKIP LOCKED", New: "SKIP ROWS"}, lack: "SKIP LOCKED skips"},
		"a rollback undoes nothing": {d: hookpgx.Deviation{KeepsRollback: true}, lack: "a rollback undoes"},
		"no txid_status":            {d: hookpgx.Deviation{Old: "txid_status(", New: "no_status("}, lack: "txid_status tells"},
		"txid_status tells nothing": {d: hookpgx.Deviation{Old: "txid_status($1::bigint)", New: "nullif($1::bigint, $1::bigint)::text"}, lack: "txid_status tells"},
		"no deferred trigger":       {change: "ALTER TABLE {schema}.take_call DISABLE TRIGGER refuse_autocommit", lack: "a deferred trigger fires"},
		"a commit waits for nothing": {
			d: hookpgx.Deviation{Old: "pg_current_wal_flush_lsn()", New: "'0/0'::pg_lsn"}, lack: "a commit waits",
		},
		"a duplicate is claimed": {
			change: refill("event", "NEW.key := sha256(NEW.key || random()::text::bytea)"), lack: "a claimed event is a duplicate",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := open(t, nil)
			if c.change != "" {
				w.exec(t, c.change)
			}
			s := hookpgx.Deviating(w.Store, strings.Trim(w.schema, `"`), c.d)
			_, err := prove(t, s)
			var lack *driver.ServerError
			if !errors.As(err, &lack) || !strings.Contains(lack.Found, c.lack) {
				t.Errorf("got the error %v, want that of the lack of %q", err, c.lack)
			}
			w.wantNoProof(t)
		})
	}
}

// prove repeats the proof until it has two sessions: a busy machine may have none to spare in time.
func prove(t *testing.T, s *hookpgx.Store) (skipped []string, err error) {
	t.Helper()
	eventually.True(t, "the proof has two sessions", func() bool {
		skipped, err = s.Prove(t.Context())
		return err != nil || len(skipped) == 0 || !strings.Contains(skipped[0], "one connection")
	})
	return skipped, err
}

// refill returns SQL that makes a trigger run a statement before each row is inserted.
func refill(table, statement string) string {
	return `CREATE FUNCTION {schema}.refill() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN ` + statement + `; RETURN NEW; END $$;
		CREATE TRIGGER refill BEFORE INSERT ON {schema}.` + table + ` FOR EACH ROW EXECUTE FUNCTION {schema}.refill()`
}

func (w *world) wantNoProof(t *testing.T) {
	t.Helper()
	if n := w.number(t, "SELECT (SELECT count(*) FROM {schema}.proof) + (SELECT count(*) FROM {schema}.event)"); n != 0 {
		t.Errorf("the proof left %d rows", n)
	}
}

// TestProofIsCutOff loses a session at each step of the proof. That is no lack, and the next proof succeeds. It also
// removes the rows of a process that was killed.
func TestProofIsCutOff(t *testing.T) {
	t.Parallel()
	w, direct, proxy := proxied(t)
	for _, step := range []string{
		".claim(", "take_call", "unnest($1::bytea[])", "txid_current", "FOR UPDATE", "lock_timeout = '10ms'", "SKIP LOCKED", "txid_status",
		"pg_current_wal_insert_lsn", "pg_current_wal_flush_lsn",
	} {
		drop := proxy.DropReply(step, dbtest.CutReset)
		_, err := prove(t, w.Store)
		eventually.Next(t, "the step "+step, drop.Done())
		var lack *driver.ServerError
		if errors.As(err, &lack) || errors.Is(err, driver.ErrSchema) {
			t.Errorf("after a reset at %q: got the error %v, want that of an outage", step, err)
		}
		if skipped, err := prove(t, w.Store); err != nil || len(skipped) > 0 {
			t.Errorf("after %q again: got %q and the error %v", step, skipped, err)
		}
	}
	direct.exec(t, "UPDATE {schema}.proof SET at = at - interval '1 hour'")
	if _, err := w.Prove(t.Context()); err != nil {
		t.Error(err)
	}
	direct.wantNoProof(t)
}

// TestProofOverOneConnection has a role that may have one connection.
func TestProofOverOneConnection(t *testing.T) {
	t.Parallel()
	skipped, err := openFew(t, 1, 1, false)[0].Prove(t.Context())
	if err != nil || len(skipped) != 1 || !strings.Contains(skipped[0], "one connection") {
		t.Errorf("got %q and the error %v, want that the second session is missing", skipped, err)
	}
}

func BenchmarkProve(b *testing.B) {
	w := open(b, nil)
	for b.Loop() {
		if _, err := w.Prove(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

package hookpgx_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/group"
)

// BenchmarkLines leases, admits and completes 100 ordered messages of 100 lines; each makes the next one of its line due. The
// time does not depend on how many messages are open, nor on the length of another line. The large cases need
// HOOKONCE_TEST=long.
func BenchmarkLines(b *testing.B) {
	for _, c := range []struct {
		open, ofOne int // open messages in lines of ten, and those of one more line
	}{{20_000, 0}, {1_000_000, 0}, {1_000_000, 100_000}} {
		b.Run(fmt.Sprintf("open=%d,longest=%d", c.open, max(c.ofOne, 10)), func(b *testing.B) {
			if c.open > 20_000 && !group.Long() {
				b.Skip("it inserts for a minute: it needs HOOKONCE_TEST=long")
			}
			dsn, schema := dbtest.Postgres(b)
			w := connect(b, dsn, schema, nil)
			if _, err := hookmigrate.Up(b.Context(), w.Store); err != nil {
				b.Fatal(err)
			}
			insertLines(b, w, c.open, c.ofOne)
			for b.Loop() {
				if n := sendInOrder(b, w); n != 100 {
					b.Fatalf("sent %d messages, want 100", n)
				}
			}
		})
	}
}

// insertLines inserts open messages in lines of ten, and then ofOne messages of one line. The first of each line is due.
func insertLines(b *testing.B, w *world, open, ofOne int) {
	b.Helper()
	w.exec(b, `
		INSERT INTO {schema}.event (key, source, event_id, type, received_at, headers, body, body_sha256, work)
		SELECT sha256(i::text::bytea), 'stripe', 'evt_' || i, 'thing.happened', now() - i * interval '1 second', '{}', 'body', sha256(i::text::bytea), 0
		FROM generate_series(0, $1::int - 1) i`, open+ofOne)
	w.exec(b, `
		INSERT INTO {schema}.message (id, event_key, generation, route, destination, state, received_at, due_at, created_at)
		SELECT 'msg_' || i, sha256(i::text::bytea), 0, 'billing', 'to-billing', 0, now() - i * interval '1 second',
			CASE WHEN i < $2::int AND i % 10 = 0 OR i = $2::int THEN now() - interval '1 minute' ELSE {schema}.parked() END, now()
		FROM generate_series(0, $1::int - 1) i`, open+ofOne, open)
	w.exec(b, `
		INSERT INTO {schema}.ordered_message (message_id, line, source, destination, version, received_at, hold)
		SELECT 'msg_' || i, sha256(CASE WHEN i < $2::int THEN (i / 10)::text ELSE 'long' END::bytea), 'stripe', 'to-billing',
			decode(lpad(to_hex(i), 8, '0'), 'hex'), now() - i * interval '1 second', true
		FROM generate_series(0, $1::int - 1) i`, open+ofOne, open)
	for _, table := range []string{"event", "message", "ordered_message"} {
		w.exec(b, "VACUUM ANALYZE {schema}."+table)
	}
}

// sendInOrder leases, admits and completes up to 100 messages. It returns how many were admitted.
func sendInOrder(t testing.TB, w *world) int {
	t.Helper()
	leased, err := w.Lease(t.Context(), &driver.LeaseParams{Destination: "to-billing", Limit: 100, For: time.Hour, MaxAttempts: 3})
	if err != nil {
		t.Fatal(err)
	}
	p := &driver.AdmitParams{}
	for _, m := range leased.Messages {
		p.Messages = append(p.Messages, driver.OrderedMessage{MessageLease: driver.MessageLease{ID: m.ID, Token: m.Token}})
	}
	admitted, err := w.Admit(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	c := &driver.CompleteParams{}
	for i, m := range leased.Messages {
		if admitted[i].Verdict != driver.Admitted {
			continue
		}
		line := admitted[i].Line
		line.Source = "stripe"
		c.Completions = append(c.Completions, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent, Line: &line})
	}
	if _, err := w.Complete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return len(c.Completions)
}

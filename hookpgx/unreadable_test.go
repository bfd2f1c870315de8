package hookpgx_test

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// TestUnreadableBodies has a server whose disk has lost the large bodies. Their events stop no others, and an operator can
// put them away.
func TestUnreadableBodies(t *testing.T) {
	t.Parallel()
	server := migrated(t)
	w := private(t, server)
	noise := make([]byte, 50_000)
	if _, err := rand.Read(noise); err != nil {
		t.Fatal(err)
	}
	large, err := json.Marshal(noise)
	if err != nil {
		t.Fatal(err)
	}
	var lost []driver.Claim
	for _, id := range []string{"lost", "kept 1", "kept 2"} {
		sent, worked, taken := newClaim(id, "billing"), newQueued("work "+id), newQueued(id)
		taken.Source, taken.Key = "shop", driver.EventKey("shop", id)
		if id == "lost" {
			sent.Body, worked.Body, taken.Body = large, large, large
			lost = []driver.Claim{sent, worked}
		}
		w.mustClaim(t, true, sent)
		w.mustClaim(t, true, worked)
		w.mustClaim(t, true, taken)
	}
	loseToast(t, w, server)
	w = connect(t, server.DSN(), hookpgx.DefaultSchema, nil) // the connections have ended
	wantGivenBack(t, w)

	var sent, unsent int
	for range 3 {
		leased, err := w.Lease(t.Context(), &driver.LeaseParams{Destination: "to-billing", Limit: 10, For: time.Minute, MaxAttempts: 9})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range leased.Messages {
			c := driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent}
			if m.EventID == "lost" && m.Unreadable != nil {
				unsent++
				c.Outcome, c.Error = driver.MessageDead, m.Unreadable.Error()
			} else if m.Unreadable == nil && len(m.Body) > 0 {
				sent++
			}
			if _, err := w.Complete(t.Context(), &driver.CompleteParams{Completions: []driver.Completion{c}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if sent != 2 || unsent != 1 {
		t.Errorf("%d messages could be read and %d not, want 2 and 1", sent, unsent)
	}

	reserved, err := w.Reserve(t.Context(), &driver.ReserveParams{Source: "stripe", Types: []string{"*"}, Limit: 10})
	if err != nil || len(reserved) != 1 || reserved[0].Unreadable == nil {
		t.Fatalf("reserved %+v, error %v, want the lost event alone", reserved, err)
	}
	w.refuseEvents(t, "UX001", "stripe", "work kept 1")
	both, err := w.Reserve(t.Context(), &driver.ReserveParams{Source: "stripe", Types: []string{"*"}, Limit: 10})
	if err != nil || len(both) != 2 || both[0].EventID != "work kept 2" || len(both[0].Body) == 0 || both[1].Unreadable == nil {
		t.Errorf("reserved %+v past a refused event, error %v, want the one behind it and the lost one", both, err)
	}
	w.exec(t, "DROP TRIGGER refuse ON {schema}.event_state")
	var done, failed int
	for done+failed < 3 {
		run, err := w.Take(t.Context(), &driver.TakeParams{Source: "stripe", Types: []string{"*"}, Limit: 10, HandlerTimeout: time.Minute})
		if err != nil || run == nil {
			t.Fatalf("Take: run %v, error %v", run, err)
		}
		p := &driver.FinishParams{}
		for _, ev := range run.Events() {
			result := driver.WorkResult{Key: ev.Key, Outcome: driver.WorkSucceeded}
			if ev.Unreadable != nil {
				failed++
				result.Outcome, result.Error = driver.WorkFailed, ev.Unreadable.Error()
			} else {
				done++
			}
			p.Results = append(p.Results, result)
		}
		if err := run.Finish(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if done != 2 || failed != 1 {
		t.Errorf("%d events could be read and %d not, want 2 and 1", done, failed)
	}

	wantTaken(t, w, "kept 1", "kept 2")

	letters := &driver.DeadLetterParams{Letters: []driver.DeadLetterRef{{Key: lost[0].Key, MessageID: lost[0].Messages[0].ID}, {Key: lost[1].Key}}}
	if discarded, err := w.Discard(t.Context(), letters); err != nil || slices.Contains(discarded, false) || len(discarded) != 2 {
		t.Errorf("discarded: %v, error %v", discarded, err)
	}
	for _, c := range lost {
		if _, err := w.Redact(t.Context(), &driver.RedactParams{Key: c.Key}); err != nil {
			t.Errorf("redacting %q: %v", c.EventID, err)
		}
	}
}

// wantGivenBack loses the server while the lost bodies are read again. Leases, reservations and runs are given back, without an
// attempt.
func wantGivenBack(t *testing.T, w *world) {
	t.Helper()
	proxy := w.proxy(t)
	behind := w.behind(t, proxy)
	for _, what := range []string{"Lease", "Take", "Reserve"} { // Reserve puts its event behind the others
		drop := proxy.DropReply("SELECT headers, body FROM", dbtest.CutSilence)
		ctx := drop.Context(t)
		var err error
		switch what {
		case "Lease":
			_, err = behind.Lease(ctx, &driver.LeaseParams{Destination: "to-billing", Limit: 10, For: time.Hour, MaxAttempts: 9})
		case "Take":
			_, err = behind.Take(ctx, &driver.TakeParams{Source: "stripe", Types: []string{"*"}, Limit: 10, HandlerTimeout: time.Minute})
		case "Reserve":
			_, err = behind.Reserve(ctx, &driver.ReserveParams{Source: "stripe", Types: []string{"*"}, Limit: 10, For: time.Hour})
		}
		eventually.Receive(t, "the server answers", drop.Done())
		if wantDown(t, what, err); driver.FaultOfRows(err) {
			t.Errorf("%s says that a row is at fault: %v", what, err)
		}
		due := w.number(t, `SELECT (SELECT count(*) FROM {schema}.message WHERE state = 0 AND attempts = 0 AND due_at <= now())
			+ (SELECT count(*) FROM {schema}.event_state WHERE state = 0 AND attempts = 0 AND crashes = 0 AND due_at <= now())`)
		if due != 9 {
			t.Errorf("%s: %d messages and events are due without an attempt, want 9", what, due)
		}
	}
	w.exec(t, "UPDATE {schema}.event_state s SET due_at = e.received_at FROM {schema}.event e WHERE e.key = s.key") // their order from before
}

// wantTaken takes events by the SQL function, which leaves out those that it cannot read.
func wantTaken(t *testing.T, w *world, want ...string) {
	t.Helper()
	tx := w.session(t)
	rows, err := tx.Query(t.Context(), "SELECT event_id, body FROM "+w.schema+".take('shop', 10)")
	if err != nil {
		t.Fatal(err)
	}
	taken, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (id string, err error) {
		return id, row.Scan(&id, nil)
	})
	if err != nil || !slices.Equal(taken, want) {
		t.Errorf("took %q, error %v, want %q", taken, err, want)
	}
}

// loseToast overwrites the parts of bodies that the server holds apart.
func loseToast(t *testing.T, w *world, server *dbtest.Server) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	var folder, file string
	err = errors.Join(
		conn.QueryRow(t.Context(), "SELECT current_setting('data_directory'), pg_relation_filepath(reltoastrelid) FROM pg_class WHERE oid = '"+
			w.schema+".event'::regclass").Scan(&folder, &file),
		conn.Close(t.Context()),
	)
	if err != nil {
		t.Fatal(err)
	}
	server.Shutdown(t)
	path := filepath.Join(folder, file)
	info, err := os.Stat(path)
	if err == nil {
		err = os.WriteFile(path, make([]byte, info.Size()), info.Mode())
	}
	if err != nil || info.Size() == 0 {
		t.Fatalf("the bodies that the server holds apart: %v, error %v", info, err)
	}
	server.Restart(t)
}

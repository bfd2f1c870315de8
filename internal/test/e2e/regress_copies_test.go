package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"

	"github.com/hookonce/hookonce/driver"

	"github.com/hookonce/hookonce/internal/test/group"
)

// Defect class: a receiver checks whether an event exists and then inserts it. Of several copies
// that arrive together, all but one fail on the unique constraint, and the sender gets 500 about an
// event that is safe; or a deadlock ends the transaction with the same result. Copies must get 200,
// or 503 where the outcome is unknown, and nothing else; at most one copy is answered as new.
func TestCopiesAtOnceGetNothingButOKAndTryAgain(t *testing.T) {
	eachStore(t, func(t *testing.T, db *database) {
		w := newWorld(t, db, standardSettings)
		gateways := []*gateway{w.start(t)}
		if db.store == "postgres" {
			gateways = append(gateways, w.start(t), w.start(t))
		}
		gateways[0].expect(t, push("model"), "200 ok")
		const ids, copies = 6, 24
		rounds := group.Rounds(4, 6)
		for round := range rounds {
			id := func(i int) string { return fmt.Sprintf("r%d-%d", round, i%ids) }
			var mu sync.Mutex
			first := make(map[string]int) // how often an id was answered as new
			count := func(i int, a *answer) *answer {
				mu.Lock()
				defer mu.Unlock()
				if a.short() == "200 ok" {
					first[id(i)]++
				}
				return a
			}
			// In every other round a session obstructs the first copies until one of them has been
			// answered.
			clear := sync.OnceFunc(func() {})
			if round%2 == 1 {
				clear = sync.OnceFunc(obstruct(t, w, id(0)))
			}
			counts := atOnce(ids*copies, func(i int) *answer {
				defer clear()
				return count(i, gateways[i%len(gateways)].deliver(t, push(id(i))))
			})
			if counts["200 ok"]+counts["200 duplicate"]+counts["503"] != ids*copies {
				t.Errorf("round %d: answers %v", round, counts)
			}
			counts = atOnce(ids*copies, func(i int) *answer {
				return count(i, gateways[i%len(gateways)].accept(t, push(id(i))))
			})
			if counts["200 ok"]+counts["200 duplicate"] != ids*copies {
				t.Errorf("round %d: answers of the retries %v", round, counts)
			}
			for id, n := range first {
				if n > 1 {
					t.Errorf("%s was answered as new %d times", id, n)
				}
			}
		}
		if all := gateways[0].waitAllDone(t, "github"); len(all) != ids*rounds+1 {
			t.Errorf("%d events, want %d", len(all), ids*rounds+1)
		}
		for _, ev := range gateways[0].events(t, "") {
			if got := w.sink.requests(ev.EventID); len(got) != 1 {
				t.Errorf("%s: %d requests, want 1", ev.EventID, len(got))
			}
		}
	})
}

// obstruct obstructs a claim as another session would: it is about to insert the same event, or
// holds the only write lock. The returned function ends that.
func obstruct(t *testing.T, w *world, id string) func() {
	t.Helper()
	if w.db.store == "postgres" {
		tx := holdKey(t, w, id)
		return func() {
			if err := tx.Rollback(); err != nil {
				t.Error(err)
			}
		}
	}
	conn, err := w.db.open(t).Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := conn.ExecContext(context.Background(), "ROLLBACK"); err != nil {
			t.Error(err)
		}
		_ = conn.Close()
	}
}

// startWithModel starts a gateway on PostgreSQL that has an event "model".
func startWithModel(t *testing.T) (*world, *gateway) {
	t.Helper()
	w := newWorld(t, newDatabase(t, "postgres"), standardSettings)
	g := w.start(t)
	g.expect(t, push("model"), "200 ok")
	return w, g
}

// holdKey begins a transaction that has inserted the event with that id and has not committed yet.
// The row is a copy of the event "model" under another key.
func holdKey(t *testing.T, w *world, id string) *sql.Tx {
	t.Helper()
	tx, err := w.db.open(t).BeginTx(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() }) // the test has ended the transaction, or has failed
	key := driver.EventKey("github", id)
	result, err := tx.Exec(`
		INSERT INTO hookonce.event
		SELECT (jsonb_populate_record(e, jsonb_build_object('key', '\x' || encode($1, 'hex'), 'event_id', $2::text))).*
		FROM hookonce.event e WHERE event_id = 'model'`, key[:], id)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := result.RowsAffected(); n != 1 || err != nil {
		t.Fatalf("%d rows inserted, %v", n, err)
	}
	return tx
}

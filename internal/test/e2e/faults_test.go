package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"testing"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/dbtest"
)

// claimStatement occurs in the statement that makes claims, and in no other.
const claimStatement = ".claim("

func TestLostCommitReply(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]dbtest.Cut{"reset": dbtest.CutReset, "silence": dbtest.CutSilence} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t, "postgres")
			session := db.open(t)
			proxy := dbtest.StartProxy(t, hostOf(t, db.dsn))
			db.url = proxy.DSN(t, db.url)
			w := newWorld(t, db, standardSettings)
			g := w.start(t)
			g.expect(t, push("before"), "200 ok")

			drop := proxy.DropReply(claimStatement, cut)
			g.expect(t, push("gh-1"), "503")
			<-drop.Done()
			if n := number(t, session, `SELECT count(*) FROM hookonce.event WHERE event_id = 'gh-1'`); n != 1 {
				t.Errorf("%d rows of the event whose commit reply was lost, want 1", n)
			}
			g.expect(t, push("gh-1"), "200 duplicate")
			detail := g.waitState(t, "github", "gh-1", "done")
			if got := w.sink.requests("gh-1"); len(got) != 1 || len(detail.Messages) != 1 {
				t.Errorf("%d forwarded requests of %d messages, want 1 of 1", len(got), len(detail.Messages))
			}
			g.expect(t, push("after"), "200 ok")
		})
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

func TestStuckKey(t *testing.T) {
	t.Parallel()
	w, g := startWithModel(t)
	tx := holdKey(t, w, "stuck")

	// Copies of the stuck event are among them, like a sender's retries.
	const others, copies = 24, 16
	got := atOnce(others+copies, func(i int) *answer {
		if i < copies {
			return g.expect(t, push("stuck"), "503")
		}
		return g.expect(t, push(fmt.Sprintf("gh-%d", i)), "200 ok")
	})
	checkAnswers(t, "beside a stuck key", map[string]int{"200 ok": others, "503": copies}, got)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	g.expect(t, push("stuck"), "200 ok")
	g.expect(t, push("stuck"), "200 duplicate")
	g.waitAllDone(t, "github")
	if got := w.sink.requests("stuck"); len(got) != 1 {
		t.Errorf("%d forwarded requests of the stuck event, want 1", len(got))
	}
}

// The session that holds the key commits: the event is stored once.
func TestStuckKeyThatCommits(t *testing.T) {
	t.Parallel()
	w, g := startWithModel(t)
	tx := holdKey(t, w, "stuck")
	g.expect(t, push("stuck"), "503")
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	g.expect(t, push("stuck"), "200 duplicate")
}

func TestBadRowInBatch(t *testing.T) {
	eachStore(t, func(t *testing.T, db *database) {
		w := newWorld(t, db, standardSettings)
		g := w.start(t)
		session := db.open(t)
		// An operator could add this constraint to the table.
		switch db.store {
		case "postgres":
			mustExec(t, session, `ALTER TABLE hookonce.event ADD CONSTRAINT not_this CHECK (event_id <> 'bad')`)
		case "sqlite":
			mustExec(t, session, `CREATE TRIGGER not_this BEFORE INSERT ON hookonce_event WHEN NEW.event_id = 'bad'
				BEGIN SELECT RAISE(ABORT, 'not this one'); END`)
		}
		const n, bad = 32, 16
		got := atOnce(n, func(i int) *answer {
			if i == bad {
				return g.expect(t, push("bad"), "503")
			}
			return g.expect(t, push(fmt.Sprintf("gh-%d", i)), "200 ok")
		})
		checkAnswers(t, "beside a bad row", map[string]int{"200 ok": n - 1, "503": 1}, got)
		if all := g.waitAllDone(t, "github"); len(all) != n-1 {
			t.Errorf("%d events, want %d", len(all), n-1)
		}
		if got := w.sink.requests(""); len(got) != n-1 {
			t.Errorf("%d forwarded requests, want %d", len(got), n-1)
		}
		kept := number(t, session, `SELECT count(*) FROM `+db.table("quarantine")+` WHERE body = $1`, []byte(push("bad").body))
		if kept != 1 {
			t.Errorf("the bad row is %d times in the quarantine, want once", kept)
		}
		g.expect(t, push("bad"), "503")
		g.expect(t, push("after"), "200 ok")
	})
}

// The sender made the batch, and the database refuses one item of it.
func TestBadItemOfABatchDelivery(t *testing.T) {
	eachStore(t, func(t *testing.T, db *database) {
		w := newWorld(t, db, batchSettings)
		g := w.start(t)
		session := db.open(t)
		got := g.expect(t, newDelivery("list", `{"items":[{"id":"a"},{"no":"id"},{"id":"b"}]}`), "200 ok")
		if got.Events != 2 || got.Duplicates != 0 {
			t.Errorf("answered %s, want 2 events", got.text)
		}
		if kept := number(t, session, `SELECT count(*) FROM `+db.table("quarantine")); kept != 1 {
			t.Errorf("%d rows in the quarantine, want the one item without an id", kept)
		}
		if all := g.waitAllDone(t, "list"); len(all) != 2 {
			t.Errorf("%d events, want 2", len(all))
		}
	})
}

// A full queue is answered 503 at once, and no acknowledged event is lost. A session holds a lock
// that every claim needs, so the queue fills.
func TestQueueBehindALockedTable(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, "postgres")
	session := db.open(t)
	w := newWorld(t, db, standardSettings)
	g := w.start(t)
	tx, err := session.BeginTx(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() }) // ended below, unless the test fails
	if _, err := tx.Exec(`LOCK TABLE hookonce.event IN EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	const n = 100
	got := atOnce(n, func(i int) *answer { return g.deliver(t, push(fmt.Sprintf("gh-%d", i))) })
	checkAnswers(t, "while no claim can be made", map[string]int{"503": n}, got)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	got = atOnce(n, func(i int) *answer { return g.deliver(t, push(fmt.Sprintf("gh-%d", i))) })
	// After a 503 the claim may or may not have been made.
	if len(got) > 2 || got["200 ok"]+got["200 duplicate"] != n {
		t.Errorf("answers of the retries: %v", got)
	}
	if all := g.waitAllDone(t, "github"); len(all) != n {
		t.Errorf("%d events, want %d", len(all), n)
	}
	if got := w.sink.requests(""); len(got) != n {
		t.Errorf("%d forwarded requests, want %d", len(got), n)
	}
	if g.readiness() != http.StatusOK {
		t.Error("the gateway is not ready again")
	}
}

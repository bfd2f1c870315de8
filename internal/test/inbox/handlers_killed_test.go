package inbox_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

// killedOnSQLite is the file of the worker of TestOrderUnderKillsOnSQLite.
const killedOnSQLite = "HOOKONCE_ORDER_WORKER_FILE"

// TestOrderUnderKillsOnSQLite kills the process of ordered handlers again and again. Each effect exists once, those of an object in
// the order of its versions.
func TestOrderUnderKillsOnSQLite(t *testing.T) {
	if path := os.Getenv(killedOnSQLite); path != "" {
		_, in := orderedOnSQLite(t, path)
		if err := in.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Parallel()
	const objects = 6
	versions, kills := group.Rounds(15, 100), group.Rounds(4, 40)
	path := filepath.Join(t.TempDir(), "hookonce.db")
	rig.MigratedSQLite(t, path)
	db, in := orderedOnSQLite(t, path)
	if _, err := db.Writer().ExecContext(t.Context(), "CREATE TABLE applied (n INTEGER PRIMARY KEY, o TEXT NOT NULL, v INTEGER NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for _, n := range rand.Perm(objects * versions) {
			eventually.True(t, "a delivery is stored", func() bool {
				return deliver(in, versioned(fmt.Sprint(n%objects), fmt.Sprint(n/objects))).Code == 200
			})
			<-time.After(time.Duration(rand.IntN(200)) * time.Millisecond) // lower versions come while higher ones run
		}
	})
	worker := startWorker(t, "TestOrderUnderKillsOnSQLite", killedOnSQLite+"="+path)
	for range kills {
		<-time.After(time.Duration(500+rand.IntN(2500)) * time.Millisecond) // anywhere in its work
		_ = worker.Process.Kill()
		_ = worker.Wait() // killed
		worker = startWorker(t, "TestOrderUnderKillsOnSQLite", killedOnSQLite+"="+path)
	}
	wg.Wait()
	want := map[string]bool{}
	for o := range objects {
		for v := range versions {
			id := fmt.Sprintf("%d-%d", o, v)
			eventually.True(t, id+" has ended", func() bool {
				switch state := eventState(t, db, id).State; {
				case state == driver.StateDone:
					want[id] = true
					return true
				default:
					return state == driver.StateSkipped && v < versions-1
				}
			})
		}
	}
	rows, err := db.Reader().QueryContext(t.Context(), "SELECT o, v FROM applied ORDER BY n")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	highest, applied := map[string]int{}, 0
	for ; rows.Next(); applied++ {
		var o string
		var v int
		if err := rows.Scan(&o, &v); err != nil {
			t.Fatal(err)
		}
		if last, ok := highest[o]; ok && v <= last || !want[fmt.Sprintf("%s-%d", o, v)] {
			t.Errorf("version %d of %s was applied after %d", v, o, last)
		}
		highest[o] = v
	}
	if err := rows.Err(); err != nil || applied != len(want) {
		t.Errorf("%d effects of %d events that are done, %v", applied, len(want), err)
	}
	t.Logf("%d of %d events were handled in order", applied, objects*versions)
}

// orderedOnSQLite returns an Inbox with an ordered handler, which is killed at any moment.
func orderedOnSQLite(t *testing.T, path string) (*hooksql.Store, *hookonce.Inbox[*sql.Tx]) {
	t.Helper()
	db, err := hooksql.OpenSQLite("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	mux := &hookonce.Mux[*sql.Tx]{}
	hookonce.Handle(mux, "gh", "*", func(ctx context.Context, tx *sql.Tx, ev *hookonce.Event) error {
		var body struct{ O, V string }
		if err := json.Unmarshal(ev.Body, &body); err != nil {
			return err
		}
		version, err := strconv.Atoi(body.V)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO applied (o, v) VALUES (?, ?)", body.O, version); err != nil {
			return err
		}
		<-time.After(time.Duration(rand.IntN(60)) * time.Millisecond)
		if rand.IntN(10) == 0 {
			return errors.New("now and then")
		}
		return nil
	}, byVersion)
	in, err := hookonce.New(db, mux, &hookonce.Config{
		Sources: []hookonce.Source{{Name: "gh", Provider: provider.GitHub, Secrets: hookonce.StaticSecrets(secret), AckTimeout: 30 * time.Second}},
		Batch:   4, Retry: hookonce.Retry{Attempts: 1000, First: 10 * time.Millisecond, Max: 100 * time.Millisecond},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return db, in
}

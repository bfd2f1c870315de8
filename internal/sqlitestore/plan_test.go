package sqlitestore

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
)

// TestPlans holds the statements that run over whole tables to the indexes that
// were made for them: without one of these, everything still works, and gets
// slower with every event.
func TestPlans(t *testing.T) {
	t.Parallel()
	db := openMigrated(t)
	listing := func(f *driver.EventFilter) string {
		where, _ := conditions(f)
		return `SELECT ` + eventColumns + ` FROM hookonce_event_overview` + where + ` ORDER BY received_at DESC, key DESC LIMIT ?`
	}
	const messagesOfEvent = "USING INDEX hookonce_message_event"
	for _, c := range []struct {
		name, query string
		want        []string
		sorts       bool
	}{
		{"list all", listing(&driver.EventFilter{}), []string{"USING INDEX hookonce_event_received", messagesOfEvent}, false},
		{"list a source", listing(&driver.EventFilter{Source: "s"}), []string{"USING INDEX hookonce_event_received"}, false},
		{"list dead", listing(&driver.EventFilter{State: driver.StateDead}), []string{"INDEX hookonce_message_dead", "INDEX hookonce_event_state_dead"}, true},
		{"list pending", listing(&driver.EventFilter{State: driver.StatePending}), []string{"INDEX hookonce_event_state_due"}, true},
		{"list by id", listing(&driver.EventFilter{Source: "s", ID: "a:b"}), []string{"SEARCH e USING INDEX sqlite_autoindex_hookonce_event_1 (key=?)"}, true},
		{"lease", selectDue, []string{"USING INDEX hookonce_message_due (destination=? AND due_at<?)"}, true},
		{"bury", buryUsedUp, []string{"USING INDEX sqlite_autoindex_hookonce_message_1 (id=?)"}, false},
		{"complete", completeMessage, []string{"(id=?)"}, false},
		{"reopen", reopenMessages, []string{"INDEX hookonce_message_dead (event_key=?)"}, false},
		{"read a duplicate", selectClaimed, []string{"SEARCH e USING INDEX sqlite_autoindex_hookonce_event_1 (key=?)", messagesOfEvent}, false},
		{"walk identities", walkIdentities, []string{"USING COVERING INDEX hookonce_event_received"}, false},
		{"walk bodies", walkBodies, []string{"USING INDEX hookonce_event_bodies (source=?"}, false},
		{"next source", nextBodySource, []string{"USING INDEX hookonce_event_bodies (source>?)"}, false},
		{"next quarantined source", nextQuarantineSource, []string{"USING COVERING INDEX"}, false},
		{"delete an event", deleteEvent, []string{"(key=?)", messagesOfEvent}, false},
		{"delete attempts", deleteAttempts, []string{"USING PRIMARY KEY (message_id=?)", messagesOfEvent}, false},
		{"delete quarantined rows", deleteQuarantineRows, []string{"hookonce_quarantine_last (source=?)"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := explain(t, db, c.query)
			for _, want := range c.want {
				if !strings.Contains(plan, want) {
					t.Errorf("the plan lacks %q:\n%s", want, plan)
				}
			}
			if strings.Contains(plan, "SCAN hookonce_message\n") || strings.Contains(plan, "SCAN e\n") || strings.Contains(plan, "SCAN m\n") {
				t.Errorf("the plan reads a whole table:\n%s", plan)
			}
			if !c.sorts && strings.Contains(plan, "- USE TEMP B-TREE") {
				t.Errorf("the plan sorts:\n%s", plan)
			}
		})
	}
}

func explain(t *testing.T, db *sql.DB, query string) string {
	t.Helper()
	args := make([]any, strings.Count(query, "?"))
	for i := range args {
		args[i] = 1
	}
	rows, err := db.QueryContext(t.Context(), `EXPLAIN QUERY PLAN `+query, args...) //nolint:sqlclosecheck // collect closes them
	if err != nil {
		t.Fatal(err)
	}
	lines, err := collect(rows, func(line *string) error {
		var id, parent, unused int
		err := rows.Scan(&id, &parent, &unused, line)
		if parent == 0 {
			*line = "- " + *line
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n") + "\n"
}

// openMigrated returns a pool of one connection on a file with the schema.
func openMigrated(t *testing.T) *sql.DB {
	t.Helper()
	db := openWith(t, "sqlite", filepath.Join(t.TempDir(), "hookonce.db"))
	for _, step := range hookmigrate.SQLite() {
		if _, err := db.ExecContext(context.Background(), step.SQL); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

func openWith(t *testing.T, driverName, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driverName, "file:"+path+
		"?_txlock=immediate&_pragma=busy_timeout(100)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return db
}

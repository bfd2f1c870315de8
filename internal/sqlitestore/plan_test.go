package sqlitestore

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
)

// TestPlans checks that the statements on whole tables use the indexes made for them. Without one
// of these indexes everything still works, and gets slower with every event.
func TestPlans(t *testing.T) {
	t.Parallel()
	db := openMigrated(t)
	quarantined := func(f *driver.QuarantineFilter) string {
		query, _ := quarantinedQuery(f)
		return query
	}
	series := func(f *driver.SeriesFilter) string {
		query, _ := seriesQuery(f)
		return query
	}
	refusedOf := func(f *driver.RefusedFilter) string {
		query, _ := refusedQuery(f)
		return query
	}
	take := func(query string) string {
		condition, _ := typeIn([]string{"invoice.paid", "charge.*"})
		return query + condition + orderByDue
	}
	after := driver.Cursor{At: time.Unix(1, 0)}
	const messagesOfEvent = "INDEX hookonce_message_event (event=?)"
	const message = "SEARCH hookonce_message USING INDEX hookonce_message_event (event=? AND id=?)"
	const byNumber = "SEARCH hookonce_message USING INTEGER PRIMARY KEY (rowid=?)"
	const keysOfID = "SEARCH e USING COVERING INDEX sqlite_autoindex_hookonce_event_1 (key>? AND key<?)"
	const keyOfID = "SEARCH e USING COVERING INDEX sqlite_autoindex_hookonce_event_1 (key=?)"
	const messageOfEvent = "SEARCH m USING COVERING INDEX hookonce_message_event (event=? AND id=?)"
	const messagesCaused = "USING INDEX hookonce_message_cause (cause=?)"
	const oneEvent = "SEARCH e USING INDEX sqlite_autoindex_hookonce_event_1 (key=?)"
	const eventByNumber = "SEARCH e USING INTEGER PRIMARY KEY (rowid=?)"
	const numberOfKey = "SEARCH hookonce_event USING COVERING INDEX sqlite_autoindex_hookonce_event_1 (key=?)"
	const state = "SEARCH hookonce_event_state USING INTEGER PRIMARY KEY (rowid=?)"
	for _, c := range []struct {
		name, query string
		want        []string
		sorts       bool
	}{
		{"reset a message", resetMessage, []string{message, numberOfKey}, false},
		{"quarantine", quarantined(&driver.QuarantineFilter{After: after}), []string{"USING INDEX hookonce_quarantine_recent ((last_at,key)<(?,?))"}, false},
		{"quarantine of a source", quarantined(&driver.QuarantineFilter{Source: "s", After: after}), []string{"USING INDEX hookonce_quarantine_last (source=? AND (last_at,key)<(?,?))"}, false},
		{"one quarantined request", selectOneQuarantined, []string{"SEARCH hookonce_quarantine USING INDEX sqlite_autoindex_hookonce_quarantine_1 (key=?)"}, false},
		{"remove a quarantined request", dropQuarantined, []string{"USING INDEX sqlite_autoindex_hookonce_quarantine_1 (key=?)"}, false},
		{"the last failures of a destination", selectLastFailures, []string{
			"INDEX hookonce_message_due (destination=? AND due_at>?)", "INDEX hookonce_message_due (destination=?)",
			"INDEX hookonce_message_dead_destination (destination=?)", "SEARCH m USING INTEGER PRIMARY KEY (rowid=?)",
			"SEARCH a USING PRIMARY KEY (message_id=? AND generation=? AND number=?)", eventByNumber,
			"SEARCH hookonce_attempt USING PRIMARY KEY (message_id=?)",
		}, true},
		{"count pending", countPending, []string{"INDEX hookonce_event_state_fresh", "INDEX hookonce_event_state_tried"}, false},
		{"oldest pending", selectOldestPending, []string{
			"INDEX hookonce_event_state_fresh (source>?)", "INDEX hookonce_event_state_fresh (source=? AND due_at<?)",
			"INDEX hookonce_event_state_tried (source>?)", "INDEX hookonce_event_state_tried (source=? AND due_at<?)",
		}, false},
		{"count dead events", countDeadEvents, []string{"COVERING INDEX hookonce_event_state_dead"}, false},
		{"count dead", countDead, []string{"COVERING INDEX hookonce_message_dead"}, false},
		{"count the quarantine", countQuarantined, []string{"COVERING INDEX hookonce_quarantine_recent"}, false},
		{"stuck destinations", selectStuckDestinations, []string{
			"COVERING INDEX hookonce_message_due (destination>?)", "COVERING INDEX hookonce_message_dead_group (destination>?)",
		}, true},
		{"count a destination", countOfDestination, []string{
			"COVERING INDEX hookonce_message_due (destination=? AND due_at<?)", "COVERING INDEX hookonce_message_due (destination=? AND due_at>?)",
			"COVERING INDEX hookonce_message_dead_",
		}, false},
		{"backlog of a source", backlogOfSource, []string{
			"INDEX hookonce_event_state_fresh (source=?)", "INDEX hookonce_event_state_tried (source=?)",
			"COVERING INDEX hookonce_event_state_dead_",
		}, false},
		{"backlog of a destination", backlogOfDestination, []string{
			"COVERING INDEX hookonce_message_due (destination=?)", "COVERING INDEX hookonce_message_dead_group (destination=?)",
		}, false},
		{"history", selectHistory, []string{"INDEX hookonce_history_event (event_key=?)"}, false},
		{"delete the history", deleteHistory, []string{"INDEX hookonce_history_event (event_key=?)"}, false},
		{"repeated request", selectRequest, []string{"INDEX hookonce_history_request (event_key=? AND request_id=?)"}, false},
		{"messages to replay", selectReplayableMessages, []string{messagesOfEvent}, true},
		{"next generation", nextGeneration, []string{messagesOfEvent}, false},
		{"lease", selectOldestDue, []string{"SEARCH m USING INDEX hookonce_message_due (destination=? AND due_at<?)", eventByNumber}, false},
		{"lease the newest", selectUntriedDue, []string{"SEARCH m USING INDEX hookonce_message_due (destination=? AND due_at<?)", eventByNumber}, false},
		{"due destinations", selectDueDestinations, []string{"COVERING INDEX hookonce_message_due (destination=? AND due_at<?)"}, false},
		{"hurry", hurryMessages, []string{"COVERING INDEX hookonce_message_due (destination=? AND due_at>? AND due_at<?)"}, false},
		{"new dead messages", newDeadQuery(selectNewDeadMessages, "m.destination", 2, 0), []string{"SEARCH m USING INDEX hookonce_message_dead_failed (failed_at>? AND failed_at<?)", eventByNumber}, false},
		{"new dead events", newDeadQuery(selectNewDeadEvents, "s.source", 2, 3), []string{"SEARCH s USING INDEX hookonce_event_state_dead_failed (failed_at>? AND failed_at<?)", eventByNumber}, false},
		{"bury", buryUsedUp, []string{byNumber}, false},
		{"lease one", takeLease, []string{byNumber}, false},
		{"complete", completeMessage, []string{byNumber, keysOfID, keyOfID, messageOfEvent}, false},
		{"complete as sent", sentMessage, []string{byNumber, keysOfID, keyOfID, messageOfEvent}, false},
		{"release", releaseMessage, []string{byNumber, keysOfID, keyOfID, messageOfEvent}, false},
		{"retry", selectRetryable, []string{"SEARCH m USING INTEGER PRIMARY KEY (rowid=?)", keysOfID, keyOfID, messageOfEvent}, false},
		{"enqueue", insertEnqueuedBody, []string{"USING INTEGER PRIMARY KEY", keysOfID, keyOfID, messageOfEvent}, false},
		{"reopen", reopenMessages, []string{messagesOfEvent}, false},
		{"read a duplicate", selectClaimed, []string{oneEvent, messagesOfEvent}, false},
		{"walk identities", walkIdentities, []string{"USING COVERING INDEX hookonce_event_received"}, false},
		{"walk bodies", walkBodies, []string{"USING INDEX hookonce_event_bodies (received_at>? AND received_at<?)"}, false},
		{"next quarantined source", nextQuarantineSource, []string{"USING COVERING INDEX"}, false},
		{"delete an event", deleteEvent, []string{"(key=?)", messagesOfEvent}, false},
		{"delete attempts", deleteAttempts, []string{"USING PRIMARY KEY (message_id=?)", messagesOfEvent}, false},
		{"walk versions", walkVersions, []string{"INDEX hookonce_object_version_applied"}, false},
		{"delete attempts of handlers", deleteTries, []string{"USING PRIMARY KEY (key=?)"}, false},
		{"shown messages of an event", selectMessages, []string{messagesOfEvent, messagesCaused}, true},
		{"shown attempts of an event", selectAttempts, []string{"USING PRIMARY KEY (message_id=?)", messagesOfEvent, messagesCaused, "USING PRIMARY KEY (key=?)"}, true},
		{"take fresh", take(selectFresh), []string{"SEARCH s USING INDEX hookonce_event_state_fresh (source=? AND due_at<?)", eventByNumber}, false},
		{"take tried", take(selectTried), []string{"SEARCH s USING INDEX hookonce_event_state_tried (source=? AND due_at<?)", eventByNumber}, false},
		{"take by key", selectPendingKeys + keyIn(`e.key`, 3) + orderByDue, []string{"SEARCH s USING INTEGER PRIMARY KEY (rowid=?)", oneEvent}, true},
		{"due sources", selectDueSources, []string{"USING INDEX hookonce_event_state_fresh (source=? AND due_at<?)", "USING INDEX hookonce_event_state_tried (source=? AND due_at<?)"}, false},
		{"begin a handler", setBegun, []string{state, numberOfKey}, false},
		{"record an outcome", recordRetry, []string{state, numberOfKey}, false},
		{"look at a run", selectRun, []string{state, numberOfKey}, false},
		{"release an event", releaseEvent, []string{state, numberOfKey}, false},
		{"interrupted runs", selectLost, []string{"USING INDEX hookonce_event_state_running", eventByNumber}, false},
		{"old failures", oldInline, []string{"USING INDEX hookonce_inline_failure_last (last_at<?)"}, false},
		{"versions", selectVersions + keyIn(`object`, 3), []string{"USING PRIMARY KEY (object=?)"}, false},
		{"refused requests", refusedOf(&driver.RefusedFilter{After: after}), []string{"USING INDEX hookonce_refused_recent"}, false},
		{"refused requests of a source", refusedOf(&driver.RefusedFilter{Source: "s", After: after}), []string{"USING INDEX hookonce_refused_newest (source=?"}, false},
		{"a refused request", refusedOf(&driver.RefusedFilter{ErrorID: "e"}), []string{"USING INDEX sqlite_autoindex_hookonce_refused_1 (key=?)"}, true},
		{"trim refused requests", trimRefused, []string{"USING COVERING INDEX hookonce_refused_newest (source=?)"}, false},
		{"old refused requests", findRefused, []string{"USING COVERING INDEX hookonce_refused_newest (source=? AND at<?)"}, false},
		{"a series", series(&driver.SeriesFilter{Name: "s"}), []string{"USING PRIMARY KEY (kind=? AND resolution=? AND start>? AND start<?)"}, true},
		{"the hours of a type", series(&driver.SeriesFilter{Of: driver.FigureTypes, Name: "s", Label: "t"}), []string{"USING PRIMARY KEY (source=? AND type=? AND start>? AND start<?)"}, true},
		{"the types of hours", series(&driver.SeriesFilter{Of: driver.FigureTypes}), []string{"USING INDEX hookonce_type_rollup_start (start>? AND start<?)"}, true},
		{"old figures", findRollups, []string{"USING PRIMARY KEY (kind=? AND resolution=? AND start<?)"}, false},
		{"old figures of types", findTypes, []string{"USING COVERING INDEX hookonce_type_rollup_start (start<?)"}, false},
		{"delete figures of types", deleteTypes, []string{"USING COVERING INDEX hookonce_type_rollup_start (start<?)", "USING PRIMARY KEY (source=? AND type=? AND start=?)"}, false},
		{"delete quarantined rows", deleteQuarantineRows, []string{"hookonce_quarantine_last (source=?)"}, false},
	} {
		t.Run(c.name, func(t *testing.T) { checkPlan(t, db, c.query, c.want, c.sorts) })
	}
}

// checkPlan checks that a plan has the texts in want, reads no table without an index, and sorts only
// if it may.
func checkPlan(t *testing.T, db *sql.DB, query string, want []string, sorts bool) {
	t.Helper()
	plan := explain(t, db, query)
	for _, want := range want {
		if !strings.Contains(plan, want) {
			t.Errorf("the plan lacks %q:\n%s", want, plan)
		}
	}
	for _, scan := range []string{"SCAN hookonce_message\n", "SCAN hookonce_event\n", "SCAN hookonce_event_state\n", "SCAN e\n", "SCAN e USING INDEX sqlite_autoindex", "SCAN m\n", "SCAN s\n"} {
		if strings.Contains(plan, scan) {
			t.Errorf("the plan reads a whole table:\n%s", plan)
		}
	}
	// Sorting by the last term alone is fine: few rows share the values of the other terms.
	if !sorts && strings.Contains(strings.ReplaceAll(plan, "- USE TEMP B-TREE FOR LAST TERM", ""), "- USE TEMP B-TREE") {
		t.Errorf("the plan sorts:\n%s", plan)
	}
}

// TestLeaseDoesNotSort: the messages due at one time may be a batch with large bodies. Sorting
// would read all of them for one message, under the write lock.
func TestLeaseDoesNotSort(t *testing.T) {
	t.Parallel()
	db := openMigrated(t)
	for _, query := range []string{selectOldestDue, selectUntriedDue, selectFresh + orderByDue, selectTried + orderByDue} {
		if plan := explain(t, db, query); strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("the plan sorts:\n%s", plan)
		}
	}
}

func explain(t *testing.T, db *sql.DB, query string) string {
	t.Helper()
	args := make([]any, strings.Count(query, "?"))
	for i := range args {
		args[i] = 1
	}
	rows, err := db.QueryContext(t.Context(), `EXPLAIN QUERY PLAN `+query, args...) //nolint:sqlclosecheck // collect closes them
	lines, err := collect(rows, err, func(line *string) error {
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
		"?_txlock=immediate&_pragma=busy_timeout(100)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=secure_delete(ON)")
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

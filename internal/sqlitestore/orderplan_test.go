package sqlitestore

import (
	"strings"
	"testing"
)

// TestPlansOfLines: no statement reads a line whole, or the lines of others.
func TestPlansOfLines(t *testing.T) {
	t.Parallel()
	db := openMigrated(t)
	const ordered = "SEARCH hookonce_ordered_message USING INTEGER PRIMARY KEY (rowid=?)"
	const byNumber = "SEARCH m USING INTEGER PRIMARY KEY (rowid=?)"
	const byEvent, stateRow = "SEARCH s USING INTEGER PRIMARY KEY (rowid=?)", "SEARCH hookonce_event_state USING INTEGER PRIMARY KEY (rowid=?)"
	const eventKey = "(key=?)"
	const lineRow = "USING PRIMARY KEY (object=?)"
	for _, c := range []struct {
		name, query string
		want        []string
		sorts       bool
	}{
		{"the holder of a line", selectHolder, []string{"SEARCH o USING INTEGER PRIMARY KEY (rowid=?)", byNumber, byEvent, lineRow}, false},
		{"those before others", selectBefore, []string{"INDEX hookonce_ordered_message_line (line=?", byNumber, byEvent}, false},
		{"the front of a line", selectFront, []string{"INDEX hookonce_ordered_message_line (line=?", byNumber, byEvent}, false},
		{"the next line", nextLine, []string{"INDEX hookonce_ordered_message_line (line>?)"}, false},
		{"those that wait", countWaiting, []string{"INDEX hookonce_ordered_message_line (line=?)", "SEARCH d USING INTEGER PRIMARY KEY (rowid=?)"}, false},
		{"a passed version", selectPassed, []string{"SEARCH o USING INTEGER PRIMARY KEY (rowid=?)", lineRow}, false},
		{"a place", selectOrdered, []string{ordered}, false},
		{"the end of a place", endOrdered, []string{ordered}, false},
		{"an attempt without an answer", selectUnanswered, []string{byNumber, "SEARCH a USING PRIMARY KEY (message_id=? AND generation=?)"}, false},
		{"the version of a line", selectLine, []string{lineRow}, false},
		{"parking", parkMessage, []string{"SEARCH hookonce_message USING INTEGER PRIMARY KEY (rowid=?)"}, false},
		{"parking an event", parkEvent, []string{stateRow}, false},
		{"waking an event", wakeEvent, []string{stateRow}, false},
		{"a reserved event", selectReserved, []string{byEvent, eventKey}, false},
		{"the number of an event", numberOfEvent, []string{eventKey}, false},
		{"whether an event may run", selectMayRun, []string{lineRow, eventKey}, false},
		{"waking", wakeMessage, []string{"SEARCH hookonce_message USING INTEGER PRIMARY KEY (rowid=?)"}, false},
	} {
		t.Run(c.name, func(t *testing.T) { checkPlan(t, db, c.query, c.want, c.sorts) })
	}
}

// TestPlansWithoutOrder: without order, no statement for a message or an event touches a place or a line.
func TestPlansWithoutOrder(t *testing.T) {
	t.Parallel()
	db := openMigrated(t)
	for _, query := range []string{
		insertMessage, selectOldestDue, selectUntriedDue, takeLease, buryUsedUp, completeMessage, sentMessage, releaseMessage, selectDueDestinations,
		selectFresh, selectTried, markTaken, recordDone, recordStale, recordRetry, recordDead, releaseEvent, insertState,
	} {
		if plan := explain(t, db, query); strings.Contains(query+plan, "ordered_message") || strings.Contains(query, "sending") ||
			strings.Contains(query, "object_version") {
			t.Errorf("a statement for all messages touches lines:\n%s\n%s", query, plan)
		}
	}
}

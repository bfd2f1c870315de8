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
	const lineRow = "USING PRIMARY KEY (object=?)"
	for _, c := range []struct {
		name, query string
		want        []string
		sorts       bool
	}{
		{"the holder of a line", selectHolder, []string{"SEARCH o USING INTEGER PRIMARY KEY (rowid=?)", byNumber, lineRow}, false},
		{"the message before others", selectBefore, []string{"INDEX hookonce_ordered_message_line (line=?", byNumber}, false},
		{"the front of a line", selectFront, []string{"INDEX hookonce_ordered_message_line (line=?", byNumber}, false},
		{"the next line", nextLine, []string{"INDEX hookonce_ordered_message_line (line>?)"}, false},
		{"those that wait", countWaiting, []string{"INDEX hookonce_ordered_message_line (line=?)", "SEARCH d USING INTEGER PRIMARY KEY (rowid=?)"}, false},
		{"a passed version", selectPassed, []string{"SEARCH o USING INTEGER PRIMARY KEY (rowid=?)", lineRow}, false},
		{"a place", selectOrdered, []string{ordered}, false},
		{"the end of a place", endOrdered, []string{ordered}, false},
		{"an attempt without an answer", selectUnanswered, []string{byNumber, "SEARCH a USING PRIMARY KEY (message_id=? AND generation=?)"}, false},
		{"the version of a line", selectLine, []string{lineRow}, false},
		{"parking", parkMessage, []string{"SEARCH hookonce_message USING INTEGER PRIMARY KEY (rowid=?)"}, false},
		{"waking", wakeMessage, []string{"SEARCH hookonce_message USING INTEGER PRIMARY KEY (rowid=?)"}, false},
	} {
		t.Run(c.name, func(t *testing.T) { checkPlan(t, db, c.query, c.want, c.sorts) })
	}
}

// TestPlansWithoutOrder: without order, no statement for a message touches a place or a line.
func TestPlansWithoutOrder(t *testing.T) {
	t.Parallel()
	db := openMigrated(t)
	for _, query := range []string{
		insertMessage, selectOldestDue, selectUntriedDue, takeLease, buryUsedUp, completeMessage, sentMessage, releaseMessage, selectDueDestinations,
	} {
		if plan := explain(t, db, query); strings.Contains(query+plan, "ordered_message") || strings.Contains(query, "sending") ||
			strings.Contains(query, "object_version") {
			t.Errorf("a statement for all messages touches lines:\n%s\n%s", query, plan)
		}
	}
}

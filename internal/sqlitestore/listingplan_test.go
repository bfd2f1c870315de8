package sqlitestore

import (
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/walk"
)

// TestPlansOfListings checks the plans of every kind of step of a listing: each reads the rows of the
// step alone.
func TestPlansOfListings(t *testing.T) {
	t.Parallel()
	db := openMigrated(t)
	place := driver.Cursor{At: time.Unix(2, 0), ID: "m"}
	step := walk.Step{After: place, End: driver.Cursor{At: time.Unix(1, 0), ID: "m"}, Since: time.Unix(0, 0)}
	var first walk.Step
	keys := []driver.Key{{}, {1}}
	edge := func(query string, args []any) string { query, _ = edgeQuery(query, args); return query }
	text := func(query string, _ []any) string { return query }
	events := func(f driver.EventFilter) *eventWalk {
		return &eventWalk{f: &f, number: walk.IndexedState(f.State, ""), implied: impliedBy[f.State]}
	}
	messages := func(f driver.MessageFilter) *messageWalk {
		return &messageWalk{f: &f, number: walk.IndexedState(f.State, "")}
	}
	dead := func(f driver.MessageFilter) *messageWalk { return &messageWalk{f: &f, number: "3"} }
	open, _ := openMessages("d")
	const (
		ofEvent  = "USING INDEX hookonce_message_event (event=?)"
		caused   = "USING INDEX hookonce_message_cause (cause=?)"
		oneEvent = "SEARCH e USING INDEX sqlite_autoindex_hookonce_event_1 (key=?)"
		byNumber = "SEARCH e USING INTEGER PRIMARY KEY (rowid=?)"
		inOrder  = "USING INDEX hookonce_event_received ((received_at,key)>(?,?) AND (received_at,key)<(?,?))"
	)
	for _, c := range []struct {
		name, query string
		want        []string
		sorts       bool
	}{
		{"all events", text(events(driver.EventFilter{}).query(first, 51)), []string{"USING INDEX hookonce_event_received", ofEvent}, false},
		{"a step of events", text(events(driver.EventFilter{Source: "s", Type: "t", Text: "x"}).query(step, 51)), []string{inOrder}, false},
		{"events by a trace id", text(events(driver.EventFilter{TraceID: "x"}).query(step, 51)), []string{inOrder}, false},
		{"the edge of events", edge(events(driver.EventFilter{Source: "s"}).candidates(step, 500)), []string{"COVERING INDEX hookonce_event_received ((received_at,key)>(?,?) AND (received_at,key)<(?,?))"}, true},
		{"events by id", text((&eventWalk{f: &driver.EventFilter{ID: "i"}, keys: keys, isKeyed: true}).query(first, 51)), []string{oneEvent}, true},
		{"few pending events", text(events(driver.EventFilter{State: driver.StatePending}).query(first, 51)), []string{"INDEX hookonce_event_state_fresh", "INDEX hookonce_event_state_tried", oneEvent}, true},
		{"few running events", text(events(driver.EventFilter{State: driver.StateRunning}).query(first, 51)), []string{"INDEX hookonce_message_due", "INDEX hookonce_event_state_running", oneEvent}, true},
		{"dead events and messages", text(events(driver.EventFilter{State: driver.StateDead}).query(step, 51)), []string{"INDEX hookonce_message_dead (", "INDEX hookonce_event_state_dead (", oneEvent}, true},
		{"the edge of the dead", edge(events(driver.EventFilter{State: driver.StateDead}).candidates(step, 500)), []string{"COVERING INDEX hookonce_message_dead (", "INDEX hookonce_event_state_dead ("}, true},
		{"the edge of the skipped", edge(events(driver.EventFilter{State: driver.StateSkipped}).candidates(step, 500)), []string{"COVERING INDEX hookonce_message_skipped (", "INDEX hookonce_event_state_skipped ("}, true},

		{"a step of messages", text(messages(driver.MessageFilter{Destination: "d"}).query(step, 51)), []string{"SEARCH e USING INDEX hookonce_event_received (", ofEvent}, false},
		{"a step of sent messages", text(messages(driver.MessageFilter{State: driver.StateSent}).query(step, 51)), []string{"SEARCH e USING INDEX hookonce_event_received (", ofEvent}, false},
		{"the edge of messages", edge(messages(driver.MessageFilter{}).candidates(step, 500)), []string{"COVERING INDEX hookonce_event_received ("}, true},
		{"few messages", text((&messageWalk{f: &driver.MessageFilter{}, few: open}).query(first, 51)), []string{"INDEX hookonce_message_due (destination=?)", byNumber}, true},
		{"messages of an event", text((&messageWalk{f: &driver.MessageFilter{EventID: "i"}, keys: keys, isKeyed: true}).query(first, 51)), []string{ofEvent, caused, byNumber}, true},
		{"a message", text(messages(driver.MessageFilter{MessageID: "m"}).query(first, 51)), []string{"SEARCH m USING INDEX hookonce_message_event (event=? AND id=?)", "(key>? AND key<?)", "(key=?)", byNumber}, true},
		{"a dead message", text(messages(driver.MessageFilter{MessageID: "m", State: driver.StateDead}).query(first, 51)), []string{"SEARCH m USING INDEX hookonce_message_event (event=? AND id=?)", "(key>? AND key<?)", "(key=?)", byNumber}, true},
		{"skipped messages", text(messages(driver.MessageFilter{State: driver.StateSkipped}).query(step, 51)), []string{"SEARCH m USING INDEX hookonce_message_skipped (", byNumber}, false},
		{"the edge of skipped messages", edge(messages(driver.MessageFilter{State: driver.StateSkipped}).candidates(step, 500)), []string{"INDEX hookonce_message_skipped ("}, true},

		{"dead messages", text(dead(driver.MessageFilter{}).deadMessages(first, 51)), []string{"SCAN m USING INDEX hookonce_message_dead", byNumber}, false},
		{"a step of dead messages", text(dead(driver.MessageFilter{}).deadMessages(step, 51)), []string{"SEARCH m USING INDEX hookonce_message_dead (", byNumber}, false},
		{"dead messages of a destination", text(dead(driver.MessageFilter{Destination: "d"}).deadMessages(step, 51)), []string{"SEARCH m USING INDEX hookonce_message_dead_destination (destination=?", byNumber}, false},
		{"dead events", text(dead(driver.MessageFilter{}).deadEvents(first, 51)), []string{"SCAN s USING INDEX hookonce_event_state_dead", byNumber}, false},
		{"a step of dead events", text(dead(driver.MessageFilter{Source: "s"}).deadEvents(step, 51)), []string{"SEARCH s USING INDEX hookonce_event_state_dead (", byNumber}, false},
		{"a dead event", text((&messageWalk{f: &driver.MessageFilter{EventID: "i"}, keys: keys, isKeyed: true, number: "3"}).deadEvents(first, 51)), []string{oneEvent, "SEARCH s USING INTEGER PRIMARY KEY (rowid=?)"}, true},
		{"the edge of dead letters", edge(dead(driver.MessageFilter{}).letterPlaces(step, 500)), []string{"INDEX hookonce_message_dead (", "INDEX hookonce_event_state_dead ("}, true},
		{"the edge of those of a destination", edge(dead(driver.MessageFilter{Destination: "d"}).letterPlaces(step, 500)), []string{"INDEX hookonce_message_dead_destination (destination=?"}, true},

		{"known sources", selectKnownSources, []string{"USING PRIMARY KEY (source>?)"}, true},
		{"the hours of a type", selectTypeHours, []string{"USING PRIMARY KEY (source=? AND type=?)"}, false},
		{"the hours of a source", selectSourceHours, []string{"hookonce_type_rollup_start (start<?)", "hookonce_type_rollup_start (start=? AND source=?)"}, false},
		{"all hours", selectFigureHours, []string{"COVERING INDEX hookonce_type_rollup_start"}, false},
	} {
		t.Run(c.name, func(t *testing.T) { checkPlan(t, db, c.query, c.want, c.sorts) })
	}
}

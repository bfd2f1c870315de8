package hookpgx_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/group"
)

// plansOfListings lists by every combination of filters that match nothing, or little, among many
// events of each state, and bounds the rows that each statement reads. None may scan a table.
func plansOfListings(t *testing.T) {
	t.Parallel()
	w, plans := openExplained(t, nil)
	fill(t, w)
	// Many messages and events of every state, spread over all events.
	w.exec(t, "UPDATE {schema}.message SET state = (get_byte(sha256(convert_to(id, 'UTF8')), 0) % 5)::smallint")
	w.exec(t, "UPDATE {schema}.event_state SET state = (get_byte(key, 0) % 5)::smallint, signature = {schema}.error_signature(last_error) WHERE state <> 1")
	w.exec(t, "UPDATE {schema}.event_state SET state = 2 WHERE state = 1")
	w.exec(t, `INSERT INTO {schema}.type_rollup
		SELECT 'stripe', t, date_trunc('hour', now()) - i * interval '1 hour', 1 FROM generate_series(0, 2000) i, unnest(ARRAY['thing.happened', 'other.thing']) t`)
	for _, table := range []string{"event", "event_state", "message", "type_rollup"} {
		w.exec(t, "VACUUM ANALYZE {schema}."+table)
	}
	for _, source := range []string{"", "absent"} {
		for _, kind := range []string{"", "absent"} {
			if source != "" && (kind != "" || !group.Long()) {
				continue
			}
			for _, state := range append([]string{""}, driver.EventStates()...) {
				for _, note := range []string{"", driver.NoteNoRoute, driver.NoteDiscarded} {
					f := &driver.EventFilter{Source: source, Type: kind, State: state, Note: note}
					plans.bounded(t, fmt.Sprintf("events by %q, %q, %q, %q", source, kind, state, note), listEvents(t, w, f, 0))
				}
			}
			for _, f := range []driver.MessageFilter{
				{},
				{State: driver.StatePending},
				{State: driver.StateSending},
				{State: driver.StateSent},
				{State: driver.StateDead},
				{State: driver.StateSkipped},
				{Destination: "to-audit"},
				{Destination: "absent", State: driver.StateSkipped},
				{Note: "absent"},
				{Note: driver.NoteDiscarded},
				{Destination: "absent", State: driver.StatePending},
				{Destination: "absent", State: driver.StateSent},
			} {
				f.Source, f.Type = source, kind
				what := fmt.Sprintf("by %q, %q, %q, %q, %q", source, kind, f.State, f.Destination, f.Note)
				plans.bounded(t, "messages "+what, listMessages(t, w, &f, 0))
				plans.bounded(t, "dead letters "+what, listLetters(t, w, &f, 0))
			}
		}
	}
	for _, id := range []string{"absent", "a:b:c:d", "evt_17"} {
		plans.bounded(t, "events by the id "+id, listEvents(t, w, &driver.EventFilter{ID: id}, 0))
		plans.bounded(t, "messages by the id "+id, listMessages(t, w, &driver.MessageFilter{EventID: id}, 0))
		plans.bounded(t, "dead letters by the id "+id, listLetters(t, w, &driver.MessageFilter{EventID: id}, 0))
	}
	old := driver.EventFilter{Source: "absent", Until: time.Now().Add(-planEvents / 2 * time.Second), Since: time.Now().Add(-planEvents * 3 / 4 * time.Second)}
	plans.bounded(t, "old events", listEvents(t, w, &old, 0))
	plans.bounded(t, "events with a text", listEvents(t, w, &driver.EventFilter{Text: "absent", Scan: 5000}, 0))
	plans.bounded(t, "events of a trace", listEvents(t, w, &driver.EventFilter{TraceID: strings.Repeat("a", 32), Scan: 5000}, 0))
	plans.bounded(t, "messages with a text", listMessages(t, w, &driver.MessageFilter{Text: "absent", Scan: 5000}, 0))
	plans.boundedTo(t, statsRows, "stats", func() error {
		stats, err := w.Stats(t.Context())
		if err == nil && (stats.DeadLetters != driver.CountLimit || len(stats.Destinations) != 2) {
			t.Errorf("stats are %+v", stats)
		}
		return err
	})
}

const (
	// stepRows is the most rows of one table that a statement of a listing may read: those of a step, a
	// few times, and never as many as there are.
	stepRows = 3*10_000 + 1000
	// statsRows is the same for counts: those of all dead letters and, for two destinations, of due, coming and
	// dead messages.
	statsRows = 7 * driver.CountLimit
)

// bounded fails the test if a statement of run scans one of the large tables, or reads more than
// stepRows of it.
func (e *explained) bounded(t *testing.T, what string, run func() error) {
	t.Helper()
	e.boundedTo(t, stepRows, what, run)
}

// boundedTo is bounded with another number of rows.
func (e *explained) boundedTo(t *testing.T, most float64, what string, run func() error) {
	t.Helper()
	for _, plan := range e.of(t, run) {
		read := map[string]float64{}
		plan.Plan.count(read)
		for _, table := range []string{"event", "event_state", "message", "type_rollup", "message_due"} {
			if read[table] > most || plan.Plan.scans(table) {
				t.Errorf("%s: %.0f rows of %s were read, by this plan:\n%+v", what, read[table], table, plan.Plan)
			}
		}
	}
}

// scans reports whether the node or one below it reads a table without an index.
func (n *planNode) scans(table string) bool {
	if n.Type == "Seq Scan" && n.Relation == table {
		return true
	}
	for i := range n.Plans {
		if n.Plans[i].scans(table) {
			return true
		}
	}
	return false
}

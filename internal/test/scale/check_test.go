package scale

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// check ends loads, waits until all messages are sent, and compares the acknowledged events with the database and the
// sink. It returns its counts and the faults. There are no faults if every promise was kept.
func (c *cluster) check(t testing.TB, loads ...*load) (counts, []string) {
	t.Helper()
	for _, l := range loads {
		l.finish()
	}
	conn, err := pgx.Connect(t.Context(), c.database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	eventually.True(t, "no message is open", func() bool {
		return number(t, conn, "SELECT count(*) FROM hookonce.message WHERE state IN (0, 1)") == 0
	})
	stored := storedEvents(t, conn)
	effects, again, faults := c.sink.taken()

	all := counts{again: again}
	known := make(map[string]bool)
	for _, l := range loads {
		l.mu.Lock()
		defer l.mu.Unlock()
		faults = append(faults, l.faults...)
		all.add(&l.counts)
		all.events += len(l.events)
		for _, ev := range l.events {
			known[ev.id] = true
			faults = append(faults, ev.faults(stored[ev.id], effects[ev.id])...)
		}
	}
	for id := range stored {
		if !known[id] {
			faults = append(faults, id+" is in the database, but was never delivered")
		}
	}
	t.Logf("%+v", all)
	return all, faults
}

// faults compares an event with its states in the database, and with its webhook-ids at each path of the sink.
func (ev *sent) faults(states []string, effects map[string]int) []string {
	var faults []string
	add := func(format string, args ...any) { faults = append(faults, ev.id+fmt.Sprintf(format, args...)) }
	switch {
	case len(states) > 1:
		add(" is in the database %d times", len(states))
	case !ev.acked: // reported when its sender gave up
	case len(states) == 0:
		add(" was acknowledged, but is not in the database")
	case states[0] != "done":
		add(" is %s", states[0])
	}
	for path, n := range effects {
		if n > 1 {
			add(" came to %s under %d webhook-ids", path, n)
		}
	}
	for _, path := range ev.paths {
		if ev.acked && effects[path] == 0 {
			add(" never came to %s", path)
		}
	}
	return faults
}

func (c *counts) add(more *counts) {
	c.deliveries += more.deliveries
	c.copies += more.copies
	c.duplicates += more.duplicates
	c.retried += more.retried
	c.failed += more.failed
}

// storedEvents reads the states of all events by their ids, of each as often as it is stored.
func storedEvents(t testing.TB, conn *pgx.Conn) map[string][]string {
	t.Helper()
	rows, err := conn.Query(t.Context(), "SELECT event_id, state FROM hookonce.events")
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string][]string)
	var id, state string
	if _, err := pgx.ForEachRow(rows, []any{&id, &state}, func() error {
		all[id] = append(all[id], state)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func number(t testing.TB, conn *pgx.Conn, query string) (n int) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// mustBeKept fails the test with the first faults, if there are any.
func mustBeKept(t testing.TB, faults []string) {
	t.Helper()
	if len(faults) > 0 {
		t.Errorf("%d faults, the first of them:\n%s", len(faults), strings.Join(faults[:min(10, len(faults))], "\n"))
	}
}

// mustBeBroken fails the test unless a fault contains what.
func mustBeBroken(t testing.TB, faults []string, what string) {
	t.Helper()
	if !slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, what) }) {
		t.Errorf("the planted fault was not noticed: no fault with %q among %d", what, len(faults))
	}
}

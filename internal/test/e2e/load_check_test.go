package e2e

import (
	"crypto/sha256"
	"database/sql"
	"maps"
	"slices"
	"testing"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// figures count the faults of a load, so that a run without interruptions does not pass as proof.
type figures struct {
	kills         int
	acked         int // answers 2xx
	duplicates    int // the "duplicate" ones among them
	unavailable   int // answers 503
	cutDeliveries int // deliveries whose connection ended before the answer
	cutSends      int // requests at the destination whose connection ended before the answer

	// Counted at the end.
	events    int
	unheard   int // claims whose answer "ok" was lost: every answer was "duplicate"
	requests  int // at the destination
	taken     int // requests that it answered 2xx, or took before it cut the connection
	again     int // events taken more than once
	neverSent int // attempts whose request did not reach the destination
}

// check waits until all work is finished, and compares the database and the destination with the
// acknowledged events. The load has finished.
func (l *load) check() figures {
	t := l.t
	t.Helper()
	session := l.world.db.open(t)
	message := l.world.db.table("message")
	eventually.True(t, "no message is open", func() bool {
		return number(t, session, `SELECT count(*) FROM `+message+` WHERE state IN (0, 1)`) == 0
	})

	l.mu.Lock()
	defer l.mu.Unlock()
	stored := readStored(t, session, l.world.db)
	for id := range stored {
		if l.events[id] == nil {
			t.Errorf("%s is in the database, but was never delivered", id)
		}
	}
	for id, ev := range l.events {
		got, found := stored[id]
		switch {
		case !ev.acked: // reported when its sender gave up
		case !found:
			t.Errorf("%s was acknowledged, but is not in the database", id)
		case got.state != "done" || got.sum != ev.sum:
			t.Errorf("%s: state %s, the right body: %t", id, got.state, got.sum == ev.sum)
		case len(ev.keys) != 1 || ev.accepted == 0:
			t.Errorf("%s is done, but the destination took it %d times, under the webhook-ids %v", id, ev.accepted, ev.keys)
		}
	}
	f := l.sum()
	t.Logf("%+v", f)
	return f
}

// sum completes the figures and returns them. The caller holds the mutex.
func (l *load) sum() figures {
	f := l.figures
	f.events = len(l.events)
	for _, ev := range l.events {
		f.requests += ev.requests
		f.taken += ev.accepted
		f.neverSent += max(0, ev.attempt-ev.requests)
		if ev.accepted > 1 {
			f.again++
		}
		if ev.acked && ev.claimed == 0 {
			f.unheard++
		}
	}
	return f
}

// storedEvent is the part of a stored event that a check compares.
type storedEvent struct {
	state string
	sum   [sha256.Size]byte
}

// readStored reads all events with one query from the view for users.
func readStored(t testing.TB, session *sql.DB, db *database) map[string]storedEvent {
	t.Helper()
	rows, err := session.Query(`SELECT source, event_id, state, body FROM ` + db.table("events"))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	all := make(map[string]storedEvent)
	for rows.Next() {
		var source, id, state string
		var body []byte
		if err := rows.Scan(&source, &id, &state, &body); err != nil {
			t.Fatal(err)
		}
		if _, twice := all[id]; twice || source != "github" {
			t.Errorf("%s of %s is in the database twice, or its source delivered nothing", id, source)
		}
		all[id] = storedEvent{state, sha256.Sum256(body)}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// killAtLeast repeats a kill so many times, and then until the faults have happened that the kills are for. A
// run that is void after many more kills ends.
func (l *load) killAtLeast(times int, faults func(figures) map[string]int, kill func()) {
	l.t.Helper()
	missing := func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return slices.Contains(slices.Collect(maps.Values(faults(l.sum()))), 0)
	}
	for l.figures.kills < times || missing() && l.figures.kills < 100+10*times {
		kill()
	}
}

// mustHave fails the test as void if a fault that it is about never happened.
func mustHave(t testing.TB, happened map[string]int) {
	t.Helper()
	for what, n := range happened {
		if n == 0 {
			t.Errorf("the run is void, because this never happened: %s", what)
		}
	}
}

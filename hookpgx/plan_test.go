package hookpgx_test

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/internal/test/group"
)

const (
	planEvents = 60_000 // events and messages in the tables
	fewEvents  = 10_000 // the same, where the planner needs no more to use the indexes
	planRare   = 40     // rows, or more, in each of the rarer states
	// planRows is the most rows of one table that a statement may read: far more than it should,
	// and far fewer than there are.
	planRows = 1500
)

// TestPlans fills tables, and has the server log the plans of statements.
func TestPlans(t *testing.T) {
	group.Need(t, "plans")
	t.Parallel()
	t.Run("Statements", plansOfStatements)
	t.Run("Listings", plansOfListings)
	t.Run("Groups", plansOfGroups)
	t.Run("Figures", plansOfFigures)
	t.Run("Work", plansOfWork)
	t.Run("Lines", plansOfLines)
	t.Run("Pruning", plansOfPruning)
	t.Run("Kept", keptPlans)
	if group.Long() {
		t.Run("States", plansOfStates)
		t.Run("WithoutStatistics", plansWithoutStatistics)
		t.Run("KeptOfMessages", keptPlansOfMessages)
	}
}

// plansOfStatements runs statements on large tables. None may read a whole table. Without one of the indexes everything
// still works, and gets slower with every event.
func plansOfStatements(t *testing.T) {
	t.Parallel()
	w, plans := openExplained(t, nil)
	fill(t, w)
	known, dead := newClaim("known", "billing"), newClaim("dead", "billing")
	w.mustClaim(t, true, known)
	w.mustClaim(t, true, dead)
	w.exec(t, "UPDATE {schema}.message SET state = 3, failed_at = now() WHERE event_key = $1", dead.Key[:])
	letters := &driver.DeadLetterParams{Letters: []driver.DeadLetterRef{{Key: dead.Key, MessageID: dead.Messages[0].ID}}}
	middle := driver.Cursor{At: time.Now().Add(-planEvents / 2 * time.Second), Key: known.Key}

	for _, c := range []struct {
		name string
		run  func() error
	}{
		{"claim", func() error {
			batch := []driver.Claim{known}
			for i := range 200 {
				batch = append(batch, newClaim(fmt.Sprint("new ", i), "billing"))
			}
			_, err := w.Claim(t.Context(), claimOf(sortedClaims(batch...)...))
			return err
		}},
		{"new dead letters", func() error {
			_, err := w.NewDead(t.Context(), &driver.NewDeadParams{
				Destinations: []string{"to-billing", "to-audit"}, Sources: []string{"stripe"},
				Since: time.Now().Add(-time.Minute), Until: time.Now().Add(time.Minute),
			})
			return err
		}},
		{"hurry", func() error {
			_, err := w.HurryMessages(t.Context(), &driver.HurryParams{Destination: "to-billing", Limit: 100})
			return err
		}},
		{"the last failures", func() error {
			_, err := w.Failures(t.Context(), []string{"to-billing", "nobody"}, 10)
			return err
		}},
		{"due destinations", func() error {
			due, err := w.DueDestinations(t.Context(), []string{"to-billing", "nobody"})
			if len(due) != 1 {
				t.Errorf("DueDestinations: got %q", due)
			}
			return err
		}},
		{"lease and complete", func() error {
			leased, err := w.Lease(t.Context(), &driver.LeaseParams{Destination: "to-billing", Limit: 100, For: time.Hour, MaxAttempts: 3})
			if err != nil {
				return err
			}
			if len(leased.Messages) < planRare/2 {
				t.Errorf("leased %d messages", len(leased.Messages))
			}
			p := allSent(leased)
			_, err = w.Complete(t.Context(), p)
			return err
		}},
		{"reopen", func() error {
			_, _, err := w.Reopen(t.Context(), &driver.ReopenParams{Keys: []driver.Key{known.Key, dead.Key}})
			w.exec(t, "UPDATE {schema}.message SET state = 3, failed_at = now() WHERE event_key = $1", dead.Key[:])
			return err
		}},
		{"replay dead letters", func() error {
			done, err := w.ReplayDead(t.Context(), letters)
			if len(done) != 1 || !done[0] {
				t.Errorf("ReplayDead: got %v", done)
			}
			w.exec(t, "UPDATE {schema}.message SET state = 3, failed_at = now() WHERE event_key = $1", dead.Key[:])
			return err
		}},
		{"discard", func() error { _, err := w.Discard(t.Context(), letters); return err }},
		{"retry", func() error {
			return w.RetryMessage(t.Context(), &driver.RetryMessageParams{ID: dead.Messages[0].ID})
		}},
		{"replay", func() error {
			w.exec(t, "UPDATE {schema}.message SET state = 3 WHERE event_key = $1", dead.Key[:])
			_, err := w.Replay(t.Context(), &driver.ReplayParams{Key: dead.Key, Mode: driver.ReplayAsNew, RequestID: "once"})
			return err
		}},
		{"event by id", func() error { _, err := w.Event(t.Context(), "stripe", "known"); return err }},
		{"stats", func() error { _, err := w.Stats(t.Context()); return err }},
		{"backlog", measure(t, w, 50)},
		{"events", listEvents(t, w, &driver.EventFilter{}, 50)},
		{"events by id", listEvents(t, w, &driver.EventFilter{Source: "stripe", ID: "known"}, 1)},
		{"events that are pending", listEvents(t, w, &driver.EventFilter{State: driver.StatePending}, planRare)},
		{"events that are running", listEvents(t, w, &driver.EventFilter{State: driver.StateRunning}, planRare)},
		{"events that are dead", listEvents(t, w, &driver.EventFilter{State: driver.StateDead}, 50)},
		{"events that are skipped", listEvents(t, w, &driver.EventFilter{State: driver.StateSkipped}, 50)},
		{"events that are dead, further", listEvents(t, w, &driver.EventFilter{State: driver.StateDead, After: middle}, 1)},
		{"events that were discarded", listEvents(t, w, &driver.EventFilter{Note: driver.NoteDiscarded}, planRare)},
		{"dead letters", listLetters(t, w, &driver.MessageFilter{}, 50)},
		{"dead letters, further", listLetters(t, w, &driver.MessageFilter{After: middle}, 1)},
		{"dead letters of an event", listLetters(t, w, &driver.MessageFilter{Source: "stripe", EventID: "evt_2"}, 0)},
		{"messages", listMessages(t, w, &driver.MessageFilter{}, 50)},
		{"messages, further", listMessages(t, w, &driver.MessageFilter{After: middle}, 50)},
		{"messages by id", listMessages(t, w, &driver.MessageFilter{MessageID: known.Messages[0].ID}, 1)},
		{"messages of an event", listMessages(t, w, &driver.MessageFilter{Source: "stripe", EventID: "known"}, 1)},
		{"messages that are pending", listMessages(t, w, &driver.MessageFilter{Destination: "to-audit", State: driver.StatePending}, planRare/2)},
		{"messages that are being sent", listMessages(t, w, &driver.MessageFilter{State: driver.StateSending}, planRare)},
		{"messages that are dead", listMessages(t, w, &driver.MessageFilter{Destination: "to-billing", State: driver.StateDead}, planRare)},
		{"messages that are skipped", listMessages(t, w, &driver.MessageFilter{State: driver.StateSkipped}, planRare)},
	} {
		plans.bound(t, c.name, c.run)
	}

	// A destination died long ago, and none since.
	w.exec(t, "UPDATE {schema}.message SET state = 3, failed_at = now() WHERE received_at < now() - $1::int * interval '1 second'", planEvents*2/3)
	w.exec(t, "VACUUM ANALYZE {schema}.message")
	plans.bound(t, "backlog with many dead letters", measure(t, w, 200))
	plans.bound(t, "many old dead letters", listLetters(t, w, &driver.MessageFilter{}, 50))
	plans.bound(t, "many old dead messages", listMessages(t, w, &driver.MessageFilter{State: driver.StateDead, After: middle}, 50))
}

// keptPlans claims in a session that planned its statements on nearly empty tables. It keeps
// the plans, and they must be good for large tables too.
func keptPlans(t *testing.T) {
	t.Parallel()
	w, plans := openExplained(t, &hookpgx.Options{ReceiveConns: 1})
	w.mustClaim(t, true, newClaim("first", "billing"))
	analyze(t, w) // the server sees tables of one page
	w.mustClaim(t, true, newClaim("second", "billing"))
	w.mustClaim(t, false, newClaim("second", "billing"))
	mostlyKnown := claimOf(newClaim("second", "billing"))
	mostlyKnown.MostlyKnown = true
	if _, err := w.Claim(t.Context(), mostlyKnown); err != nil {
		t.Fatal(err)
	}
	insertEvents(t, w, fewEvents)
	w.exec(t, "UPDATE {schema}.message SET state = 3 WHERE state = 2") // a destination died
	plans.bound(t, "claim", func() error {
		var batch []driver.Claim
		for i := range 200 {
			batch = append(batch, newClaim(fmt.Sprint("new ", i), "billing"))
		}
		_, err := w.Claim(t.Context(), claimOf(sortedClaims(batch...)...))
		return err
	})
	for _, mostlyKnown := range []bool{false, true} {
		name := fmt.Sprintf("claim of duplicates (mostly known: %v)", mostlyKnown)
		duplicates := func() error {
			var batch []driver.Claim
			for i := range 200 {
				c := newClaim(fmt.Sprint("evt_", i+1), "billing")
				c.Key = sha256.Sum256([]byte(fmt.Sprint(i + 1)))
				batch = append(batch, c)
			}
			p := claimOf(sortedClaims(batch...)...)
			p.MostlyKnown = mostlyKnown
			results, err := w.Claim(t.Context(), p)
			for i := range results {
				if results[i].Claimed {
					t.Errorf("%s: one was claimed", name)
				}
			}
			return err
		}
		plans.bound(t, name, duplicates)
		// The count of rows does not show an index that is read whole because its first column is
		// not bound.
		for _, plan := range plans.of(t, duplicates) {
			if plan.Plan.uses("message_dead_received") {
				t.Errorf("%s reads the whole index on dead messages, in the order of their time, for each", name)
			}
		}
	}
}

// uses reports whether the node or one below it reads an index.
func (n *planNode) uses(index string) bool {
	return n.Index == index || slices.ContainsFunc(n.Plans, func(below planNode) bool { return below.uses(index) })
}

// plansOfStates lists events by states with many events, which walks the events, and by states
// with a few old ones.
func plansOfStates(t *testing.T) {
	t.Parallel()
	w, plans := openExplained(t, nil)
	fill(t, w)
	for _, c := range []struct {
		state  string
		number int
	}{{driver.StateRunning, 0}, {driver.StateSkipped, 4}, {driver.StateDead, 3}} {
		w.exec(t, "UPDATE {schema}.message SET state = $1 WHERE received_at > now() - $2::int * interval '1 second'", c.number, planEvents/2)
		w.exec(t, "VACUUM ANALYZE {schema}.message")
		if c.number == 0 {
			for _, untried := range []bool{false, true} {
				plans.bound(t, fmt.Sprint("lease of many, untried: ", untried), leaseTen(t, w, untried))
			}
			plans.bound(t, "destinations with many due messages", func() error {
				_, err := w.DueDestinations(t.Context(), []string{"to-billing"})
				return err
			})
			plans.bound(t, "backlog of many", measure(t, w, 200))
		}
		f := &driver.EventFilter{State: c.state}
		plans.boundOf(t, "event", "many that are "+c.state, listEvents(t, w, f, 50))
		f.After = driver.Cursor{At: time.Now().Add(-planEvents / 4 * time.Second)}
		plans.boundOf(t, "event", "further of many that are "+c.state, listEvents(t, w, f, 50))
	}

	w.exec(t, "UPDATE {schema}.message SET state = 2")
	w.exec(t, "UPDATE {schema}.event_state SET state = 2")
	const few = 20
	for _, c := range []struct {
		state           string
		message, queued int
		atLeast         int
	}{
		{driver.StatePending, 2, 0, few},
		{driver.StateRunning, 1, 1, 2 * few},
		{driver.StateDead, 3, 3, 2 * few},
		{driver.StateSkipped, 4, 4, 2 * few},
	} {
		const oldest = " IN (SELECT key FROM {schema}.event WHERE work = $2 ORDER BY received_at LIMIT $3)"
		w.exec(t, "UPDATE {schema}.message SET state = $1 WHERE event_key"+oldest, c.message, 0, few)
		w.exec(t, "UPDATE {schema}.event_state SET state = $1 WHERE key"+oldest, c.queued, 1, few)
		w.exec(t, "VACUUM ANALYZE {schema}.message")
		w.exec(t, "VACUUM ANALYZE {schema}.event_state")
		plans.bound(t, "few old ones that are "+c.state, listEvents(t, w, &driver.EventFilter{State: c.state}, c.atLeast))
	}
}

// plansWithoutStatistics measures a backlog that arose so fast that the server knows nothing of
// it: it expects few rows of a name, and would sort all.
func plansWithoutStatistics(t *testing.T) {
	t.Parallel()
	w, plans := openExplained(t, nil)
	insertMany(t, w)
	w.exec(t, "UPDATE {schema}.message SET state = 3 WHERE state = 2")
	plans.bound(t, "backlog of the dead", measure(t, w, 200))
	w.exec(t, "UPDATE {schema}.message SET state = 0")
	w.exec(t, "UPDATE {schema}.event_state SET state = 0")
	plans.bound(t, "backlog of the living", measure(t, w, 200))
	w.exec(t, "UPDATE {schema}.message SET state = 2 WHERE get_byte(event_key, 0) > 20")
	plans.bounded(t, "open events", listEvents(t, w, &driver.EventFilter{State: driver.StateRunning}, 50))
	plans.bounded(t, "open messages", listMessages(t, w, &driver.MessageFilter{State: driver.StatePending}, 50))
}

// measure measures the backlog of names with and without work.
func measure(t *testing.T, w *world, limit int) func() error {
	return func() error {
		b, err := w.Backlog(t.Context(), &driver.BacklogParams{
			Sources: []string{"stripe", "none"}, Destinations: []string{"to-billing", "to-audit", "none"}, Limit: limit,
		})
		if err == nil && (b.Sources["stripe"].Open == 0 || b.Destinations["to-audit"].Open == 0) {
			t.Errorf("the backlog is %+v, want some work of stripe and to-audit", b)
		}
		return err
	}
}

func leaseTen(t *testing.T, w *world, untried bool) func() error {
	return func() error {
		p := &driver.LeaseParams{Destination: "to-audit", Limit: 10, For: time.Hour, MaxAttempts: 3, Untried: untried}
		leased, err := w.Lease(t.Context(), p)
		if err == nil && len(leased.Messages) != p.Limit {
			t.Errorf("leased %d messages, want %d", len(leased.Messages), p.Limit)
		}
		return err
	}
}

func listEvents(t *testing.T, w *world, f *driver.EventFilter, atLeast int) func() error {
	return func() error {
		page, err := w.Events(t.Context(), f)
		if err == nil && len(page.Events) < atLeast {
			t.Errorf("Events of %+v: got %d, want %d or more", f, len(page.Events), atLeast)
		}
		return err
	}
}

func listLetters(t *testing.T, w *world, f *driver.MessageFilter, atLeast int) func() error {
	return func() error {
		page, err := w.DeadLetters(t.Context(), f)
		if err == nil && len(page.DeadLetters) < atLeast {
			t.Errorf("DeadLetters of %+v: got %d, want %d or more", f, len(page.DeadLetters), atLeast)
		}
		return err
	}
}

func listMessages(t *testing.T, w *world, f *driver.MessageFilter, atLeast int) func() error {
	return func() error {
		page, err := w.Messages(t.Context(), f)
		if err == nil && len(page.Messages) < atLeast {
			t.Errorf("Messages of %+v: got %d, want %d or more", f, len(page.Messages), atLeast)
		}
		return err
	}
}

// fill writes events, one per second. Most are done, and a few of each other state are spread over
// all of them.
func fill(t *testing.T, w *world) {
	t.Helper()
	insertMany(t, w)
	analyze(t, w)
}

func analyze(t *testing.T, w *world) {
	t.Helper()
	for _, table := range []string{"event", "event_state", "message"} {
		w.exec(t, "VACUUM ANALYZE {schema}."+table)
	}
}

// insertMany is fill without updating the server's statistics.
func insertMany(t *testing.T, w *world) {
	t.Helper()
	insertEvents(t, w, planEvents)
}

// insertEvents is insertMany with n events.
func insertEvents(t *testing.T, w *world, n int) {
	t.Helper()
	w.exec(t, `
		INSERT INTO {schema}.event (key, source, event_id, type, received_at, headers, body, body_sha256, work)
		SELECT sha256(i::text::bytea), 'stripe', 'evt_' || i, 'thing.happened', now() - i * interval '1 second',
			'{}', 'body', sha256(i::text::bytea), CASE WHEN i % 10 = 0 THEN 1 ELSE 0 END
		FROM generate_series(1, $1::int) i`, n)
	w.exec(t, `
		INSERT INTO {schema}.event_state (key, source, type, state, received_at, due_at, failed_at, note, signature)
		SELECT sha256(i::text::bytea), 'stripe', 'thing.happened', s, now() - i * interval '1 second', now(), CASE s WHEN 3 THEN now() END, CASE s WHEN 4 THEN $2::text ELSE '' END,
			CASE s WHEN 3 THEN {schema}.error_signature(NULL) END
		FROM generate_series(10, $1::int, 10) i
		CROSS JOIN LATERAL (SELECT CASE WHEN i % $3::int < 50 THEN (i % $3::int) / 10 ELSE 2 END AS s) s`,
		n, driver.NoteDiscarded, n/planRare)
	w.exec(t, `
		INSERT INTO {schema}.message (id, event_key, generation, route, destination, state, received_at, due_at, created_at, failed_at, note)
		SELECT 'msg_' || i, sha256(i::text::bytea), 0, 'billing', CASE i / $3::int % 2 WHEN 0 THEN 'to-audit' ELSE 'to-billing' END,
			s, now() - i * interval '1 second', now() - interval '1 second', now(), CASE s WHEN 3 THEN now() END, CASE s WHEN 4 THEN $2::text ELSE '' END
		FROM generate_series(1, $1::int) i
		CROSS JOIN LATERAL (SELECT CASE WHEN i % $3::int BETWEEN 101 AND 109 THEN (i % $3::int - 100) / 2 ELSE 2 END AS s) s
		WHERE i % 10 > 0`,
		n, driver.NoteDiscarded, n/planRare)
}

package hookpgx_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/group"
)

// plansOfGroups lists error groups and the letters of a group among many dead letters, and has the
// server log the plans. None may read or sort all of them, whether or not the statistics include them.
func plansOfGroups(t *testing.T) {
	t.Parallel()
	for name, fill := range map[string][]string{
		"analysed":            {"rows", "VACUUM"},
		"analysed when empty": {"VACUUM", "rows"},
	} {
		if name != "analysed when empty" && !group.Long() { // the harder one for the planner
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, plans := openExplained(t, nil)
			for _, table := range []string{"event", "event_state", "message", "history", "job"} {
				w.exec(t, "ALTER TABLE {schema}."+table+" SET (autovacuum_enabled = off)")
			}
			for _, step := range fill {
				fillGroups(t, w, step, 10_000, 200)
			}
			for _, c := range groupPlanCases(t, w) {
				plans.bound(t, c.name, c.run)
			}
		})
	}
}

// fillGroups writes dead messages to one destination in a number of groups, half as many dead events in
// as many groups, and some that were discarded by one operation.
func fillGroups(t *testing.T, w *world, step string, rows, groups int) {
	t.Helper()
	if step == "VACUUM" {
		for _, table := range []string{"event", "event_state", "message", "history", "job"} {
			w.exec(t, "VACUUM ANALYZE {schema}."+table)
		}
		return
	}
	now := time.Now()
	w.exec(t, `INSERT INTO {schema}.event (key, source, event_id, type, received_at, headers, body, body_sha256, work)
		SELECT sha256(i::text::bytea), 'shop', 'evt_' || i, '', $1::timestamptz - i * interval '1 second', '{}', '{}', sha256(''), (i % 3 = 0)::int
		FROM generate_series(1, $2::int) i`, now, rows)
	// The groups differ in letters, because words with digits do not count.
	const text = `'failed with ' || translate((i % $3::int)::text, '0123456789', 'ghijklmnop') || ' of ' || i`
	w.exec(t, `INSERT INTO {schema}.message (id, event_key, generation, route, destination, state, received_at, due_at, created_at, failed_at, last_error)
		SELECT 'msg_' || i, sha256(i::text::bytea), 0, 'r', 'billing', 3, $1::timestamptz - i * interval '1 second', $1, $1,
			$1::timestamptz - i * interval '1 second', `+text+`
		FROM generate_series(1, $2::int) i WHERE i % 3 <> 0`, now, rows, groups)
	w.exec(t, `INSERT INTO {schema}.event_state (key, source, type, state, due_at, failed_at, last_error, signature)
		SELECT sha256(i::text::bytea), 'shop', '', 3, $1, $1::timestamptz - i * interval '1 second', `+text+`, {schema}.error_signature(`+text+`)
		FROM generate_series(1, $2::int) i WHERE i % 3 = 0`, now, rows, groups)
	w.exec(t, `INSERT INTO {schema}.history (event_key, at, action, generation, message_id, operation)
		SELECT sha256(i::text::bytea), $1, 'discarded', 0, 'msg_' || i, 'op_' || i % 40 FROM generate_series(1, $2::int) i`, now, rows)
	w.exec(t, `INSERT INTO {schema}.job (id, subject, action, mode, rate, filter, plan, state, leased_until, created_at)
		SELECT 'job_' || i, '', '', '', '', '', '', 2, $1, $1::timestamptz - i * interval '1 second' FROM generate_series(1, 1000) i`, now)
}

func groupPlanCases(t *testing.T, w *world) []planCase {
	t.Helper()
	groups := func(f driver.GroupFilter, want int) func() error {
		return func() error {
			page, err := w.ErrorGroups(t.Context(), &f)
			if err == nil && len(page.Groups) != want {
				err = fmt.Errorf("%d groups, want %d", len(page.Groups), want)
			}
			return err
		}
	}
	letters := func(f driver.MessageFilter, want int) func() error {
		return func() error {
			page, err := w.DeadLetters(t.Context(), &f)
			if err == nil && len(page.DeadLetters) != want {
				err = fmt.Errorf("%d letters, want %d", len(page.DeadLetters), want)
			}
			return err
		}
	}
	return []planCase{
		{"a page of groups", groups(driver.GroupFilter{Limit: 5}, 5)},
		{"a page of groups of a destination", groups(driver.GroupFilter{Destination: "billing", Limit: 5}, 5)},
		{"a page of groups of events", groups(driver.GroupFilter{Source: "shop", Limit: 5}, 5)},
		{"one group", groups(driver.GroupFilter{Destination: "billing", Signature: "failed with h of #"}, 1)},
		{"the letters of a group", letters(driver.MessageFilter{Destination: "billing", Signature: "failed with h of #", Limit: 10}, 10)},
		{"discards", func() error { _, err := w.Discards(t.Context(), "op_7"); return err }},
		{"looking for a job", func() error {
			_, err := w.TakeJob(t.Context(), &driver.TakeJobParams{Owner: "test", For: time.Second})
			return err
		}},
		{"a page of jobs", func() error { _, err := w.Jobs(t.Context(), &driver.JobFilter{Limit: 5}); return err }},
		{"undoing", func() error {
			_, err := w.Undiscard(t.Context(), &driver.UndiscardParams{Operation: "op_7", Limit: 20})
			return err
		}},
	}
}

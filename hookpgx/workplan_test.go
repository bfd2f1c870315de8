package hookpgx_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/group"
)

const (
	planBacklog = 15_000 // due events of another source, earlier than all others
	planOwn     = 300    // due events of each kind
)

// plansOfWork takes and finishes events behind a backlog of another source, and has the server
// log the plans. None may read the backlog, whether or not the statistics include it.
func plansOfWork(t *testing.T) {
	t.Parallel()
	for name, fill := range map[string][]string{
		"analysed":             {"backlog", "stripe", "VACUUM"},
		"analysed before":      {"stripe", "VACUUM", "backlog"},
		"analysed when empty":  {"VACUUM", "stripe", "backlog"},
		"analysed without any": {"backlog", "VACUUM", "stripe"},
	} {
		if name != "analysed when empty" && !group.Long() { // the hardest for the planner
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, plans := openExplained(t, nil)
			for _, table := range []string{"event", "event_state", "message"} {
				w.exec(t, "ALTER TABLE {schema}."+table+" SET (autovacuum_enabled = off)")
			}
			for _, step := range fill {
				fillWork(t, w, step)
			}
			for _, c := range workPlanCases(t, w, plans) {
				plans.bound(t, c.name, c.run)
			}
		})
	}
}

type planCase struct {
	name string
	run  func() error
}

func workPlanCases(t *testing.T, w *world, plans *explained) []planCase {
	t.Helper()
	runs := func(tried bool, n int) func() error {
		return func() error {
			run, err := w.Take(t.Context(), takeOf(n, tried))
			if err != nil || run == nil || len(run.Events()) != n {
				return errors.Join(err, fmt.Errorf("took %v", run))
			}
			object := driver.ObjectVersion{Object: driver.ObjectKey("stripe", "", "x"), Version: []byte("1")}
			if _, _, err := run.Versions(t.Context(), []driver.Key{object.Object}); err != nil {
				return err
			}
			p := succeeded(run)
			p.Versions = append(p.Versions, object)
			return run.Finish(t.Context(), p)
		}
	}
	return []planCase{
		{"fresh", runs(false, 50)},
		{"tried", runs(true, 50)},
		{"by key", func() error {
			p := takeOf(10, true)
			p.Keys = []driver.Key{newClaim("nothing").Key}
			_, err := w.Take(t.Context(), p)
			return err
		}},
		{"failed", func() error {
			run, err := w.Take(t.Context(), takeOf(1, false))
			if err != nil {
				return err
			}
			return run.Finish(t.Context(), outcome(run, driver.WorkFailed, "no"))
		}},
		{"abandoned", func() error {
			run, err := w.Take(t.Context(), takeOf(1, false))
			if err != nil {
				return err
			}
			return run.Abandon(t.Context())
		}},
		{"due sources", func() error {
			due, err := w.DueSources(t.Context(), []string{"stripe", "nobody"})
			if len(due) != 1 || !due[0].Fresh || !due[0].Tried {
				t.Errorf("DueSources: got %+v", due)
			}
			return err
		}},
		{"reserve", func() error {
			events, err := w.Reserve(t.Context(), &driver.ReserveParams{Source: "stripe", Types: []string{"thing.*"}, Limit: 10, For: time.Hour})
			if len(events) != 10 {
				t.Errorf("reserved %d events, want 10", len(events))
			}
			p := &driver.FinishParams{}
			for i := range events {
				p.Results = append(p.Results, driver.WorkResult{
					Key: events[i].Key, Outcome: driver.WorkRetry, ReservedUntil: events[i].DueAt,
				})
			}
			return errors.Join(err, w.RecordReserved(t.Context(), p))
		}},
		{"sweep", func() error { return w.sweepOneOf(t) }},
		{"pull back", func() error {
			_, _, err := w.PullBack(t.Context(), &driver.PullBackParams{
				Sources: []string{"stripe", "nobody"}, Destinations: []string{"to-billing", "nobody"}, Limit: 100,
			})
			return err
		}},
		{"claim and run", func() error {
			c := newClaim("inline", "billing")
			c.Work = driver.WorkDone
			run, _, err := w.TakeClaim(t.Context(), claimOf(c))
			if err != nil {
				return err
			}
			return run.Abandon(t.Context())
		}},
		{"enqueue", func() error {
			return pgx.BeginFunc(t.Context(), plans.pool, func(tx pgx.Tx) error {
				return w.EnqueueTx(t.Context(), tx, []driver.OutboxMessage{{
					ID: fmt.Sprint("m", time.Now().UnixNano()), Destination: "crm", Source: "stripe", EventID: "inline", Cause: newClaim("inline").Key,
				}})
			})
		}},
		{"messages of an event", listMessages(t, w, &driver.MessageFilter{Source: "stripe", EventID: "inline"}, 1)},
		{"fail by id", failInSQL(t, w, plans)},
		{"event by id", func() error { _, err := w.Event(t.Context(), "stripe", manyColons); return err }},
	}
}

// manyColons is an event id with as many colons as are looked up by key: it stands for 1,024 keys.
const manyColons = "a:b:c:d:e:f:g:h:i:j:k"

// failInSQL fails an event in SQL, by its source and its id.
func failInSQL(t *testing.T, w *world, plans *explained) func() error {
	t.Helper()
	w.queue(t, manyColons)
	return func() error {
		_, err := plans.pool.Exec(t.Context(), "SELECT "+w.schema+".fail('stripe', $1, 'no')", manyColons)
		return err
	}
}

// sweepOneOf interrupts a run, and sweeps.
func (w *world) sweepOneOf(t *testing.T) error {
	t.Helper()
	run := w.take(t, 2, false)
	w.kill(t, run)
	lost, err := w.SweepRuns(t.Context(), sweepOf())
	if len(lost) != 2 {
		t.Errorf("SweepRuns: got %+v, want two events", lost)
	}
	return err
}

// fillWork performs one step: it writes the backlog of another source, or the few fresh and tried
// events that are due much later, or it analyzes the tables.
func fillWork(t *testing.T, w *world, step string) {
	t.Helper()
	from, n := 1, planBacklog
	switch step {
	case "VACUUM":
		for _, table := range []string{"event", "event_state", "message"} {
			w.exec(t, "VACUUM ANALYZE {schema}."+table)
		}
		return
	case "stripe":
		from, n = planBacklog+1, 2*planOwn
	}
	w.exec(t, `
		INSERT INTO {schema}.event (key, source, event_id, type, received_at, headers, body, body_sha256, work)
		SELECT sha256(i::text::bytea), $3::text, 'evt_' || i, 'thing.happened', now() - interval '1 day',
			'{}', 'body', sha256(i::text::bytea), 1
		FROM generate_series($1::int, $1::int + $2::int - 1) i`, from, n, step)
	w.exec(t, `
		INSERT INTO {schema}.event_state (key, source, type, due_at, attempts)
		SELECT sha256(i::text::bytea), $3::text, 'thing.happened', now() - interval '1 day' + i * interval '1 millisecond', i % 2
		FROM generate_series($1::int, $1::int + $2::int - 1) i`, from, n, step)
}

package jobs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// TestLettersThatAllAreRefused takes a right away for a while. A job of each kind waits, and fails no letter, whether it changes
// one in a step or all.
func TestLettersThatAllAreRefused(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]driver.JobSpec{
		"discard": {Action: driver.JobDiscard}, "discard slowly": {Action: driver.JobDiscard, Rate: "10"}, "undo": {Action: driver.JobUndo},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, dsn, schema := openPostgres(t)
			all := die(t, store, "e", 12)
			_, log, _ := run(t, store)
			sel, state := driver.JobSelection{Source: "shop"}, driver.StateSkipped
			if spec.Action == driver.JobUndo {
				sel, state = discarded(t, store), driver.StateDead
			}
			refuseLetters(t, dsn, schema)
			start(t, store, "job_1", spec, sel)
			eventually.True(t, "the job has been tried twice, or ended", func() bool {
				return strings.Count(log.Text(), "no right") > 1 || isEnded(job(t, store, "job_1"))
			})
			execute(t, dsn, schema, "DROP FUNCTION {schema}.refuse() CASCADE")
			got := until(t, store, "job_1", isEnded)
			if got.State != driver.JobDone || got.Done != 12 || got.Failed != 0 {
				t.Errorf("the job is %+v, want 12 done", got)
			}
			if spec.Action == driver.JobDiscard {
				wantOnce(t, store, all, driver.ActionDiscarded, "job_1")
			}
			for i := range all {
				if ev, err := store.Event(t.Context(), "shop", all[i].EventID); err != nil || ev.State != state {
					t.Errorf("%s is %s, error %v; want it %s", all[i].EventID, ev.State, err, state)
				}
			}
		})
	}
}

// TestUndoTwice undoes an operation whose letters are partly refused for a reason that may concern all. So does a second
// job, which finds the others dead already.
func TestUndoTwice(t *testing.T) {
	t.Parallel()
	store, dsn, schema := openPostgres(t)
	all := die(t, store, "e", 12)
	run(t, store)
	sel := discarded(t, store)
	refuseLetters(t, dsn, schema, all[5], all[6])
	for i, want := range []driver.Job{{Done: 10, Failed: 2}, {Skipped: 10, Failed: 2}} {
		id := fmt.Sprint("job_", i)
		start(t, store, id, driver.JobSpec{Action: driver.JobUndo}, sel)
		got := until(t, store, id, isEnded)
		if got.State != driver.JobDone || got.Done != want.Done || got.Skipped != want.Skipped || got.Failed != want.Failed {
			t.Errorf("undo %d: %+v, want %d done, %d skipped and %d failed", i, got, want.Done, want.Skipped, want.Failed)
		}
	}
}

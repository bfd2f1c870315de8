package hookpgx_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/driver"
)

// On a pool of the caller, the server may compile plans that look expensive. A statement that turns off plans may leave
// one that only looks so, and to compile that takes a third of a second each time.
func TestCallersPoolCompilesNothing(t *testing.T) {
	t.Parallel()
	w, plans := openExplained(t, nil)
	w.queue(t, "evt_1", "evt_2")
	pruned := plans.of(t, func() error {
		_, err := w.Prune(t.Context(), &driver.PruneParams{DedupeWindow: time.Minute, Retention: time.Minute})
		return err
	})
	if n := compiled(pruned); n > 0 || len(pruned) == 0 {
		t.Errorf("the server has compiled %d of %d plans, want none of some", n, len(pruned))
	}
	cheap := plans.of(t, func() error {
		return pgx.BeginFunc(t.Context(), plans.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), "SET LOCAL jit_above_cost = 0"); err != nil {
				return err
			}
			_, err := tx.Exec(t.Context(), "SELECT count(*) FROM "+w.schema+".event")
			return err
		})
	})
	if w.number(t, "SELECT pg_jit_available()::int") == 1 && compiled(cheap) == 0 {
		t.Error("the test does not notice that the server compiles a plan")
	}
}

// compiled counts the plans that the server has compiled.
func compiled(plans []explainedPlan) (n int) {
	for _, plan := range plans {
		if plan.JIT != nil {
			n++
		}
	}
	return n
}

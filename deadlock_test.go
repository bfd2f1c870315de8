package hookonce_test

import (
	"context"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce"
)

// Batches that lock rows of the user's in different orders deadlock. That is
// nobody's failure: no attempt is counted, and each event takes effect once.
func TestDeadlocksBetweenBatches(t *testing.T) {
	t.Parallel()
	l := onPGX(t)
	mux := &hookonce.Mux[pgx.Tx]{}
	lock := "SELECT pg_advisory_xact_lock(hashtext(current_database()), $1)"
	hookonce.Handle(mux, "gh", "push", func(ctx context.Context, tx pgx.Tx, ev *hookonce.Event) error {
		numbers := []int{1, 2, 3}
		if ev.ID[len(ev.ID)-1]%2 == 0 {
			slices.Reverse(numbers)
		}
		for _, n := range numbers {
			if _, err := tx.Exec(ctx, lock, n); err != nil {
				return err
			}
		}
		return l.insert(ctx, tx, ev.ID)
	})
	in := inbox(t, l, mux, func(c *hookonce.Config) { c.Workers, c.Batch = 4, 1 })
	deliverAll(t, in, ids(16)...)
	running(t, in)
	for _, id := range ids(16) {
		wantOutcome(t, l, id, done)
	}
	wantEffects(t, l, ids(16)...)
}

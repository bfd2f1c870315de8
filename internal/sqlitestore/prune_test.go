package sqlitestore

import (
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// A step after those for events fails in each pass. Events are looked at again nevertheless, and the turn is given
// back, whatever the clock does later.
func TestPruneThatFailsLate(t *testing.T) {
	t.Parallel()
	store := storeWith(t, &faults{})
	c := newClaim("old")
	c.Messages = nil
	if _, err := store.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{c}}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.writer.ExecContext(t.Context(), `ALTER TABLE hookonce_job RENAME TO job_away`); err != nil {
		t.Fatal(err)
	}
	result, err := store.Prune(t.Context(), &driver.PruneParams{
		DedupeWindow: time.Microsecond, Retention: time.Microsecond, Background: true, Now: time.Now().Add(time.Minute),
	})
	if err == nil || result == nil || result.Events != 1 || !result.Further {
		t.Errorf("removed %+v, error %v; want one event and an error", result, err)
	}
	var ended int
	if err := store.reader.QueryRowContext(t.Context(), `SELECT count(*) FROM hookonce_prune_turn
		WHERE until = 0 AND json_extract(state, '$.since') IS NULL AND json_extract(state, '$.next') IS NOT NULL`).Scan(&ended); err != nil || ended != 1 {
		t.Errorf("the turn lasts, or the look at everything counts as unfinished: %v", err)
	}
}

package sqlitestore

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/pruning"
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
	if _, err := store.writer.ExecContext(t.Context(), `ALTER TABLE hookonce_refused RENAME TO refused_away`); err != nil {
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

// A trigger ends each transaction that removes an event of one source. Those of other sources, and bodies, are removed.
func TestPruneBehindAFailingWalk(t *testing.T) {
	t.Parallel()
	store := storeWith(t, &faults{})
	for i := range 10 {
		c := newClaim(fmt.Sprint("evt_", i))
		c.Messages = nil
		if i%2 == 0 {
			c.Source, c.Key = "shop", driver.EventKey("shop", c.EventID)
		}
		if _, err := store.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{c}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.writer.ExecContext(t.Context(), `CREATE TRIGGER cut BEFORE DELETE ON hookonce_event
		WHEN old.source <> 'shop' BEGIN SELECT RAISE(ROLLBACK, 'cut'); END`); err != nil {
		t.Fatal(err)
	}
	got, err := store.Prune(t.Context(), &driver.PruneParams{
		DedupeWindow: 2 * time.Hour, Retention: time.Hour, Now: time.Now().Add(48 * time.Hour),
		Sources: map[string]driver.SourceWindows{"shop": {DedupeWindow: time.Hour, Retention: time.Hour}},
	})
	if err == nil || got.Events != 5 || got.Bodies != 5 {
		t.Errorf("Prune: %+v, error %v; want 5 events and 5 bodies removed, and the error", got, err)
	}
}

// A pass that is cut among the bodies leaves a mark, so that the next one goes on there. Otherwise passes that find more
// unfinished events than they can look at would never come to an end.
func TestCutPassOverBodiesLeavesAMark(t *testing.T) {
	t.Parallel()
	store := storeWith(t, &faults{})
	begin := time.Now().Add(-time.Hour).Truncate(time.Second)
	for i := range 10 {
		c := newClaim(fmt.Sprint("evt_", i))
		c.Messages = nil
		p := &driver.ClaimParams{Claims: []driver.Claim{c}, Now: begin.Add(time.Duration(i) * time.Second)}
		if _, err := store.Claim(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.writer.ExecContext(t.Context(), `CREATE TRIGGER cut BEFORE UPDATE OF body ON hookonce_event
		WHEN old.event_id = 'evt_7' BEGIN SELECT RAISE(ROLLBACK, 'cut'); END`); err != nil {
		t.Fatal(err)
	}
	_, err := store.Prune(t.Context(), &driver.PruneParams{
		DedupeWindow: 24 * time.Hour, Retention: time.Minute, Background: true, Chunk: 3, Now: time.Now(),
	})
	if err == nil {
		t.Fatal("the pass was not cut")
	}
	var text string
	if err := store.reader.QueryRowContext(t.Context(), `SELECT state FROM hookonce_prune_turn`).Scan(&text); err != nil {
		t.Fatal(err)
	}
	var state pruning.State
	if err := json.Unmarshal([]byte(text), &state); err != nil {
		t.Fatal(err)
	}
	if got, want := state.Bodies[""], begin.Add(5*time.Second); !got.Equal(want) {
		t.Errorf("the mark is at %s, want that of the last step before, %s", got, want)
	}
}

package hookpgx_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// TestPrunePastRefusals has a trigger that refuses to remove the rows of one event, by codes that say nothing of a row. All
// others are removed. If the trigger refuses each event by a code that may concern all, the walk ends soon.
func TestPrunePastRefusals(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"UX001", "42501", "53400", "57014", "55P03", "XX001"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			w := open(t, nil)
			var all []driver.Claim
			for i := range 50 {
				all = append(all, newClaim(fmt.Sprint("evt_", i)))
			}
			if _, err := w.Claim(t.Context(), claimOf(sortedClaims(all...)...)); err != nil {
				t.Fatal(err)
			}
			w.refuseDeletes(t, code, "OLD.event_id = 'evt_3'")
			p := &driver.PruneParams{Background: true, DedupeWindow: time.Hour, Retention: time.Hour, Now: time.Now().Add(48 * time.Hour)}
			if got, err := w.Prune(t.Context(), p); err == nil || got.Events != 49 {
				t.Errorf("Prune: %+v, error %v; want 49 removed, and the refusal", got, err)
			}
			w.mustClaim(t, false, all[3])
			var again []driver.Claim
			for i := range 200 {
				again = append(again, newClaim(fmt.Sprint("more_", i)))
			}
			if _, err := w.Claim(t.Context(), claimOf(sortedClaims(again...)...)); err != nil {
				t.Fatal(err)
			}
			w.exec(t, `CREATE TRIGGER refuse_all BEFORE DELETE ON {schema}.event FOR EACH ROW EXECUTE FUNCTION {schema}.refuse(); SELECT setval('{schema}.refusals', 1)`)
			p.Now = p.Now.Add(2 * time.Hour) // the next look at everything
			if got, err := w.Prune(t.Context(), p); err == nil || got.Events != 0 {
				t.Errorf("Prune while the trigger refuses all: %+v, error %v", got, err)
			}
			// A code of a trigger's own is of the row: no walk ends.
			if n := w.number(t, "SELECT last_value FROM {schema}.refusals"); n > 60 && code != "UX001" {
				t.Errorf("the trigger refused %d times", n)
			}
		})
	}
}

const mayBeAll = "42501" // a code that may concern all rows

// refuseDeletes makes events that a condition on OLD names stay, and counts the attempts to remove them.
func (w *world) refuseDeletes(t *testing.T, code, condition string) {
	t.Helper()
	w.exec(t, `CREATE SEQUENCE {schema}.refusals; -- no rollback undoes its count
		CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		PERFORM nextval('{schema}.refusals'); RAISE EXCEPTION 'not this one' USING ERRCODE = '`+code+`'; END $$;
		CREATE TRIGGER refuse BEFORE DELETE ON {schema}.event FOR EACH ROW WHEN (`+condition+`) EXECUTE FUNCTION {schema}.refuse()`)
}

// TestPrunePastOpenEvents has refused events behind others that are unfinished. Only the refused ones count.
func TestPrunePastOpenEvents(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	w.refuseDeletes(t, mayBeAll, "OLD.event_id LIKE 'refused%'")
	for i := range 3 {
		var unfinished []driver.Claim
		for j := range 15 {
			unfinished = append(unfinished, newClaim(fmt.Sprint("open_", i, "_", j), "billing"))
		}
		if _, err := w.Claim(t.Context(), claimOf(sortedClaims(unfinished...)...)); err != nil {
			t.Fatal(err)
		}
		w.mustClaim(t, true, newClaim(fmt.Sprint("refused_", i)))
	}
	w.mustClaim(t, true, newClaim("last"))
	p := &driver.PruneParams{DedupeWindow: time.Hour, Retention: time.Hour, Now: time.Now().Add(48 * time.Hour)}
	if got, err := w.Prune(t.Context(), p); err == nil || got.Events != 1 {
		t.Errorf("Prune: %+v, error %v; want the last event removed, and the refusal", got, err)
	}
}

// TestPrunePastManyOfOneTime has 50 refused events that were received together, and another one behind them. A later pass removes it, and
// no pass tries many of the others, also beside a walk that is held in the same way.
func TestPrunePastManyOfOneTime(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	w.refuseDeletes(t, mayBeAll, "OLD.event_id LIKE 'refused%'")
	for _, source := range []string{"stripe", "shop"} {
		of := func(id string) driver.Claim {
			c := newClaim(id)
			c.Source, c.Key = source, driver.EventKey(source, id)
			return c
		}
		var refused []driver.Claim
		for i := range 50 {
			refused = append(refused, of(fmt.Sprint("refused_", i)))
		}
		if _, err := w.Claim(t.Context(), claimOf(sortedClaims(refused...)...)); err != nil {
			t.Fatal(err)
		}
		w.mustClaim(t, true, of("last"))
	}
	removed := int64(0)
	for i := range 3 {
		p := &driver.PruneParams{
			Background: true, DedupeWindow: time.Hour, Retention: time.Hour, Now: time.Now().Add(48 * time.Hour),
			Sources: map[string]driver.SourceWindows{"shop": {DedupeWindow: 2 * time.Hour, Retention: time.Hour}},
		}
		w.exec(t, "SELECT setval('{schema}.refusals', 1)")
		got, err := w.Prune(t.Context(), p)
		if err == nil && i == 0 {
			t.Error("Prune does not tell of the refusals")
		}
		removed += got.Events
		if n := w.number(t, "SELECT last_value FROM {schema}.refusals"); n > 60 {
			t.Errorf("pass %d: %d attempts for two walks", i, n)
		}
	}
	if removed != 2 {
		t.Errorf("removed %d events, want the two that are not refused", removed)
	}
}

// TestPruneOnce has more refused events in front of another one than a pass in the background passes over. A call of an operator
// removes that one and counts the others, each time, and ends if it finds none to remove.
func TestPruneOnce(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	w.refuseDeletes(t, mayBeAll, "OLD.event_id LIKE 'refused%'")
	claim := func(n int) {
		t.Helper()
		var refused []driver.Claim
		for i := range n {
			refused = append(refused, newClaim(fmt.Sprint("refused_", n, "_", i)))
		}
		if _, err := w.Claim(t.Context(), claimOf(sortedClaims(refused...)...)); err != nil {
			t.Fatal(err)
		}
	}
	claim(45)
	w.mustClaim(t, true, newClaim("behind"))
	prune := func(events int64, want string) {
		t.Helper()
		p := &driver.PruneParams{DedupeWindow: time.Hour, Retention: 72 * time.Hour, Now: time.Now().Add(48 * time.Hour)}
		got, err := w.Prune(t.Context(), p)
		if err == nil || !strings.Contains(err.Error(), want) || got.Events != events {
			t.Errorf("Prune: %+v, error %v; want %d removed, and %q", got, err, events, want)
		}
	}
	prune(1, "refuses to remove: 45;")
	prune(0, "refuses to remove: 45;")
	claim(1000)
	prune(0, "it ends behind 1000 refusals in a row")
}

// TestPruneBehindAFailingWalk has a source whose events are all refused. Those of other sources, and bodies, are removed.
func TestPruneBehindAFailingWalk(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	w.refuseDeletes(t, mayBeAll, "OLD.source = 'stripe'")
	var all []driver.Claim
	for i := range 60 {
		c := newClaim(fmt.Sprint("evt_", i))
		if i%2 == 0 {
			c.Source, c.Key = "shop", driver.EventKey("shop", c.EventID)
		}
		all = append(all, c)
	}
	if _, err := w.Claim(t.Context(), claimOf(sortedClaims(all...)...)); err != nil {
		t.Fatal(err)
	}
	p := &driver.PruneParams{
		DedupeWindow: time.Hour, Retention: time.Hour, Now: time.Now().Add(48 * time.Hour),
		Sources: map[string]driver.SourceWindows{"stripe": {DedupeWindow: 2 * time.Hour, Retention: time.Hour}}, // so it goes first
	}
	if got, err := w.Prune(t.Context(), p); !errors.Is(err, driver.ErrRefused) || got.Events != 30 || got.Bodies != 30 {
		t.Errorf("Prune: %+v, error %v; want 30 events and 30 bodies removed, and the refusal", got, err)
	}
}

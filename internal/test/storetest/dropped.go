package storetest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hookonce/hookonce/driver"
)

// DropRow returns SQL that creates a trigger on one of the tables event, event_state and message. The
// trigger drops the rows of one event, without an error. {schema} stands for the PostgreSQL schema.
func DropRow(table string, key driver.Key) (postgres, sqlite string) {
	column := "key"
	if table == "message" {
		column = "event_key"
	}
	postgres = fmt.Sprintf(`
CREATE FUNCTION {schema}.drop_%[1]s() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER drop_%[1]s BEFORE INSERT ON {schema}.%[1]s
	FOR EACH ROW WHEN (NEW.%[2]s = '\x%[3]x'::bytea) EXECUTE FUNCTION {schema}.drop_%[1]s();`, table, column, key)
	sqlite = fmt.Sprintf(`CREATE TRIGGER drop_%[1]s BEFORE INSERT ON hookonce_%[1]s WHEN NEW.%[2]s = x'%[3]x'
		BEGIN SELECT RAISE(IGNORE); END`, table, column, key)
	return postgres, sqlite
}

// claimDropped has a trigger that drops one row of an event. The event is neither claimed nor a
// duplicate; the other claims are as they would be without it.
func claimDropped(f *fixture) {
	for i, table := range []string{"event", "event_state", "message"} {
		dropped, other, known := newQueued("dropped "+table, "audit"), newQueued("other "+table, "audit"), newQueued("known "+table, "audit")
		f.claimNew(t0, known)
		f.with.Drop(f.T, f.s, table, dropped.Key)
		p := &driver.ClaimParams{Claims: sorted(dropped, other, known), Now: t0}
		want := map[driver.Key]driver.ClaimResult{other.Key: {Claimed: true}, known.Key: {Duplicate: true}, dropped.Key: {}}
		results, err := f.s.Claim(f.Context(), p)
		switch {
		case errors.Is(err, driver.ErrNotStored): // nothing was claimed
			f.absent("stripe", "other "+table)
			same(f, "claims without it", []driver.ClaimResult{{Claimed: true}, {Duplicate: true}}, f.claim(t0, other, known))
		case err != nil:
			f.Fatalf("Claim while a trigger drops rows of %s: %v", table, err)
		default:
			for j, got := range results {
				same(f, "result of "+p.Claims[j].EventID, want[p.Claims[j].Key], got)
			}
		}
		results, err = f.s.Claim(f.Context(), &driver.ClaimParams{Claims: []driver.Claim{dropped}, Now: t0})
		if !errors.Is(err, driver.ErrNotStored) && (err != nil || results[0].Settled()) {
			f.Errorf("claim alone while a trigger drops rows of %s: %+v, error %v; want it unsettled, or %v", table, results, err, driver.ErrNotStored)
		}
		f.absent("stripe", "dropped "+table)
		found, err := f.s.ForeignTriggers(f.Context())
		if err != nil || len(found) != i+1 || !strings.Contains(strings.Join(found, "\n"), "trigger drop_"+table+" on ") {
			f.Errorf("ForeignTriggers: %q, error %v, want %d, with drop_%s", found, err, i+1, table)
		}
	}
}

// takeClaimDropped is claimDropped for claims in the transaction of the work.
func takeClaimDropped[T any](w *bench[T]) {
	for _, table := range []string{"event", "event_state", "message"} {
		c := newInline("dropped "+table, "audit")
		w.h.Drop(w.T, w.d, table, c.Key)
		run, got, err := w.d.TakeClaim(w.Context(), claimParams(t0, true, c))
		if !errors.Is(err, driver.ErrNotStored) || run != nil {
			w.Errorf("TakeClaim while a trigger drops rows of %s: run %v, result %+v, error %v", table, run, got, err)
		}
		tx, _, rollback := w.h.Begin(w.T, w.d)
		if got, err := w.d.ClaimTx(w.Context(), tx, claimParams(t0, true, c)); !errors.Is(err, driver.ErrNotStored) {
			w.Errorf("ClaimTx while a trigger drops rows of %s: results %+v, error %v", table, got, err)
		}
		w.ok("rollback", rollback())
		w.absent("stripe", c.EventID)
	}
}

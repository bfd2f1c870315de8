package hookpgx_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/driver"
)

// TestPlainClaimOfDroppedState has a trigger that drops the state row of an event. Nothing is claimed with
// it, and none of its rows is stored.
func TestPlainClaimOfDroppedState(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	dropped, other := newQueued("dropped"), newQueued("other")
	w.drop(t, "event_state", dropped.Key)
	for _, batch := range [][]driver.Claim{{dropped}, sortedClaims(dropped, other)} {
		if got, err := w.Claim(t.Context(), claimOf(batch...)); !errors.Is(err, driver.ErrNotStored) {
			t.Errorf("Claim of %d events: got %+v and the error %v, want %v", len(batch), got, err, driver.ErrNotStored)
		}
	}
	if n := w.number(t, "SELECT count(*) FROM {schema}.event"); n != 0 {
		t.Errorf("%d events are stored, want none", n)
	}
	w.mustClaim(t, true, other)
}

// TestPlainClaimWithARule has a rule of the database's owner on event_state. PostgreSQL refuses the plain
// statement then, on sessions that have prepared it and on others. The claim function goes on.
func TestPlainClaimWithARule(t *testing.T) {
	t.Parallel()
	w := openWatched(t)
	w.mustClaim(t, true, newQueued("before"))
	w.wantPath(t, "before", false, 1)
	w.exec(t, `
CREATE TABLE {schema}.copied (key bytea);
CREATE RULE copy_state AS ON INSERT TO {schema}.event_state DO ALSO INSERT INTO {schema}.copied VALUES (NEW.key);`)
	w.mustClaim(t, true, newQueued("by the first"))
	w.second(t).mustClaim(t, true, newQueued("by the second"))
	w.wantPath(t, "with a rule", true, 2)
	if n := w.number(t, "SELECT count(*) FROM {schema}.copied"); n != 2 {
		t.Errorf("the rule has copied %d rows, want 2", n)
	}
}

// TestPlainClaimOutlivesTheFunction has an event whose row is dropped. The plain statement commits the other
// events, and the claim function then fails: it refuses the event, or its result contradicts itself.
func TestPlainClaimOutlivesTheFunction(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*testing.T, *world){
		"fails": func(t *testing.T, w *world) {
			w.exec(t, `
CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not by this function'; END $$;
CREATE TRIGGER a_refuse BEFORE INSERT ON {schema}.event
	FOR EACH ROW WHEN (current_query() LIKE '%.claim(%') EXECUTE FUNCTION {schema}.refuse();`)
		},
		"leaves its result out": func(t *testing.T, w *world) {
			var text string
			if err := w.pool.QueryRow(t.Context(), "SELECT pg_get_functiondef((SELECT oid FROM pg_proc WHERE proname = 'claim' AND pronamespace = $1::regnamespace))", w.schema).Scan(&text); err != nil {
				t.Fatal(err)
			}
			const before, after = "IF NOT guarded AND n_claimed = n THEN", "IF true THEN"
			if !strings.Contains(text, before) {
				t.Fatalf("the claim function is without %q", before)
			}
			w.exec(t, strings.Replace(text, before, after, 1))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := open(t, nil)
			dropped, other := newQueued("dropped"), newQueued("other")
			w.drop(t, "event", dropped.Key)
			spoil(t, w)
			batch := sortedClaims(dropped, other)
			got, err := w.Claim(t.Context(), claimOf(batch...))
			if err != nil {
				t.Fatalf("Claim: %v, want the result of the event that was committed", err)
			}
			for i := range batch {
				if want := batch[i].EventID == "other"; got[i].Claimed != want || got[i].Settled() != want {
					t.Errorf("Claim of %s: got %+v", batch[i].EventID, got[i])
				}
			}
		})
	}
}

package hookpgx_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/driver"
)

// TestLeasePastRefusals has a trigger that refuses to change two messages beside one another, by codes that say nothing of a
// row. All others are leased, and the two are named. If the trigger refuses each message, none is named.
func TestLeasePastRefusals(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"UX001", "57014", "0A000", "42501", "55P03", "XX000", "P0004"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			w := open(t, nil)
			var refused, others, want []string
			for i := range 9 {
				c := newClaim(fmt.Sprint("evt_", i), "billing")
				w.mustClaim(t, true, c)
				if i == 3 || i == 4 {
					refused = append(refused, c.Messages[0].ID)
				} else {
					others, want = append(others, c.EventID), append(want, c.EventID)
				}
			}
			w.exec(t, `CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				RAISE EXCEPTION 'not this one' USING ERRCODE = '`+code+`'; END $$;
				CREATE TRIGGER refuse BEFORE UPDATE ON {schema}.message FOR EACH ROW
				WHEN (OLD.id IN ('`+refused[0]+`', '`+refused[1]+`')) EXECUTE FUNCTION {schema}.refuse()`)
			p := &driver.LeaseParams{Destination: "to-billing", Limit: 10, For: time.Minute, MaxAttempts: 9}
			var leased, named []string
			for range 10 {
				got, err := w.Lease(t.Context(), p)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range got.Messages {
					leased = append(leased, m.EventID)
					done := driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent}
					if _, err := w.Complete(t.Context(), &driver.CompleteParams{Completions: []driver.Completion{done}}); err != nil {
						t.Fatal(err)
					}
				}
				for _, m := range got.Refused {
					named, p.Skip = append(named, m.ID), append(p.Skip, m.ID)
				}
			}
			slices.Sort(leased)
			slices.Sort(named)
			slices.Sort(refused)
			if !slices.Equal(leased, want) || !slices.Equal(named, refused) {
				t.Errorf("leased %q of %q, and named %q, want %q", leased, others, named, refused)
			}

			w.mustClaim(t, true, newClaim("late_1", "billing"))
			w.mustClaim(t, true, newClaim("late_2", "billing"))
			w.exec(t, `CREATE TRIGGER refuse_all BEFORE UPDATE ON {schema}.message FOR EACH ROW EXECUTE FUNCTION {schema}.refuse()`)
			p.Skip = nil
			// A code of a trigger's own is of the row, whatever other rows do.
			if got, err := w.Lease(t.Context(), p); !slices.Contains([]string{"UX001", "XX000", "P0004"}, code) && err == nil {
				t.Errorf("Lease while the trigger refuses all: %+v, want an error", got)
			}
		})
	}
}

// TestLeaseNamesTheRightOnes has messages at the front that are refused for a reason that may concern all: beside one with a fault of
// its own, and so many that a lease does not pass over them. It names those that are refused for sure, and leases the last message.
func TestLeaseNamesTheRightOnes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name              string
		own, unsure, good int
		named             int
	}{
		{"one of its own, and two", 1, 2, 0, 1},
		{"one of its own, and one", 1, 1, 0, 2},
		{"25 before a good one", 0, 25, 1, 20},
		{"two", 0, 2, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := open(t, nil)
			w.exec(t, `CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				IF NEW.route LIKE 'own%' THEN RAISE EXCEPTION 'not this one' USING ERRCODE = 'UX001'; END IF;
				RAISE EXCEPTION 'not this one' USING ERRCODE = '42501'; END $$;
				CREATE TRIGGER refuse BEFORE UPDATE ON {schema}.message FOR EACH ROW WHEN (NEW.route NOT LIKE 'good%') EXECUTE FUNCTION {schema}.refuse()`)
			for name, n := range map[string]int{"own": tt.own, "unsure": tt.unsure, "good": tt.good} {
				for i := range n {
					c := newClaim(fmt.Sprint(name, i), name)
					c.Messages[0].Destination = "app"
					w.mustClaim(t, true, c)
				}
			}
			w.exec(t, `ALTER TABLE {schema}.message DISABLE TRIGGER refuse;
				UPDATE {schema}.message SET due_at = now() - CASE route WHEN 'own' THEN interval '3 s' WHEN 'unsure' THEN interval '2 s' ELSE interval '1 s' END;
				ALTER TABLE {schema}.message ENABLE TRIGGER refuse`)
			p := &driver.LeaseParams{Destination: "app", Limit: 10, For: time.Minute, MaxAttempts: 9}
			named := map[string]bool{}
			leased := 0
			for range 5 {
				got, err := w.Lease(t.Context(), p)
				if err != nil { // the reason may concern all of the others
					if !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), "42501") {
						t.Errorf("Lease: the error is %v, want that of the trigger", err)
					}
					break
				}
				leased += len(got.Messages)
				for _, m := range got.Refused {
					named[m.ID], p.Skip = true, append(p.Skip, m.ID)
				}
				if leased == tt.good && leased > 0 {
					break
				}
			}
			if leased != tt.good || len(named) != tt.named {
				t.Errorf("leased %d and named %d, want %d and %d", leased, len(named), tt.good, tt.named)
			}
		})
	}
}

// claimForSQL claims n events, evt_0 and so on, of the source shop for SQL consumers.
func (w *world) claimForSQL(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		c := newQueued(fmt.Sprint("evt_", i))
		c.Source, c.Key = "shop", driver.EventKey("shop", c.EventID)
		w.mustClaim(t, true, c)
	}
}

// TestTakePastRefusals has a trigger that refuses to mark two events of SQL consumers done. take leaves these two out.
func TestTakePastRefusals(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"57014", "0A000", "42501", "55P03", "53100", "P0004", "ASSERT"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			w := open(t, nil)
			w.claimForSQL(t, 6)
			refusal := `RAISE EXCEPTION 'not this one' USING ERRCODE = '` + code + `'`
			if code == "ASSERT" {
				refusal = `ASSERT false, 'not this one'`
			}
			w.exec(t, `CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN `+refusal+`; END $$;
				CREATE TRIGGER refuse BEFORE UPDATE ON {schema}.event_state FOR EACH ROW
				WHEN (NEW.state = 2 AND NEW.key IN ('\x`+fmt.Sprintf("%x", driver.EventKey("shop", "evt_2"))+`', '\x`+
				fmt.Sprintf("%x", driver.EventKey("shop", "evt_3"))+`')) EXECUTE FUNCTION {schema}.refuse()`)
			wantTaken(t, w, "evt_0", "evt_1", "evt_4", "evt_5")
		})
	}
}

// TestReservePastRefusals has a trigger that refuses to reserve the first two of seven events, and has lost its server at the
// sixth. The others are reserved as far as the limit and the bytes allow, and the two are named.
func TestReservePastRefusals(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"UX001", "42501", "57014", "0A000", "XX000", "XX001"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			w := open(t, nil)
			w.claimForSQL(t, 7)
			w.refuseEvents(t, code, "shop", "evt_0", "evt_1")
			w.exec(t, fmt.Sprintf(`CREATE FUNCTION {schema}.away() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				RAISE EXCEPTION 'not now' USING ERRCODE = '57P01'; END $$;
				CREATE TRIGGER away BEFORE UPDATE ON {schema}.event_state FOR EACH ROW
				WHEN (NEW.key = '\x%x') EXECUTE FUNCTION {schema}.away()`, driver.EventKey("shop", "evt_5")))
			var named []string
			p := &driver.ReserveParams{Source: "shop", Types: []string{"*"}, Limit: 3, For: time.Hour}
			p.Refused = func(e driver.RefusedEvent) { named, p.Skip = append(named, e.EventID), append(p.Skip, e.Key) }
			reserve := func(want ...string) {
				t.Helper()
				events, err := w.Reserve(t.Context(), p)
				var got []string
				for _, e := range events {
					got = append(got, e.EventID)
				}
				if (err != nil) != (want == nil) || !slices.Equal(got, want) {
					t.Errorf("reserved %q, error %v, want %q", got, err, want)
				}
			}
			all := *p
			p.Bytes = 2 * int64(len("{}")+len("body of evt_2"))
			reserve("evt_2", "evt_3")
			if want := []string{"evt_0", "evt_1"}; !slices.Equal(named, want) {
				t.Errorf("named %q, want %q", named, want)
			}
			*p = all
			reserve("evt_4") // the next one finds the server gone
			p.Skip = append(p.Skip, driver.EventKey("shop", "evt_5"))
			reserve("evt_6")
			p.Skip = nil
			w.exec(t, "DROP TRIGGER away ON {schema}.event_state")
			reserve("evt_5")
			p.Skip = nil
			reserve() // the refused ones alone
		})
	}
}

// TestReserveBehindManyRefusals has a trigger that refuses the first 45 of 48 events. The others are reserved, the newest first, and
// with the events left out that were named before, all.
func TestReserveBehindManyRefusals(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"UX001", "42501"} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			w := open(t, nil)
			w.claimForSQL(t, 48)
			var refused []string
			for i := range 45 {
				refused = append(refused, fmt.Sprint("evt_", i))
			}
			w.refuseEvents(t, code, "shop", refused...)
			named := map[string]int{}
			p := &driver.ReserveParams{Source: "shop", Types: []string{"*"}, Limit: 1, For: time.Hour}
			p.Refused = func(e driver.RefusedEvent) { named[e.EventID]++; p.Skip = append(p.Skip, e.Key) }
			var got []string
			for range 3 {
				events, err := w.Reserve(t.Context(), p)
				if err != nil || len(events) != 1 {
					t.Fatalf("reserved %+v, error %v, want one event", events, err)
				}
				got = append(got, events[0].EventID)
			}
			if want := []string{"evt_47", "evt_46", "evt_45"}; !slices.Equal(got, want) || len(named) != 45 {
				t.Errorf("reserved %q and named %d, want %q and 45", got, len(named), want)
			}
		})
	}
}

// refuseEvents has a trigger refuse changes of events.
func (w *world) refuseEvents(t *testing.T, code, source string, ids ...string) {
	t.Helper()
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = fmt.Sprintf(`'\x%x'`, driver.EventKey(source, id))
	}
	w.exec(t, `CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		RAISE EXCEPTION 'not this one' USING ERRCODE = '`+code+`'; END $$;
		CREATE TRIGGER refuse BEFORE UPDATE ON {schema}.event_state FOR EACH ROW
		WHEN (NEW.key IN (`+strings.Join(keys, ",")+`)) EXECUTE FUNCTION {schema}.refuse()`)
}

// TestTakeIsCancelled ends take while a trigger of one event is slow. The cancellation is no fault of a row.
func TestTakeIsCancelled(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	w.claimForSQL(t, 3)
	w.exec(t, `CREATE FUNCTION {schema}.slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(600); RETURN NEW; END $$;
		CREATE TRIGGER slow BEFORE UPDATE ON {schema}.event_state FOR EACH ROW WHEN (NEW.state = 2) EXECUTE FUNCTION {schema}.slow()`)
	tx := w.session(t)
	if _, err := tx.Exec(t.Context(), "SET LOCAL statement_timeout = '200ms'"); err != nil {
		t.Fatal(err)
	}
	rows, err := tx.Query(t.Context(), "SELECT event_id FROM "+w.schema+".take('shop', 10)")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := pgx.CollectRows(rows, pgx.RowTo[string]); err == nil {
		t.Errorf("took %q, want the time-out", got)
	}
}

package hookpgx_test

import (
	"fmt"
	"slices"
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

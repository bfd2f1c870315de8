package sqltest

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/storetest"
)

// take returns the events of some types, and leaves the others alone.
func TestTakeTypes(t *testing.T) {
	t.Parallel()
	w := open(t)
	types := []string{"charge.paid", "charge.failed", "charge_paid", `charge%`, "refund"}
	for i, id := range []string{"a", "b", "c", "d", "e"} {
		c := newClaim("shop", id, "{}")
		c.Type = types[i]
		if err := claim(t.Context(), w.store, c); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		types []string
		want  []string
	}{
		"all":        {nil, []string{"a", "b", "c", "d", "e"}},
		"one":        {[]string{"charge.paid"}, []string{"a"}},
		"two":        {[]string{"charge.paid", "refund"}, []string{"a", "e"}},
		"a pattern":  {[]string{"charge.*"}, []string{"a", "b"}},
		"no pattern": {[]string{"charge%", "charge_"}, []string{"d"}},
		"none fits":  {[]string{"invoice"}, []string{}},
		"no type":    {[]string{}, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := w.connect(t)
			s.run(t, "BEGIN")
			rows, err := s.Query(t.Context(), w.text("SELECT event_id FROM hookonce.take('shop', 10, $1)"), tt.types)
			if err != nil {
				t.Fatal(err)
			}
			got, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				t.Fatal(err)
			}
			s.run(t, "ROLLBACK")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("taken (-want +got):\n%s", diff)
			}
		})
	}
}

// Statements that drop rows of take would make events done without any work on them.
func TestTakeKeepsRows(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.exec(t, "CREATE TABLE hookonce.effect (event_id text)")
	w.put(t, "shop", "a", "b")
	const from = "SELECT event_id FROM hookonce.take('shop', 2)"
	for sql, ok := range map[string]bool{
		from + " WHERE type = 'x'":                       false,
		from + " AS t WHERE t.type = 'x'":                false,
		from + " t\n\twhere t.type = 'x'":                false,
		from + " LIMIT 1":                                false,
		from + " ORDER BY received_at, event_id LIMIT 1": false,
		from + " OFFSET 1":                               false,
		from + " FETCH FIRST ROW ONLY":                   false,
		from + " ORDER BY lower(event_id) LIMIT 1":       false,
		"SELECT id FROM hookonce.take('shop', 2) AS \"t\" (s, id) WHERE id = 'a'": false,
		// The server would call take once for each column.
		"SELECT (hookonce.take('shop', 1)).*":                                                  false,
		"SELECT (hookonce.take('shop', 1)).event_id, (hookonce.take('shop', 1)).body":          false,
		"SELECT hookonce.take('shop', 2) LIMIT 1":                                              false,
		"SELECT EXISTS (" + from + ")":                                                         false,
		"EXPLAIN ANALYZE " + from:                                                              false,
		"INSERT INTO hookonce.effect " + from + " WHERE type = 'x'":                            false,
		"/* a */ EXPLAIN ANALYZE " + from:                                                      false,
		from + " -- all\n WHERE type = 'x'":                                                    false,
		from + "/* a */WHERE type = 'x'":                                                       false,
		"SELECT event_id FROM hookonce.take('shop', 2, string_to_array('a,b', ',')) LIMIT 1":   false,
		"SELECT event_id FROM hookonce.take('shop', CAST('2' AS int)) WHERE type = 'x'":        false,
		"SELECT event_id FROM hookonce.take('shop', 2, ARRAY(SELECT 'x' WHERE true)) OFFSET 1": false,
		from + " WITH ORDINALITY LIMIT 1":                                                      false,
		"SELECT * FROM ROWS FROM (hookonce.take('shop', 2)) LIMIT 1":                           false,
		"(" + from + ") LIMIT 1":                                                               false,
		from + " GROUP BY event_id LIMIT 1":                                                    false,
		from + " UNION SELECT 'x' LIMIT 1":                                                     false,
		"SELECT DISTINCT type FROM hookonce.take('shop', 2)":                                   false,
		from + " EXCEPT SELECT 'a'":                                                            false,
		"SELECT count(*) FROM hookonce.take('shop', 2)":                                        false,
		"SELECT EXISTS (WITH t AS (" + from + ") SELECT FROM t)":                               false,
		"SELECT 'a' IN (" + from + ")":                                                         false,
		"WITH t AS (" + from + ") INSERT INTO hookonce.effect SELECT * FROM t LIMIT 2":         false,
		"DO $$ DECLARE r record; BEGIN FOR r IN SELECT * FROM hookonce.take('shop', 2) LIMIT 1 LOOP NULL; END LOOP; END $$": false,
		from:                           true,
		from + " ORDER BY received_at": true,
		from + " AS t LEFT JOIN hookonce.effect e USING (event_id)":          true,
		"INSERT INTO hookonce.effect " + from:                                true,
		"SELECT event_id FROM hookonce.take('where', 2)":                     true,
		"/* LIMIT 1 */ " + from + " -- WHERE":                                true,
		from + " UNION ALL (" + from + ")":                                   true,
		"SELECT event_id, count(*) OVER () FROM hookonce.take('shop', 2)":    true,
		"SELECT array_agg(event_id), count(*) FROM hookonce.take('shop', 2)": true,
		"SELECT CASE WHEN event_id IN ('a', 'b') THEN 1 END, (SELECT event_id FROM hookonce.effect LIMIT 1) FROM hookonce.take('shop', 2)":                                                    true,
		"WITH t AS (" + from + ") UPDATE hookonce.effect e SET event_id = 'c' FROM t WHERE e.event_id = t.event_id":                                                                           true,
		"INSERT INTO hookonce.effect " + from + " ON CONFLICT DO NOTHING":                                                                                                                     true,
		"SELECT event_id FROM hookonce.take('E''\\', 2)":                                                                                                                                      true,
		"DO $x$ DECLARE r record; BEGIN FOR r IN (SELECT * FROM hookonce.take('shop', 2)) LOOP DELETE FROM hookonce.effect WHERE event_id = r.event_id; END LOOP; PERFORM 1 LIMIT 1; END $x$": true,
	} {
		s := w.connect(t)
		s.run(t, "BEGIN")
		if ok {
			s.run(t, sql)
		} else if refused := s.fails(t, "0A000", sql); !strings.Contains(refused.Hint, "types") {
			t.Errorf("%s: the hint is %q", sql, refused.Hint)
		}
		s.run(t, "ROLLBACK")
	}
	s := w.connect(t)
	s.run(t, "BEGIN")
	s.run(t, "DECLARE c CURSOR FOR "+from)
	s.fails(t, "0A000", "/* a */ FETCH 1 FROM c")
	s.run(t, "ROLLBACK")
	for _, id := range []string{"a", "b"} {
		w.wantState(t, id, state{State: "pending"})
	}
}

// A trigger refuses to make one event done. take leaves it out, and says so.
func TestTakeStepsOver(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.put(t, "shop", "a", "b", "c")
	w.exec(t, strings.ReplaceAll(storetest.RefuseDone(driver.EventKey("shop", "b"), "UX001"), "{schema}", w.schema))
	s := w.connect(t)
	s.run(t, "BEGIN")
	s.wantTake(t, 10, "a", "c")
	s.run(t, "COMMIT")
	if diff := cmp.Diff([]string{`event "b" of source "shop" was not taken: not this one`}, s.warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	w.wantState(t, "b", state{State: "pending"})
	s.run(t, "BEGIN")
	s.wantTake(t, 10)
	s.run(t, "ROLLBACK")
	if len(s.warnings) != 2 {
		t.Errorf("warnings %q, want another one", s.warnings)
	}
}

// fail waits for another consumer that has taken the event meanwhile. Otherwise a consumer that fails fast would lose most
// of its counts to the next take, and the event would have no backoff.
func TestFailWaits(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.put(t, "shop", "a")
	first, second := w.connect(t), w.connect(t)
	second.run(t, "BEGIN")
	second.wantTake(t, 1, "a")
	done := make(chan error, 1)
	go func() {
		for {
			_, err := first.Exec(t.Context(), w.text("SELECT hookonce.fail('shop', 'a', 'x')"))
			if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != lockedRow {
				done <- err
				return
			} // a slow machine: it waits for a second only
		}
	}()
	pid := first.PgConn().PID()
	eventually.True(t, "fail waits", func() bool {
		if len(done) > 0 {
			t.Fatalf("fail did not wait: %v", <-done)
		}
		return get[bool](t, w, "SELECT cardinality(pg_blocking_pids($1::int)) > 0", int(pid))
	})
	second.run(t, "ROLLBACK")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	w.wantState(t, "a", state{State: "pending", Attempts: 1, LastError: "x"})
}

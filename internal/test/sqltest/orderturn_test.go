package sqltest

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// A line is given to another event after take has looked at it, and before take locks the event: take leaves the event out.
func TestTurnEndsBeforeTheLock(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.arrive(t, "a", 5)
	w.exec(t, `DO $do$ BEGIN
		EXECUTE replace(pg_get_functiondef('hookonce.consumer_turn(bytea)'::regprocedure), 'consumer_turn', 'turn');
	END $do$`)
	w.exec(t, `CREATE OR REPLACE FUNCTION hookonce.consumer_turn(key bytea) RETURNS boolean LANGUAGE plpgsql COST 100000 AS $$
		DECLARE answer boolean := hookonce.turn(key);
		BEGIN
			PERFORM pg_advisory_lock_shared(hashtext('hookonce.turn'));
			PERFORM pg_advisory_unlock_shared(hashtext('hookonce.turn'));
			RETURN answer;
		END $$`)
	holder, consumer := w.connect(t), w.connect(t)
	holder.run(t, "SELECT pg_advisory_lock(hashtext('hookonce.turn'))")
	consumer.run(t, "BEGIN")
	got := make(chan []string, 1)
	go func() { got <- consumer.take(t, 1) }()
	pid := consumer.PgConn().PID()
	eventually.True(t, "take waits", func() bool {
		return get[bool](t, w, "SELECT EXISTS (SELECT FROM pg_locks WHERE pid = $1::bigint AND NOT granted)", int64(pid))
	})
	w.exec(t, "UPDATE hookonce.object_version SET sending_id = 'another'")
	holder.run(t, "SELECT pg_advisory_unlock(hashtext('hookonce.turn'))")
	if ids := eventually.Receive(t, "take", got); len(ids) > 0 {
		t.Errorf("took %q, although the line was given to another event", ids)
	}
}

// A refused row of the next event does not keep the one before from being done, nor a later one from arriving.
func TestRefusedNextInLine(t *testing.T) {
	t.Parallel()
	w := open(t)
	s := w.connect(t)
	w.arrive(t, "a", 1, 2)
	w.exec(t, `CREATE FUNCTION hookonce.no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$;
		CREATE TRIGGER no BEFORE UPDATE ON hookonce.event_state FOR EACH ROW WHEN (OLD.due_at = hookonce.parked()) EXECUTE FUNCTION hookonce.no()`)
	s.run(t, "BEGIN")
	s.wantTake(t, 10, "a-1")
	s.run(t, "COMMIT")
	w.exec(t, "DROP TRIGGER no ON hookonce.event_state")
	w.wantStates(t, map[string]string{"a-1": "done", "a-2": "pending"})
	w.sweep(t)
	s.run(t, "BEGIN")
	s.wantTake(t, 10, "a-2")
	s.run(t, "ROLLBACK")
}

// Two calls in one transaction settle their lines at its COMMIT.
func TestTwoTakesInOrder(t *testing.T) {
	t.Parallel()
	w := open(t)
	s := w.connect(t)
	w.arrive(t, "a", 1, 2)
	w.arrive(t, "b", 1, 2)
	s.run(t, "BEGIN")
	got := slices.Concat(s.take(t, 1), s.take(t, 1))
	s.run(t, "COMMIT")
	s.run(t, "BEGIN")
	next := s.take(t, 10)
	slices.Sort(got)
	slices.Sort(next)
	if !slices.Equal(got, []string{"a-1", "b-1"}) || !slices.Equal(next, []string{"a-2", "b-2"}) {
		t.Errorf("took %q, and then %q", got, next)
	}
	if n := get[int](t, w, "SELECT count(*) FROM hookonce.taken_in_line"); n > 0 {
		t.Errorf("%d rows of a committed transaction are left", n)
	}
}

// The sweep waits for no session that makes the row of a line: that one may wait for a line of the sweep.
func TestSweepWaitsForNoNewLine(t *testing.T) {
	t.Parallel()
	w := open(t)
	s, other := w.connect(t), w.connect(t)
	w.arrive(t, "a", 1)
	w.arrive(t, "b", 1)
	w.exec(t, "DELETE FROM hookonce.object_version")
	other.run(t, "BEGIN")
	other.run(t, `INSERT INTO hookonce.object_version (object, source, version, shown, applied_at)
		SELECT line, 'shop', '', '', now() FROM hookonce.ordered_message ORDER BY line DESC LIMIT 1`)
	w.sweep(t)
	s.run(t, "BEGIN")
	if got := s.take(t, 10); len(got) != 1 {
		t.Errorf("took %q beside the line that is made, want one event", got)
	}
	s.run(t, "ROLLBACK")
	other.run(t, "COMMIT")
}

// An event that came while another session had its line, or made or removed the row of the line, is found by the next sweep,
// wherever that one is.
func TestBusyLinesAreSweptFirst(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ busy, end string }{
		"locked":  {"SELECT FROM hookonce.object_version FOR UPDATE", "COMMIT"},
		"removed": {"DELETE FROM hookonce.object_version", "COMMIT"},
		"made": {`INSERT INTO hookonce.object_version (object, source, version, shown, applied_at)
			SELECT line, source, '', '', now() FROM hookonce.ordered_message LIMIT 1`, "ROLLBACK"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := open(t)
			s, other := w.connect(t), w.connect(t)
			sweepElsewhere := func() {
				t.Helper()
				last := driver.Key(bytes.Repeat([]byte{0xff}, len(driver.Key{})))
				if _, _, err := w.store.SweepLines(t.Context(), last, 1); err != nil {
					t.Fatal(err)
				}
			}
			w.arrive(t, "a", 1)
			s.run(t, "BEGIN")
			s.wantTake(t, 10, "a-1")
			s.run(t, "COMMIT")
			if name == "made" {
				w.exec(t, "DELETE FROM hookonce.object_version")
			}
			other.run(t, "BEGIN")
			other.run(t, c.busy)
			w.arrive(t, "a", 2)
			sweepElsewhere() // it is still busy
			other.run(t, c.end)
			sweepElsewhere()
			s.run(t, "BEGIN")
			s.wantTake(t, 10, "a-2")
			s.run(t, "COMMIT")
			if n := get[int](t, w, "SELECT count(*) FROM hookonce.busy_line"); n > 0 {
				t.Errorf("%d busy lines are left", n)
			}
		})
	}
}

// A sweep settles many lines in several transactions: each of them holds its lines until it commits.
func TestSweepsOfManyLines(t *testing.T) {
	t.Parallel()
	w := open(t)
	s, other := w.connect(t), w.connect(t)
	for i := range 300 {
		w.arrive(t, fmt.Sprint(i), 1)
	}
	s.run(t, "BEGIN")
	s.take(t, 300)
	s.run(t, "COMMIT")
	other.run(t, "BEGIN")
	other.run(t, "SELECT FROM hookonce.object_version FOR UPDATE")
	var more []driver.Claim
	for i := range 300 {
		more = append(more, inLine(fmt.Sprint(i), 2, true))
	}
	if err := claim(t.Context(), w.store, more...); err != nil {
		t.Fatal(err)
	}
	other.run(t, "COMMIT")
	var settled []int
	for _, after := range []byte{0xff, 0} { // busy ones alone, and then others
		if _, _, err := w.store.SweepLines(t.Context(), driver.Key(bytes.Repeat([]byte{after}, len(driver.Key{}))), 300); err != nil {
			t.Fatal(err)
		}
		settled = append(settled, get[int](t, w, "SELECT count(*) FROM hookonce.event_state WHERE state = 0 AND due_at <= now()"))
		w.exec(t, "DELETE FROM hookonce.busy_line")
	}
	if !slices.Equal(settled, []int{200, 300}) {
		t.Errorf("%d lines were settled after the two sweeps, want 200 and 300", settled)
	}
	if n := get[int](t, w, "SELECT count(DISTINCT xmin::text) FROM hookonce.event_state WHERE state = 0"); n < 3 {
		t.Errorf("%d transactions settled them, want one for the busy ones, and several for the others", n)
	}
}

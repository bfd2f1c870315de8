package hookpgx_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/storetest"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/group"
)

// wantFreshAgain fails unless an event is pending without an attempt, and runs it.
func (w *world) wantFreshAgain(t *testing.T, id string) {
	t.Helper()
	w.wantEvent(t, id, driver.StatePending, 0)
	run := w.take(t, 10, false)
	if events := run.Events(); len(events) != 1 || events[0].EventID != id || events[0].Crashes != 0 {
		t.Errorf("took %+v, want %s as it was before", events, id)
	}
	if err := run.Finish(t.Context(), succeeded(run)); err != nil {
		t.Error(err)
	}
}

// TestSweepAfterARestore copies the rows of a run to another server, as a dump and a logical
// replica do. There the run's number is in the future. No handler ran there, so the event is due
// again without an attempt, while the first server counts the attempt.
func TestSweepAfterARestore(t *testing.T) {
	t.Parallel()
	w := openWork(t)
	run := w.takeOne(t, "evt_1")
	w.kill(t, run)
	other := connect(t, dbtest.StartServer(t, &dbtest.Options{Stranger: true}).DSN(), strings.Trim(w.schema, `"`), nil)
	if _, err := hookmigrate.Up(t.Context(), other.Store); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"event", "event_state", "run"} {
		copyTable(t, w, other, table)
	}
	lost, err := other.SweepRuns(t.Context(), sweepOf())
	want := []driver.LostRun{{Key: newClaim("evt_1").Key, Source: "stripe", EventID: "evt_1", Type: "thing.happened", Elsewhere: true}}
	if diff := cmp.Diff(want, lost); diff != "" || err != nil {
		t.Errorf("SweepRuns returned the error %v (-want +got):\n%s", err, diff)
	}
	other.wantFreshAgain(t, "evt_1")
	w.wantSwept(t, 1)
	w.wantEvent(t, "evt_1", driver.StatePending, 1)
}

func copyTable(t *testing.T, from, to *world, table string) {
	t.Helper()
	var rows bytes.Buffer
	source, err := from.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer source.Release()
	if _, err := source.Conn().PgConn().CopyTo(t.Context(), &rows, "COPY "+from.schema+"."+table+" TO STDOUT"); err != nil {
		t.Fatal(err)
	}
	target, err := to.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer target.Release()
	if _, err := target.Conn().PgConn().CopyFrom(t.Context(), &rows, "COPY "+to.schema+"."+table+" FROM STDIN"); err != nil {
		t.Fatal(err)
	}
}

// TestSweepOfARecordFromElsewhere sweeps records whose number means nothing here: the event keeps
// its attempts. A committed number would otherwise make it dead.
func TestSweepOfARecordFromElsewhere(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"the number of another transaction": "id = $1, home = '7.5.3'",
		"a future number":                   "id = $1 + (1::bigint << 40), home = '7.5.3'",
		"a future number of this cluster":   "id = $1 + (1::bigint << 40)",
		"no number":                         "id = -($1::bigint)",
		"another database of this cluster":  "id = $1, home = regexp_replace(home, '[.][0-9]+[.]', '.1.')",
		"a table that was made again":       "id = $1, home = regexp_replace(home, '[0-9]+$', '1')",
		"no home":                           "id = $1, home = ''",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := openWork(t)
			run := w.takeOne(t, "evt_1")
			w.kill(t, run)
			committed := w.number(t, "SELECT txid_current()")
			w.exec(t, "UPDATE {schema}.run SET "+change, committed)
			w.wantSwept(t, 1)
			w.wantFreshAgain(t, "evt_1")
		})
	}
}

// TestSweepWithoutTheIdentityOfTheCluster forbids one role to read the identity, and has each of two
// roles sweep the runs of the other one and its own. The database and the table still tell whether a
// record belongs here.
func TestSweepWithoutTheIdentityOfTheCluster(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	w := connect(t, dbtest.StartServer(t, nil).DSN(), "hookonce", nil)
	w.exec(t, "REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
	w.exec(t, "CREATE ROLE app LOGIN PASSWORD 'app'")
	w.exec(t, "GRANT CREATE ON DATABASE postgres TO app")
	config := w.pool.Config()
	config.ConnConfig.User, config.ConnConfig.Password = "app", "app"
	app := connectWith(t, config, "hookonce", nil)
	if _, err := hookmigrate.Up(t.Context(), app.Store); err != nil {
		t.Fatal(err)
	}
	stores := map[string]*world{"with the right": w, "without the right": app}
	for runner, ran := range stores {
		for sweeper, sweeps := range stores {
			t.Run("a run "+runner+", a sweep "+sweeper, func(t *testing.T) {
				id := "of a run " + runner + ", a sweep " + sweeper
				ran.queue(t, id)
				w.kill(t, ran.take(t, 1, false))
				sweeps.wantSwept(t, 1)
				w.wantEvent(t, id, driver.StatePending, 1)
			})
		}
	}
	for what, change := range map[string]string{
		"another database": "home = regexp_replace(home, '[.][0-9]+[.]', '.1.')",
		"another table":    "home = regexp_replace(home, '[0-9]+$', '1')",
		"no home":          "home = ''",
	} {
		t.Run("a record of "+what, func(t *testing.T) {
			id := "a record of " + what
			app.queue(t, id)
			w.kill(t, app.take(t, 1, false))
			w.exec(t, "UPDATE {schema}.run SET "+change)
			app.wantSwept(t, 1)
			app.wantFreshAgain(t, id)
		})
	}
}

// TestSweepGoesOn has the database refuse to remove one record. The sweep deals with the others, and
// names the refused one.
func TestSweepGoesOn(t *testing.T) {
	t.Parallel()
	w := openWork(t)
	for i := range 3 {
		w.kill(t, w.takeOne(t, fmt.Sprint("evt_", i)))
	}
	refused := w.number(t, "SELECT id FROM {schema}.run ORDER BY started_at LIMIT 1")
	w.exec(t, `CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$`)
	w.exec(t, fmt.Sprintf(`CREATE TRIGGER refuse BEFORE DELETE ON {schema}.run FOR EACH ROW WHEN (OLD.id = %d)
		EXECUTE FUNCTION {schema}.refuse()`, refused))
	lost, err := w.SweepRuns(t.Context(), sweepOf())
	if len(lost) != 2 || !errors.Is(err, driver.ErrBadRow) || !strings.Contains(err.Error(), fmt.Sprint("run ", refused)) {
		t.Errorf("SweepRuns: got %+v and the error %v, want two events and an error about run %d", lost, err, refused)
	}
	w.exec(t, "DROP TRIGGER refuse ON {schema}.run")
	w.wantSwept(t, 1)
}

// TestSweepGoesOnBehindManyBadRecords has the database refuse to remove many records, which lie before
// those of a good run. Also an empty record is no obstacle.
func TestSweepGoesOnBehindManyBadRecords(t *testing.T) {
	t.Parallel()
	w := openWork(t)
	w.exec(t, `INSERT INTO {schema}.run (id, keys, started_at) SELECT -n, ARRAY['\x01'::bytea], '2020-01-01' FROM generate_series(1, 1034) n`)
	w.exec(t, `INSERT INTO {schema}.run (id, keys, started_at) VALUES (-2000, '{}', '2020-01-01')`)
	w.exec(t, `CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$`)
	w.exec(t, `CREATE TRIGGER refuse BEFORE DELETE ON {schema}.run FOR EACH ROW WHEN (OLD.id BETWEEN -1034 AND -1)
		EXECUTE FUNCTION {schema}.refuse()`)
	w.kill(t, w.takeOne(t, "evt_1"))
	for range 1034/10 + 1 {
		lost, err := w.SweepRuns(t.Context(), sweepOf())
		if len(lost) == 1 && lost[0].EventID == "evt_1" {
			if n := w.number(t, "SELECT count(*) FROM {schema}.run"); n != 1034 {
				t.Errorf("%d records are left, want the 1034 bad ones", n)
			}
			return
		}
		if len(lost) > 0 || !errors.Is(err, driver.ErrBadRow) {
			t.Fatalf("SweepRuns: got %+v and the error %v, want only an error", lost, err)
		}
	}
	t.Error("the good run was not swept")
}

// TestSweepOfExtremeNumbers sweeps runs with the largest and smallest values that a role with rights
// on the tables can write.
func TestSweepOfExtremeNumbers(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"attempts":        "UPDATE {schema}.event_state SET attempts = 2147483647",
		"crashes":         "UPDATE {schema}.event_state SET crashes = 2147483647",
		"the wait":        "UPDATE {schema}.run SET retry_in = 9223372036854775807",
		"a negative wait": "UPDATE {schema}.run SET retry_in = -9223372036854775808",
		"endless times":   "UPDATE {schema}.event_state SET due_at = 'infinity'",
		"the last number": "UPDATE {schema}.run SET id = 9223372036854775807",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := openWork(t)
			w.kill(t, w.takeOne(t, "evt_1"))
			w.exec(t, change)
			w.wantSwept(t, 1)
			w.wantSwept(t, 0)
		})
	}
	t.Run("the start of a committed run", func(t *testing.T) {
		t.Parallel()
		w := openWork(t)
		run := w.takeOne(t, "evt_1")
		mustDo(t, run, "COMMIT")
		w.kill(t, run)
		w.wantSwept(t, 0)
		w.exec(t, "UPDATE {schema}.run SET started_at = 'infinity'")
		w.wantSwept(t, 1)
		w.wantEvent(t, "evt_1", driver.StateDead, 1)
	})
}

// refuseCommits makes the commit of every transaction fail that changes a table.
func (w *world) refuseCommits(t *testing.T, table string) {
	t.Helper()
	w.exec(t, `CREATE OR REPLACE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not now'; END $$`)
	w.exec(t, fmt.Sprintf(`CREATE CONSTRAINT TRIGGER refuse AFTER INSERT OR UPDATE OR DELETE ON {schema}.%s
		DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.refuse()`, table))
}

// TestRefusedCommits has the commit of a call fail after its statements returned rows. The result
// must not say that something was done.
func TestRefusedCommits(t *testing.T) {
	t.Parallel()
	t.Run("SweepRuns", func(t *testing.T) {
		t.Parallel()
		w := openWork(t)
		w.kill(t, w.takeOne(t, "evt_1"))
		w.refuseCommits(t, "run")
		if lost, err := w.SweepRuns(t.Context(), sweepOf()); len(lost) > 0 || err == nil {
			t.Errorf("SweepRuns returned %+v and the error %v, want only an error", lost, err)
		}
		w.exec(t, "DROP TRIGGER refuse ON {schema}.run")
		w.wantSwept(t, 1)
	})
	t.Run("LearnSecret", func(t *testing.T) {
		t.Parallel()
		w := openWork(t)
		if _, err := w.Arm(t.Context(), &driver.ArmParams{Source: "stripe", For: time.Hour}); err != nil {
			t.Fatal(err)
		}
		w.refuseCommits(t, "learned_secret")
		learned, err := w.LearnSecret(t.Context(), &driver.LearnParams{Source: "stripe", Secret: "whsec_1234567890"})
		if learned || err == nil {
			t.Errorf("LearnSecret returned %v and the error %v, want only an error", learned, err)
		}
	})
	t.Run("SettleQuarantined", func(t *testing.T) {
		t.Parallel()
		w := openWork(t)
		q := driver.Quarantined{Source: "stripe", BodyHash: [32]byte{1}, Headers: []byte("{}"), Reason: "no id"}
		if err := w.Quarantine(t.Context(), &driver.QuarantineParams{Requests: []driver.Quarantined{q}}); err != nil {
			t.Fatal(err)
		}
		page, err := w.Quarantined(t.Context(), &driver.QuarantineFilter{Limit: 1})
		if err != nil || len(page.Requests) != 1 {
			t.Fatalf("the quarantine holds %+v, error %v; want one request", page, err)
		}
		w.refuseCommits(t, "quarantine")
		found, err := w.SettleQuarantined(t.Context(), &driver.SettleQuarantinedParams{Key: page.Requests[0].Key})
		if found || err == nil {
			t.Errorf("SettleQuarantined returned %v and the error %v, want only an error", found, err)
		}
	})
}

// TestSweepFreesTheOthers has an interrupted run of three events, and a trigger that refuses to change one of them. The
// others are due again.
func TestSweepFreesTheOthers(t *testing.T) {
	t.Parallel()
	w := openWork(t)
	w.queue(t, "evt_1", "evt_2", "evt_3")
	w.exec(t, strings.Replace(storetest.RefuseDone(driver.EventKey("stripe", "evt_2"), "P0001"), "NEW.state = 2 AND ", "", 1))
	w.kill(t, w.take(t, 10, false))
	w.wantSwept(t, 2)
	if n := w.number(t, "SELECT count(*)::int FROM {schema}.run"); n != 0 {
		t.Errorf("%d records are left", n)
	}
	var ids []string
	for _, tried := range []bool{false, true} {
		for _, ev := range w.take(t, 10, tried).Events() {
			ids = append(ids, ev.EventID)
		}
	}
	slices.Sort(ids)
	if diff := cmp.Diff([]string{"evt_1", "evt_2", "evt_3"}, ids); diff != "" {
		t.Errorf("due events (-want +got):\n%s", diff)
	}
}

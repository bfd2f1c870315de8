package hookpgx_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/storetest"
)

// TestDeferredConstraints has constraints that are checked at the commit. The run holds its events
// until the failure is recorded, so no sweep takes it for interrupted.
func TestDeferredConstraints(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"foreign key": `CREATE TABLE {schema}.orders (id int PRIMARY KEY);
			ALTER TABLE {schema}.effects ADD COLUMN o int DEFAULT 1 REFERENCES {schema}.orders DEFERRABLE INITIALLY DEFERRED`,
		"trigger": `CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no''; END';
			CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON {schema}.effects DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW EXECUTE FUNCTION {schema}.refuse()`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := openWork(t)
			w.exec(t, sql)
			run := w.takeOne(t, "evt_1")
			mustDo(t, run, "INSERT INTO effects (name) VALUES ('evt_1')")
			if err := run.Check(t.Context(), nil); err != nil {
				t.Errorf("Check: %v", err)
			}
			if err := run.Finish(t.Context(), succeeded(run)); !errors.Is(err, driver.ErrBadRow) || errors.Is(err, driver.ErrCommitUnknown) {
				t.Errorf("Finish: got the error %v, want %v", err, driver.ErrBadRow)
			}
			w.wantSwept(t, 0)
			if err := run.Settle(t.Context(), outcome(run, driver.WorkRetry, "refused")); err != nil {
				t.Errorf("Settle: %v", err)
			}
			w.wantEffects(t)
			w.wantEvent(t, "evt_1", driver.StatePending, 1)
		})
	}
}

// TestKilledBackend ends the server process of a run, before a statement of the handler and before
// the commit.
func TestKilledBackend(t *testing.T) {
	t.Parallel()
	w := openWork(t)
	ends := map[string]func(run driver.Run[pgx.Tx]) error{
		"Settle": func(run driver.Run[pgx.Tx]) error {
			return run.Settle(t.Context(), outcome(run, driver.WorkRetry, "lost"))
		},
		"Abandon": func(run driver.Run[pgx.Tx]) error { return run.Abandon(t.Context()) },
	}
	for name, end := range ends {
		for _, seen := range []bool{true, false} {
			id := name
			if seen {
				id += " seen"
			}
			run := w.takeOne(t, id)
			mustDo(t, run, "INSERT INTO effects VALUES ('lost')")
			w.kill(t, run)
			if seen {
				_, err := run.Tx().Exec(t.Context(), "SELECT 1")
				for _, handlerErr := range []error{err, nil, errors.New("it wrapped nothing")} {
					if got := run.Check(t.Context(), handlerErr); !errors.Is(got, driver.ErrUnavailable) {
						t.Errorf("%s: Check of %v: got the error %v, want %v", id, handlerErr, got, driver.ErrUnavailable)
					}
				}
			}
			if err := run.Finish(t.Context(), succeeded(run)); !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrCommitUnknown) {
				t.Errorf("%s: Finish: got the error %v, want %v", id, err, driver.ErrUnavailable)
			}
			if err := end(run); err != nil {
				t.Errorf("%s: %v", id, err)
			}
			w.wantSwept(t, 0)
			want := map[string]int{"Settle": 1}[name]
			w.wantEvent(t, id, driver.StatePending, want)
			again := w.take(t, 1, want > 0)
			if err := again.Finish(t.Context(), succeeded(again)); err != nil {
				t.Errorf("%s: %v", id, err)
			}
			w.wantEvent(t, id, driver.StateDone, want+1)
		}
	}
	w.wantEffects(t)
}

// TestLostReplyToTheCommit loses the reply to the COMMIT of a run. The commit has happened, and no
// later call may change it.
func TestLostReplyToTheCommit(t *testing.T) {
	t.Parallel()
	direct := open(t, nil)
	direct.exec(t, "CREATE TABLE {schema}.effects (name text)")
	for _, test := range []struct {
		id  string
		cut dbtest.Cut
		end func(t *testing.T, run driver.Run[pgx.Tx]) error
	}{
		{"reset, settled", dbtest.CutReset, settledLate},
		{"silence, settled", dbtest.CutSilence, settledLate},
		{"reset, abandoned", dbtest.CutReset, func(t *testing.T, run driver.Run[pgx.Tx]) error { return run.Abandon(t.Context()) }},
		{"silence, abandoned", dbtest.CutSilence, func(t *testing.T, run driver.Run[pgx.Tx]) error { return run.Abandon(t.Context()) }},
	} {
		t.Run(test.id, func(t *testing.T) {
			proxy := direct.proxy(t)
			w := direct.behind(t, proxy)
			run := w.takeOne(t, test.id)
			mustDo(t, run, "INSERT INTO "+w.schema+".effects VALUES ('"+test.id+"')")
			drop := proxy.DropReply("commit", test.cut)
			err := run.Finish(drop.Context(t), succeeded(run))
			if !errors.Is(err, driver.ErrCommitUnknown) {
				t.Fatalf("Finish: got the error %v, want %v", err, driver.ErrCommitUnknown)
			}
			for _, other := range []error{driver.ErrUnavailable, driver.ErrBadRow, driver.ErrTxAborted, driver.ErrTxEnded, driver.ErrSerialization} {
				if errors.Is(err, other) {
					t.Errorf("the error %v also says %v", err, other)
				}
			}
			eventually.Receive(t, "the server answers", drop.Done())
			if err := test.end(t, run); err != nil {
				t.Error(err)
			}
			proxy.CutAll() // otherwise closing the pool would wait for the silent connection
			direct.wantSwept(t, 0)
			direct.wantEvent(t, test.id, driver.StateDone, 1)
			if n := direct.effects(t)[test.id]; n != 1 {
				t.Errorf("there are %d effects, want 1", n)
			}
		})
	}
}

// settledLate checks that there is nothing left to settle.
func settledLate(t *testing.T, run driver.Run[pgx.Tx]) error {
	t.Helper()
	if err := run.Settle(t.Context(), outcome(run, driver.WorkFailed, "late")); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("Settle: got the error %v, want %v", err, driver.ErrNotFound)
	}
	return nil
}

// TestSilentProcess has a process fall silent in the middle of a run. The server ends its session,
// and a sweep of another process records the interruption once. When the process goes on, it can
// change nothing.
func TestSilentProcess(t *testing.T) {
	t.Parallel()
	w := openWork(t)
	other := w.second(t)
	run := w.takeOne(t, "evt_1")
	mustDo(t, run, "INSERT INTO effects VALUES ('evt_1')")
	other.wantSwept(t, 0)
	pid := run.Tx().Conn().PgConn().PID()
	mustDo(t, run, "SET LOCAL idle_in_transaction_session_timeout = '100ms'") // a minute otherwise
	other.awaitEnd(t, pid)
	other.wantSwept(t, 1)
	w.wantSwept(t, 0)
	other.wantEvent(t, "evt_1", driver.StatePending, 1)

	if err := run.Finish(t.Context(), succeeded(run)); !errors.Is(err, driver.ErrTxAborted) {
		t.Errorf("Finish: got the error %v, want %v", err, driver.ErrTxAborted)
	}
	if err := run.Settle(t.Context(), outcome(run, driver.WorkFailed, "late")); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("Settle: got the error %v, want %v", err, driver.ErrNotFound)
	}
	if err := run.Abandon(t.Context()); err != nil {
		t.Errorf("Abandon: %v", err)
	}
	w.wantEvent(t, "evt_1", driver.StatePending, 1)
	w.wantEffects(t)
	w.wantSwept(t, 0)
	again := other.take(t, 1, true)
	mustDo(t, again, "INSERT INTO effects VALUES ('evt_1')")
	if err := again.Finish(t.Context(), succeeded(again)); err != nil {
		t.Error(err)
	}
	w.wantEffects(t, "evt_1")
	w.wantEvent(t, "evt_1", driver.StateDone, 2)
}

// TestSeverOfAStatement cuts off handlers that do not return, because they wait for a statement
// under a context of their own. The session ends on the server too, so that the outcome can be
// recorded at once, and the pool gets its connections back.
func TestSeverOfAStatement(t *testing.T) {
	t.Parallel()
	w := openWork(t)
	for round := range int(w.pool.Config().MaxConns) + 2 {
		w.queue(t, "evt_1")
		run := w.take(t, 1, round%3 > 0)
		pid := run.Tx().Conn().PgConn().PID()
		returned := make(chan error)
		go func() {
			_, err := run.Tx().Exec(context.WithoutCancel(t.Context()), "SELECT pg_sleep(600)")
			returned <- err
		}()
		w.awaitStatement(t, pid)
		run.Sever()
		var err error
		if round%3 < 2 {
			err = run.Settle(t.Context(), outcome(run, driver.WorkRetry, "hung"))
		} else {
			err = run.Finish(t.Context(), outcome(run, driver.WorkFailed, "hung"))
			if !errors.Is(err, driver.ErrUnavailable) {
				t.Errorf("Finish: got the error %v, want %v", err, driver.ErrUnavailable)
			}
			err = run.Settle(t.Context(), outcome(run, driver.WorkFailed, "hung"))
		}
		if err != nil {
			t.Errorf("round %d: Settle: %v", round, err)
		}
		if err := <-returned; err == nil {
			t.Error("a statement succeeded in a transaction that was cut off")
		}
		w.wantSwept(t, 0)
		if round%3 == 2 {
			w.wantEvent(t, "evt_1", driver.StateDead, 3)
			if _, _, err := w.Reopen(t.Context(), &driver.ReopenParams{Keys: []driver.Key{newClaim("evt_1").Key}}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// awaitStatement waits until the server process sleeps in a statement.
func (w *world) awaitStatement(t testing.TB, pid uint32) {
	t.Helper()
	const sleeping = "SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep'"
	eventually.True(t, "the statement begins", func() bool { return w.number(t, sleeping, pid) > 0 })
}

// TestContextOfAHandler ends the context of a handler in the middle of a statement, which closes
// the connection. That is the handler's failure.
func TestContextOfAHandler(t *testing.T) {
	t.Parallel()
	w := openWork(t)
	for id, passesOver := range map[string]bool{"returned": false, "passed over": true} {
		run := w.takeOne(t, id)
		ctx, cancel := context.WithCancel(t.Context())
		go func(pid uint32) {
			defer cancel()
			w.awaitStatement(t, pid)
		}(run.Tx().Conn().PgConn().PID())
		_, err := run.Tx().Exec(ctx, "SELECT pg_sleep(600)")
		if passesOver {
			if got := run.Check(t.Context(), nil); !errors.Is(got, driver.ErrTxAborted) || !errors.Is(got, context.Canceled) {
				t.Errorf("Check of a handler that passed it over: got the error %v, want %v", got, driver.ErrTxAborted)
			}
		} else if got := run.Check(t.Context(), err); got != nil {
			t.Errorf("Check of %v: got the error %v, want none: it is the handler's failure", err, got)
		}
		if err := run.Finish(t.Context(), outcome(run, driver.WorkRetry, "late")); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("Finish: got the error %v, want %v", err, driver.ErrUnavailable)
		}
		if err := run.Settle(t.Context(), outcome(run, driver.WorkRetry, "late")); err != nil {
			t.Errorf("Settle: %v", err)
		}
		w.wantEvent(t, id, driver.StatePending, 1)
	}
	w.wantSwept(t, 0)
}

// TestDoneMarkRefused has a trigger that refuses the done mark of one event of a batch. The batch splits unless the
// server is in trouble, and the event alone is a failed attempt then.
func TestDoneMarkRefused(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]error{
		"P0001": driver.ErrBadRow, "25006": driver.ErrBadRow, "42501": driver.ErrBadRow, "53400": driver.ErrBadRow,
		"XX001": driver.ErrBadRow, "XX002": driver.ErrBadRow, "MYOWN": driver.ErrBadRow,
		"53100": driver.ErrUnavailable, "58000": driver.ErrUnavailable, "57P01": driver.ErrUnavailable, "40001": driver.ErrSerialization,
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			w := openWork(t)
			w.queue(t, "evt_1", "evt_2", "evt_3")
			w.exec(t, storetest.RefuseDone(driver.EventKey("stripe", "evt_2"), code))
			run := w.take(t, 3, false)
			if err := run.Finish(t.Context(), succeeded(run)); !errors.Is(err, want) || errors.Is(err, driver.ErrCommitUnknown) {
				t.Errorf("Finish: got the error %v, want %v", err, want)
			}
		})
	}
}

// TestMarkHasItsOwnTimeouts has a handler that shortens the time-outs of its transaction. They do not hold for the done
// mark: it would fail again and again, and no attempt would be counted.
func TestMarkHasItsOwnTimeouts(t *testing.T) {
	t.Parallel()
	w := openWork(t)
	w.exec(t, `CREATE FUNCTION {schema}.timeouts() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			IF current_setting('statement_timeout') = '987654ms' OR current_setting('lock_timeout') = '987654ms' THEN
				RAISE EXCEPTION 'the time-outs of the handler';
			END IF;
			RETURN NEW;
		END $$;
		CREATE TRIGGER timeouts BEFORE UPDATE ON {schema}.event_state FOR EACH ROW EXECUTE FUNCTION {schema}.timeouts()`)
	run := w.takeOne(t, "evt_1")
	mustDo(t, run, "SET LOCAL statement_timeout = '987654ms'")
	mustDo(t, run, "SET LOCAL lock_timeout = '987654ms'")
	if err := run.Finish(t.Context(), succeeded(run)); err != nil {
		t.Errorf("Finish: %v", err)
	}
	w.wantEvent(t, "evt_1", driver.StateDone, 1)
}

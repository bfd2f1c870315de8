package hookpgx_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/dbtest"
)

// TestHandlersSettings checks the settings that handlers find: those that the guarantee needs,
// despite the defaults of the database, and no others.
func TestHandlersSettings(t *testing.T) {
	t.Parallel()
	dsn, schema := dbtest.Ready(t)
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	const own = "7s"
	for name, value := range map[string]string{
		"search_path": schema, "default_transaction_isolation": "repeatable read",
		"lock_timeout": own, "statement_timeout": own, "idle_in_transaction_session_timeout": "0",
	} {
		config.ConnConfig.RuntimeParams[name] = value
	}
	w := connectWith(t, config, schema, nil)
	w.exec(t, "CREATE TABLE {schema}.effects (name text)")
	want := "read committed off " + own + " " + own + " 1min"
	settings := func(run driver.Run[pgx.Tx]) {
		t.Helper()
		var got []string
		for _, name := range []string{
			"transaction_isolation", "transaction_read_only", "lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout",
		} {
			var value string
			if err := run.Tx().QueryRow(t.Context(), "SELECT current_setting($1)", name).Scan(&value); err != nil {
				t.Fatal(err)
			}
			got = append(got, value)
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("a handler finds the settings %s, want %s", got, want)
		}
	}
	w.queue(t, "evt_1", "evt_2")
	first, second := w.take(t, 1, false), w.take(t, 1, false)
	settings(first)
	if _, _, err := first.Versions(t.Context(), []driver.Key{driver.ObjectKey("stripe", "", "a")}); err != nil {
		t.Fatal(err)
	}
	settings(first)
	// Both at once, which repeatable read would refuse.
	for _, run := range []driver.Run[pgx.Tx]{first, second} {
		mustDo(t, run, "INSERT INTO effects VALUES ('"+run.Events()[0].EventID+"')")
		if err := run.Finish(t.Context(), succeeded(run)); err != nil {
			t.Error(err)
		}
	}
	c := newClaim("evt_3")
	c.Work = driver.WorkDone
	run, _, err := w.TakeClaim(t.Context(), claimOf(c))
	if err != nil || run == nil {
		t.Fatalf("TakeClaim: got %v and the error %v", run, err)
	}
	settings(run)
	if err := run.Finish(t.Context(), succeeded(run)); err != nil {
		t.Error(err)
	}
	w.wantEffects(t, "evt_1", "evt_2")
}

// TestSettingsOfTheCaller checks that ClaimTx and EnqueueTx leave the settings of a caller's
// transaction as they were.
func TestSettingsOfTheCaller(t *testing.T) {
	t.Parallel()
	w := openWork(t)
	w.queue(t, "dead")
	dead := w.take(t, 1, false)
	if err := dead.Finish(t.Context(), outcome(dead, driver.WorkFailed, "no")); err != nil {
		t.Fatal(err)
	}
	for _, own := range []string{"0", "123ms", "2min"} {
		tx, err := w.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // if the test failed
		if _, err := tx.Exec(t.Context(), "SELECT set_config('lock_timeout', $1, true)", own); err != nil {
			t.Fatal(err)
		}
		before := allSettings(t, tx)
		done, again := newClaim("evt "+own), newClaim("dead")
		done.Work, again.Work = driver.WorkDone, driver.WorkDone
		p := claimOf(sortedClaims(done, again)...)
		p.Reopen = true
		if _, err := w.ClaimTx(t.Context(), tx, p); err != nil {
			t.Fatal(err)
		}
		if err := w.EnqueueTx(t.Context(), tx, []driver.OutboxMessage{{ID: "m" + own, Destination: "crm"}}); err != nil {
			t.Fatal(err)
		}
		if after := allSettings(t, tx); after != before {
			t.Errorf("the settings of a transaction are\n%s\nand were\n%s", after, before)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func allSettings(t *testing.T, tx pgx.Tx) (all string) {
	t.Helper()
	// The settings of PL/pgSQL appear once the session has run a function.
	const sql = "SELECT string_agg(name || ' = ' || setting, E'\n' ORDER BY name) FROM pg_settings WHERE name NOT LIKE 'plpgsql.%'"
	if err := tx.QueryRow(t.Context(), sql).Scan(&all); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestRoleOfAHandler has a handler work under a role with few rights. hookonce must not record
// outcomes under it.
func TestRoleOfAHandler(t *testing.T) {
	t.Parallel()
	w := openWork(t)
	role := `"` + strings.Trim(w.schema, `"`) + `_tenant"`
	w.exec(t, "CREATE ROLE "+role)
	t.Cleanup(func() {
		if _, err := w.pool.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	})
	w.exec(t, "GRANT USAGE ON SCHEMA {schema} TO "+role)
	w.exec(t, "GRANT INSERT ON {schema}.effects TO "+role)
	for id, end := range map[string]driver.WorkOutcome{"done": driver.WorkSucceeded, "failed": driver.WorkFailed} {
		run := w.takeOne(t, id)
		mustDo(t, run, "SET LOCAL ROLE "+role)
		mustDo(t, run, "INSERT INTO effects VALUES ('"+id+"')")
		if _, err := run.Tx().Exec(t.Context(), "SAVEPOINT a; SELECT FROM event_state; ROLLBACK TO SAVEPOINT a"); err == nil {
			t.Error("the role may do more than it should in this test")
		}
		mustDo(t, run, "ROLLBACK TO SAVEPOINT a")
		if err := run.Finish(t.Context(), outcome(run, end, "")); err != nil {
			t.Errorf("Finish: %v", err)
		}
	}
	w.wantEffects(t, "done")
	w.wantEvent(t, "done", driver.StateDone, 1)
	w.wantEvent(t, "failed", driver.StateDead, 1)
}

// TestDeadlockOfHandlers has two handlers lock the same rows in opposite orders. The server gives
// up one of them, which is no handler's failure and costs no attempt.
func TestDeadlockOfHandlers(t *testing.T) {
	t.Parallel()
	w := openWork(t)
	w.exec(t, "CREATE TABLE {schema}.accounts AS SELECT i AS id, 0 AS balance FROM generate_series(1, 2) i")
	w.queue(t, "evt_1", "evt_2")
	runs := []driver.Run[pgx.Tx]{w.take(t, 1, false), w.take(t, 1, false)}
	add := func(i, account int) error {
		_, err := runs[i].Tx().Exec(t.Context(), "UPDATE accounts SET balance = balance + 1 WHERE id = $1", account)
		return err
	}
	for i := range runs {
		if err := add(i, 1+i); err != nil {
			t.Fatal(err)
		}
	}
	var given atomic.Int64
	var group sync.WaitGroup
	for i, run := range runs {
		group.Go(func() {
			err := add(i, 2-i)
			if checked := run.Check(t.Context(), err); err == nil && checked == nil {
				if err := run.Finish(t.Context(), succeeded(run)); err != nil {
					t.Error(err)
				}
				return
			} else if !errors.Is(checked, driver.ErrSerialization) {
				t.Errorf("Check of %v: got the error %v, want %v", err, checked, driver.ErrSerialization)
			}
			given.Add(1)
			if err := run.Abandon(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := given.Load(); n != 1 {
		t.Fatalf("%d runs were given up, want 1", n)
	}
	again := w.take(t, 10, false) // untried, as before
	if len(again.Events()) != 1 {
		t.Errorf("took %+v, want the one that was given up", again.Events())
	}
	w.wantSwept(t, 0)
}

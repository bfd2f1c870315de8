package hookpgx_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/storetest"
)

// openWeak returns a migrated store whose sessions have synchronous_commit = off. Its database keeps
// the level of each commit.
func openWeak(t *testing.T) *world {
	t.Helper()
	dsn, schema := dbtest.Ready(t)
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.RuntimeParams["synchronous_commit"] = "off"
	w := connectWith(t, config, schema, nil)
	w.exec(t, storetest.WatchCommitsSQL)
	return w
}

// levels empties the table of commit levels and returns them, each once.
func (w *world) levels(t *testing.T) []string {
	t.Helper()
	rows, err := w.pool.Query(t.Context(), strings.ReplaceAll("DELETE FROM {schema}.commit_level RETURNING level", "{schema}", w.schema))
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func TestCommitsWaitForTheDisk(t *testing.T) {
	t.Parallel()
	var worlds sync.Map // driver.Driver[pgx.Tx] to *world
	worldOf := func(d driver.Driver[pgx.Tx]) *world {
		w, _ := worlds.Load(d)
		return w.(*world)
	}
	storetest.ExerciseDurable(t, storetest.Harness[pgx.Tx]{
		Open: func(t *testing.T) driver.Driver[pgx.Tx] {
			w := openWeak(t)
			worlds.Store(driver.Driver[pgx.Tx](w.Store), w)
			return w.Store
		},
		Begin: func(t *testing.T, d driver.Driver[pgx.Tx]) (tx pgx.Tx, commit, rollback func() error) {
			tx, err := worldOf(d).pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return tx, func() error { return tx.Commit(t.Context()) }, nil
		},
	}, storetest.Durable[pgx.Tx]{
		Weaken: func(ctx context.Context, tx pgx.Tx) error {
			for _, sql := range storetest.WeakenSQL {
				if _, err := tx.Exec(ctx, sql); err != nil {
					return err
				}
			}
			return nil
		},
		Levels: func(t *testing.T, d driver.Driver[pgx.Tx]) []string { return worldOf(d).levels(t) },
	})
}

// TestSQLFunctionsWaitForTheDisk calls the functions for applications.
func TestSQLFunctionsWaitForTheDisk(t *testing.T) {
	t.Parallel()
	w := openWeak(t)
	for _, id := range []string{"1", "2"} {
		c := newClaim(id)
		c.Work = driver.WorkQueued
		w.mustClaim(t, true, c)
	}
	w.levels(t)
	for _, call := range []string{
		"SELECT event_id FROM {schema}.take('stripe')", "SELECT {schema}.fail('stripe', '2', 'it failed')",
		"SELECT {schema}.enqueue('mail', '{}')",
	} {
		tx, err := w.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = tx.Exec(t.Context(), strings.ReplaceAll(call, "{schema}", w.schema))
		if err == nil {
			err = tx.Commit(t.Context())
		}
		if err != nil {
			t.Fatalf("%s: %v", call, err)
		}
		if diff := cmp.Diff([]string{"on"}, w.levels(t)); diff != "" {
			t.Errorf("%s: synchronous_commit at its commit (-want +got):\n%s", call, diff)
		}
	}
}

// TestStrongerLevelStays has sessions that wait for more than the disk of the primary.
func TestStrongerLevelStays(t *testing.T) {
	t.Parallel()
	w := openWeak(t)
	for level, want := range map[string]string{"remote_apply": "remote_apply", "local": "local", "off": "on"} {
		tx, err := w.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), "SET LOCAL synchronous_commit = "+level); err != nil {
			t.Fatal(err)
		}
		if _, err := w.ClaimTx(t.Context(), tx, claimOf(newClaim(level))); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{want}, w.levels(t)); diff != "" {
			t.Errorf("a claim in a transaction with synchronous_commit = %s (-want +got):\n%s", level, diff)
		}
	}
}

// TestClaimsSurviveACrash weakens a running server in every way that its sessions take over, and kills
// it. Its writer of the log sleeps as long as it can.
func TestClaimsSurviveACrash(t *testing.T) {
	t.Parallel()
	server := migrated(t, "wal_writer_delay=10s", "bgwriter_delay=10s")
	w := private(t, server)
	w.mustClaim(t, true, newClaim("before"))
	for _, change := range []string{"ALTER SYSTEM SET synchronous_commit = off", "ALTER DATABASE postgres SET synchronous_commit = off"} {
		w.exec(t, change)
		w.exec(t, "SELECT pg_reload_conf()")
		w.pool.Reset() // a setting of the database is for new sessions
		eventually.True(t, change+" has an effect", func() bool {
			return w.number(t, "SELECT count(*) FROM pg_settings WHERE name = 'synchronous_commit' AND setting = 'off'") > 0
		})
		for i := range 5 {
			w.mustClaim(t, true, newClaim(fmt.Sprint(change, i)))
		}
		server.Kill(t)
		server.Restart(t)
		w.pool.Reset()
		w.recovered(t, newClaim("after "+change))
		for i := range 5 {
			w.mustClaim(t, false, newClaim(fmt.Sprint(change, i)))
		}
		w.exec(t, "ALTER SYSTEM RESET synchronous_commit")
	}
}

// TestDuplicateIsFlushed repeats an event whose own commit did not wait for the disk.
func TestDuplicateIsFlushed(t *testing.T) {
	t.Parallel()
	server := migrated(t, "wal_writer_delay=10s")
	w := private(t, server)
	w.wantDuplicatesFlushed(t, "")
}

// wantDuplicatesFlushed repeats events whose own commits did not wait for the disk, in each way. Afterwards the log of each
// must be on the disk. suffix is the one of the functions of the log.
func (w *world) wantDuplicatesFlushed(t *testing.T, suffix string) {
	t.Helper()
	confirm := func(ctx context.Context, _ driver.Claim) error { return w.Confirm(ctx) }
	claim := func(mostlyKnown bool) func(context.Context, driver.Claim) error {
		return func(ctx context.Context, c driver.Claim) error {
			p := claimOf(c)
			p.MostlyKnown = mostlyKnown
			_, err := w.Claim(ctx, p)
			return err
		}
	}
	inline := func(ctx context.Context, c driver.Claim) error {
		c.Work = driver.WorkDone
		_, _, err := w.TakeClaim(ctx, claimOf(c))
		return err
	}
	for name, repeat := range map[string]func(context.Context, driver.Claim) error{
		"Claim": claim(false), "Claim of known events": claim(true), "TakeClaim": inline, "Confirm": confirm,
	} {
		for i := range 5 {
			c := newClaim(fmt.Sprint(name, i))
			tx, err := w.pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.ClaimTx(t.Context(), tx, claimOf(c)); err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Exec(t.Context(), "SET LOCAL synchronous_commit = off"); err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			var end string
			if err := w.pool.QueryRow(t.Context(), "SELECT pg_current_wal_insert_lsn"+suffix+"()::text").Scan(&end); err != nil {
				t.Fatal(err)
			}
			if err := repeat(t.Context(), c); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if w.number(t, "SELECT count(*) WHERE pg_current_wal_flush_lsn"+suffix+"() >= $1::pg_lsn", end) == 0 {
				t.Errorf("%s returned before the log of the event was on the disk", name)
			}
		}
	}
}

// TestUnsafeServer weakens a running server by settings that no session can raise.
func TestUnsafeServer(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"fsync", "full_page_writes"} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			w := private(t, migrated(t))
			w.mustClaim(t, true, newClaim("before"))
			set := func(value string) {
				t.Helper()
				w.exec(t, "ALTER SYSTEM SET "+setting+" = "+value)
				w.exec(t, "SELECT pg_reload_conf()")
			}
			set("off")
			n := 0
			eventually.True(t, "the sessions have read their settings again", func() bool {
				n++
				_, err := w.Claim(t.Context(), claimOf(newClaim(fmt.Sprint("claim ", n))))
				refused := err != nil && strings.Contains(err.Error(), setting+" is off")
				if err != nil && !refused {
					t.Fatalf("Claim with %s = off: got the error %v", setting, err)
				}
				return refused
			})
			w.refusesAll(t, setting)
			if n := w.number(t, "SELECT count(*) FROM {schema}.event WHERE event_id = 'new'"); n != 0 {
				t.Errorf("a refused event is stored, with %s = off", setting)
			}
			allowed := claimOf(newClaim("allowed"))
			allowed.AllowUnsafe = []string{"other", setting}
			if _, err := w.Claim(t.Context(), allowed); err != nil {
				t.Errorf("Claim that allows %s: %v", setting, err)
			}
			set("on")
			w.recovered(t, newClaim("after"))
		})
	}
}

// refusesAll expects that every way to claim, also a duplicate, is refused for a weak setting.
func (w *world) refusesAll(t *testing.T, setting string) {
	t.Helper()
	tx, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	for _, id := range []string{"before", "new"} {
		c := newClaim(id)
		known := claimOf(c)
		known.MostlyKnown = true
		_, plainErr := w.Claim(t.Context(), claimOf(c))
		_, knownErr := w.Claim(t.Context(), known)
		c.Work = driver.WorkDone
		_, _, inlineErr := w.TakeClaim(t.Context(), claimOf(c))
		errs := map[string]error{"Claim": plainErr, "Claim of known events": knownErr, "TakeClaim": inlineErr}
		if id == "new" {
			_, errs["ClaimTx"] = w.ClaimTx(t.Context(), tx, claimOf(c))
		}
		for name, err := range errs {
			wantDown(t, fmt.Sprintf("%s of %q with %s = off", name, id, setting), err)
		}
	}
}

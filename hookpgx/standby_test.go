package hookpgx_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
)

// TestDuplicateWaitsForTheStandby has a synchronous standby that is out of reach. Once the wait is
// given up, the event's row is visible on the primary, but not known to be durable: a duplicate
// must not be acknowledged.
func TestDuplicateWaitsForTheStandby(t *testing.T) {
	t.Parallel()
	server := dbtest.StartServer(t, nil)
	w := connect(t, server.DSN(), "hookonce", nil)
	if _, err := w.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	standbys := func(names string) {
		t.Helper()
		if _, err := w.pool.Exec(t.Context(), "ALTER SYSTEM SET synchronous_standby_names = '"+names+"'"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.pool.Exec(t.Context(), "SELECT pg_reload_conf()"); err != nil {
			t.Fatal(err)
		}
	}
	claim := func(id string, mostlyKnown bool) error {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, err := w.Claim(ctx, &driver.ClaimParams{Claims: []driver.Claim{newClaim(id)}, MostlyKnown: mostlyKnown})
		return err
	}
	standbys("nobody_here")
	// Each process of the server reloads its settings a moment later.
	unknown := func(what string, err error) bool {
		if err != nil {
			wantDown(t, what, err) // unavailable where a slow machine has not committed in time
		}
		return errors.Is(err, driver.ErrCommitUnknown)
	}
	n, first := 0, ""
	eventually.True(t, "a claim waits for the standby", func() bool {
		n++
		first = strconv.Itoa(n)
		return unknown("claim "+first, claim(first, false))
	})
	for _, mostlyKnown := range []bool{false, true} {
		eventually.True(t, "a duplicate waits for the standby", func() bool {
			err := claim(first, mostlyKnown)
			if err == nil {
				t.Fatalf("a duplicate (mostly known: %v) is acknowledged", mostlyKnown)
			}
			return unknown("a duplicate", err)
		})
	}
	standbys("")
	eventually.True(t, "duplicates are claimed without a standby to wait for", func() bool { return claim(first, true) == nil })
}

// awayStandby starts a server that waits for a standby which is away. It returns the DSN.
func awayStandby(t *testing.T) string {
	t.Helper()
	server := migrated(t)
	server.Shutdown(t)
	server.Restart(t, "synchronous_standby_names=nobody_here")
	return server.DSN()
}

// onAwayStandby returns a store on such a server. Its pool is not watched, unless change does that.
func onAwayStandby(t *testing.T, dsn string, change func(*pgxpool.Config)) *world {
	t.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	change(config)
	return connectWith(t, config, hookpgx.DefaultSchema, nil)
}

// ended calls call, and ends every wait for the standby by end, a function of the server, until call
// returns.
func (w *world) ended(t *testing.T, end string, call func(ctx context.Context) error) error {
	t.Helper()
	ctx := eventually.Context(t)
	result := make(chan error, 1)
	go func() { result <- call(ctx) }()
	look, err := pgx.Connect(ctx, w.pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = look.Close(context.WithoutCancel(ctx)) }()
	for {
		select {
		case err := <-result:
			return err
		default:
		}
		if _, err := look.Exec(ctx, "SELECT "+end+"(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"); err != nil {
			t.Fatal(err)
		}
	}
}

// claimWays are the ways to claim an event that may be known.
func (w *world) claimWays() map[string]func(context.Context, driver.Claim) error {
	return map[string]func(context.Context, driver.Claim) error{
		"Claim": func(ctx context.Context, c driver.Claim) error {
			_, err := w.Claim(ctx, claimOf(c))
			return err
		},
		"Claim of known events": func(ctx context.Context, c driver.Claim) error {
			p := claimOf(c)
			p.MostlyKnown = true
			_, err := w.Claim(ctx, p)
			return err
		},
		"TakeClaim": func(ctx context.Context, c driver.Claim) error {
			c.Work = driver.WorkDone
			run, _, err := w.TakeClaim(ctx, claimOf(c))
			if err != nil || run == nil {
				return err
			}
			return run.Finish(ctx, &driver.FinishParams{Results: []driver.WorkResult{{Key: c.Key, Outcome: driver.WorkSucceeded}}})
		},
		"ClaimTx and Confirm": func(ctx context.Context, c driver.Claim) error {
			tx, err := w.pool.Begin(ctx)
			if err != nil {
				return err
			}
			defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
			if _, err := w.ClaimTx(ctx, tx, claimOf(c)); err != nil {
				return err
			}
			if err := tx.Commit(ctx); err != nil {
				return err
			}
			return w.Confirm(ctx)
		},
	}
}

// TestCancelledWaitForTheStandby cancels the waits of commits, which then succeed with a warning.
func TestCancelledWaitForTheStandby(t *testing.T) {
	t.Parallel()
	told := make(chan struct{}, 1)
	dsn := awayStandby(t)
	for name, change := range map[string]func(*pgxpool.Config){
		"pool of the caller": func(*pgxpool.Config) {},
		"watched pool":       func(c *pgxpool.Config) { hookpgx.WatchCommits(c.ConnConfig) },
		"without warnings":   func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["client_min_messages"] = "error" },
		"local commits":      func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["synchronous_commit"] = "local" },
		"hook of the caller": func(c *pgxpool.Config) {
			c.ConnConfig.OnNotice = func(*pgconn.PgConn, *pgconn.Notice) {
				select {
				case told <- struct{}{}:
				default:
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := onAwayStandby(t, dsn, change)
			for way, claim := range w.claimWays() {
				c := newClaim(name + ": " + way)
				for _, what := range []string{"the first delivery", "the second delivery"} {
					err := w.ended(t, "pg_cancel_backend", func(ctx context.Context) error { return claim(ctx, c) })
					if !errors.Is(err, driver.ErrCommitUnknown) {
						t.Errorf("%s of %s: got the error %v, want %v", way, what, err, driver.ErrCommitUnknown)
					}
				}
			}
			if name == "hook of the caller" {
				select {
				case <-told:
				default:
					t.Error("the caller's hook got no notice")
				}
			}
		})
	}
}

// TestWatchedWork cancels the wait of commits on the caller's pool.
func TestWatchedWork(t *testing.T) {
	t.Parallel()
	w := onAwayStandby(t, awayStandby(t), func(c *pgxpool.Config) { hookpgx.WatchCommits(c.ConnConfig) })
	c := newClaim("1", "billing")
	c.Work = driver.WorkQueued
	unknown := func(what string, call func(ctx context.Context) error) {
		t.Helper()
		if err := w.ended(t, "pg_cancel_backend", call); !errors.Is(err, driver.ErrCommitUnknown) {
			t.Errorf("%s: got the error %v, want %v", what, err, driver.ErrCommitUnknown)
		}
	}
	unknown("Claim", func(ctx context.Context) error { _, err := w.Claim(ctx, claimOf(c)); return err })
	unknown("Lease", func(ctx context.Context) error {
		_, err := w.Lease(ctx, &driver.LeaseParams{Destination: "to-billing", Limit: 1, For: time.Minute, MaxAttempts: 5})
		return err
	})
	unknown("Finish", func(ctx context.Context) error {
		run, err := w.Take(ctx, &driver.TakeParams{Source: "stripe", Types: []string{"*"}, Limit: 1, HandlerTimeout: time.Minute})
		if err != nil || run == nil {
			return fmt.Errorf("taking the event: %v, %w", run, err)
		}
		return run.Finish(ctx, &driver.FinishParams{Results: []driver.WorkResult{{Key: c.Key, Outcome: driver.WorkSucceeded}}})
	})
}

// TestTerminatedWaitForTheStandby ends sessions that wait: the answer to the commit never comes.
func TestTerminatedWaitForTheStandby(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	w := onAwayStandby(t, awayStandby(t), func(*pgxpool.Config) {})
	for way, claim := range w.claimWays() {
		err := w.ended(t, "pg_terminate_backend", func(ctx context.Context) error { return claim(ctx, newClaim(way)) })
		if err == nil {
			t.Errorf("%s succeeded", way)
		}
	}
}

package hooksql_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// noticed is the key of a connection's custom data, after a notice of SyncRepWaitForLSN.
const noticed = "unconfirmed"

// unconfirmed is a PostgresOptions.Unconfirmed for pgx, as docs/library.md shows it.
func unconfirmed(driverConn any) bool {
	data := driverConn.(*stdlib.Conn).Conn().PgConn().CustomData()
	seen := data[noticed] != nil
	delete(data, noticed)
	return seen
}

// openNoticing returns a pool that keeps the notices for unconfirmed.
func openNoticing(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.OnNotice = func(conn *pgconn.PgConn, notice *pgconn.Notice) {
		if notice.Routine == "SyncRepWaitForLSN" {
			conn.CustomData()[noticed] = true
		}
	}
	pool := stdlib.OpenDB(*config)
	t.Cleanup(func() { pool.Close() })
	return pool
}

// TestPostgresCancelledWaitForTheStandby cancels the waits of commits, which then succeed with a
// warning.
func TestPostgresCancelledWaitForTheStandby(t *testing.T) {
	t.Parallel()
	server := dbtest.StartServer(t, &dbtest.Options{Migrated: true})
	server.Shutdown(t)
	server.Restart(t, "synchronous_standby_names=nobody_here")
	for _, level := range levels {
		dsn := withParameter(t, server.DSN(), "default_transaction_isolation", level)
		w := newPostgres(t, dsn, openNoticing(t, dsn), &hooksql.PostgresOptions{Schema: hooksql.DefaultSchema, Unconfirmed: unconfirmed})
		look := openPool(t, server.DSN(), 1)
		ended := func(call func(ctx context.Context) error) error {
			ctx := eventually.Context(t)
			result := make(chan error, 1)
			go func() { result <- call(ctx) }()
			for {
				select {
				case err := <-result:
					return err
				default:
				}
				if _, err := look.ExecContext(ctx, "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"); err != nil {
					t.Fatal(err)
				}
			}
		}
		work := queued("work " + level)
		inline := newClaim("inline " + level)
		inline.Work = driver.WorkDone
		done := func(c driver.Claim) *driver.FinishParams {
			return &driver.FinishParams{Results: []driver.WorkResult{{Key: c.Key, Outcome: driver.WorkSucceeded}}}
		}
		for _, step := range []struct {
			name string
			call func(ctx context.Context) error
		}{
			{"Claim", func(ctx context.Context) error {
				_, err := w.Claim(ctx, &driver.ClaimParams{Claims: []driver.Claim{work}})
				return err
			}},
			{"Claim of a duplicate", func(ctx context.Context) error {
				_, err := w.Claim(ctx, &driver.ClaimParams{Claims: []driver.Claim{work}, MostlyKnown: true})
				return err
			}},
			{"Finish", func(ctx context.Context) error {
				run, err := w.Take(ctx, takeOne(false))
				if err != nil {
					return err
				}
				return run.Finish(ctx, done(work))
			}},
			{"Finish of a claim", func(ctx context.Context) error {
				run, _, err := w.TakeClaim(ctx, &driver.ClaimParams{Claims: []driver.Claim{inline}})
				if err != nil {
					return err
				}
				return run.Finish(ctx, done(inline))
			}},
			{"Confirm", w.Confirm},
		} {
			if err := ended(step.call); !errors.Is(err, driver.ErrCommitUnknown) {
				t.Errorf("%s at the level %s: got the error %v, want %v", step.name, level, err, driver.ErrCommitUnknown)
			}
		}
	}
}

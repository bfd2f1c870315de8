package hooksql_test

import (
	"context"
	"database/sql"
	"slices"
	"testing"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/storetest"
)

func TestPostgresCommitsWaitForTheDisk(t *testing.T) {
	t.Parallel()
	var w *postgresWorld
	storetest.ExerciseDurable(t, storetest.Harness[*sql.Tx]{
		Open: func(t *testing.T) driver.Driver[*sql.Tx] {
			dsn, schema := dbtest.Ready(t)
			dsn = withParameter(t, dsn, "synchronous_commit", "off")
			w = newPostgres(t, dsn, openPool(t, dsn, 0), &hooksql.PostgresOptions{Schema: schema})
			w.exec(t, storetest.WatchCommitsSQL)
			return w.PostgresStore
		},
		Begin: func(t *testing.T, _ driver.Driver[*sql.Tx]) (tx *sql.Tx, commit, rollback func() error) {
			tx, err := w.db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			return tx, tx.Commit, nil
		},
	}, storetest.Durable[*sql.Tx]{
		Weaken: func(ctx context.Context, tx *sql.Tx) error {
			for _, text := range storetest.WeakenSQL {
				if _, err := tx.ExecContext(ctx, text); err != nil {
					return err
				}
			}
			return nil
		},
		Levels: func(t *testing.T, _ driver.Driver[*sql.Tx]) []string {
			var levels []string
			rows, err := w.db.QueryContext(t.Context(), w.sql("DELETE FROM {schema}.commit_level RETURNING level"))
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			for rows.Next() {
				var level string
				if err := rows.Scan(&level); err != nil {
					t.Fatal(err)
				}
				levels = append(levels, level)
			}
			if err := rows.Err(); err != nil {
				t.Fatal(err)
			}
			slices.Sort(levels)
			return slices.Compact(levels)
		},
	})
}

package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/hookonce/hookonce/driver"
)

const (
	hasMigrations = `SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'hookonce_schema_migration'`
	// A table of an early build has no column hash. There the name means that of "old".
	selectApplied = `SELECT m.version, m.name, (SELECT hash FROM hookonce_schema_migration AS own WHERE own.version = m.version)
FROM hookonce_schema_migration AS m, (SELECT '' AS hash) AS old ORDER BY m.version`
)

// queryer is a pool or a transaction.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Migrations implements driver.Migrator.
func (s *Store) Migrations() []driver.Migration { return slices.Clone(s.migrations) }

// Applied implements driver.Migrator.
func (s *Store) Applied(ctx context.Context) ([]driver.Migration, error) {
	steps, err := applied(ctx, s.reader)
	if err != nil {
		return nil, fmt.Errorf("reading the version of the schema: %w: %w", driver.ErrUnavailable, err)
	}
	return steps, nil
}

func applied(ctx context.Context, q queryer) ([]driver.Migration, error) {
	var one int
	switch err := q.QueryRowContext(ctx, hasMigrations).Scan(&one); {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	}
	rows, err := q.QueryContext(ctx, selectApplied)
	return collect(rows, err, func(step *driver.Migration) error { return rows.Scan(&step.Version, &step.Name, &step.Hash) })
}

// Apply implements driver.Migrator. The steps record themselves in hookonce_schema_migration, so
// that their text is complete when an operator runs it by hand.
func (s *Store) Apply(ctx context.Context) ([]driver.Migration, error) {
	const op = "migrating the schema"
	t, err := s.begin(ctx, context.WithoutCancel(ctx), nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	t.caller = ctx
	taken, err := s.applySteps(ctx, t.tx)
	if err != nil || len(taken) == 0 {
		t.rollback()
		if err != nil {
			err = s.failed(ctx, op, err)
		}
		return nil, err
	}
	if err := t.commit(op); err != nil {
		return nil, err
	}
	return taken, nil
}

func (s *Store) applySteps(ctx context.Context, tx *sql.Tx) ([]driver.Migration, error) {
	steps, err := applied(ctx, tx)
	if err != nil {
		return nil, err
	}
	if err := driver.CheckApplied(s.migrations, steps); err != nil {
		return nil, err
	}
	var taken []driver.Migration
	for _, step := range s.migrations {
		if driver.IndexStep(steps, step.Version) >= 0 {
			continue
		}
		if _, err := tx.ExecContext(ctx, step.SQL); err != nil {
			return nil, stepFailed(step, err)
		}
		taken = append(taken, step)
	}
	return taken, nil
}

// stepFailed names the step that failed. It classifies a fault in the step's SQL, because failed would
// only report that the step is missing.
func stepFailed(step driver.Migration, err error) error {
	err = fmt.Errorf("step %d (%s): %w", step.Version, step.Name, err)
	if code := resultCode(err); code == codeError || code == codeSchema {
		return fmt.Errorf("%w: %w", driver.ErrSchema, err)
	}
	return err
}

// checkSchema returns an error that matches driver.ErrSchema if the schema is not this program's.
// It returns nil if the schema cannot be read.
func (s *Store) checkSchema(ctx context.Context) error {
	steps, err := applied(ctx, s.reader)
	if err != nil {
		return nil //nolint:nilerr // the error that led here is reported then
	}
	return driver.CheckSchema(s.migrations, steps)
}

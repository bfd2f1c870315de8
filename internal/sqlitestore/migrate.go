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
	selectApplied = `SELECT version FROM hookonce_schema_migration ORDER BY version`
)

// queryer is a pool or a transaction.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Migrations implements driver.Migrator.
func (s *Store) Migrations() []driver.Migration { return slices.Clone(s.migrations) }

// Applied implements driver.Migrator.
func (s *Store) Applied(ctx context.Context) ([]int, error) {
	versions, err := applied(ctx, s.reader)
	if err != nil {
		return nil, fmt.Errorf("reading the version of the schema: %w: %w", driver.ErrUnavailable, err)
	}
	return versions, nil
}

func applied(ctx context.Context, q queryer) ([]int, error) {
	var one int
	switch err := q.QueryRowContext(ctx, hasMigrations).Scan(&one); {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	}
	rows, err := q.QueryContext(ctx, selectApplied) //nolint:sqlclosecheck // collect closes them
	if err != nil {
		return nil, err
	}
	return collect(rows, func(version *int) error { return rows.Scan(version) })
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
	versions, err := applied(ctx, tx)
	if err != nil {
		return nil, err
	}
	if err := s.refuseNewer(versions); err != nil {
		return nil, err
	}
	var taken []driver.Migration
	for _, step := range s.migrations {
		if slices.Contains(versions, step.Version) {
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

func (s *Store) refuseNewer(versions []int) error {
	for _, version := range versions {
		if !slices.ContainsFunc(s.migrations, func(m driver.Migration) bool { return m.Version == version }) {
			return fmt.Errorf("%w: it has step %d, which this program does not know: upgrade hookonce", driver.ErrSchema, version)
		}
	}
	return nil
}

// checkSchema returns an error that matches driver.ErrSchema if the schema is not this program's.
// It returns nil if the schema cannot be read.
func (s *Store) checkSchema(ctx context.Context) error {
	versions, err := applied(ctx, s.reader)
	if err != nil {
		return nil //nolint:nilerr // the error that led here is reported then
	}
	if err := s.refuseNewer(versions); err != nil {
		return err
	}
	for _, step := range s.migrations {
		if !slices.Contains(versions, step.Version) {
			return fmt.Errorf("%w: step %d (%s) has not been applied: run \"hookonce migrate up\"",
				driver.ErrSchema, step.Version, step.Name)
		}
	}
	return nil
}

package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hookonce/hookonce/driver"
)

// Migrations implements [driver.Migrator].
func (s *Store) Migrations() []driver.Migration { return slices.Clone(s.migrations) }

// Applied implements [driver.Migrator]. It refuses a server that this program cannot work with.
func (s *Store) Applied(ctx context.Context) ([]driver.Migration, error) {
	if err := s.checkServer(ctx); err != nil {
		return nil, err
	}
	steps, err := s.applied(ctx, s.pools.Admin)
	return steps, readFailed(s.pools.Admin, "reading the version of the schema", err)
}

func (s *Store) applied(ctx context.Context, conn Conn) ([]driver.Migration, error) {
	there := false
	// to_regclass would answer from the session's cache, even after waiting for another session's
	// migration.
	err := scan(ctx, conn, func(r Rows) error { return r.Scan(&there) },
		"SELECT EXISTS (SELECT FROM pg_catalog.pg_tables WHERE schemaname = $1::text AND tablename = 'schema_migration')", s.name)
	if err != nil || !there {
		return nil, err
	}
	var steps []driver.Migration
	err = scan(ctx, conn, func(r Rows) error {
		var version int32
		var step driver.Migration
		if err := r.Scan(&version, &step.Name, &step.Hash); err != nil {
			return err
		}
		step.Version = int(version)
		steps = append(steps, step)
		return nil
		// A table of an early build has no column hash. There the name means that of "old".
	}, `SELECT m.version, m.name, (SELECT hash FROM `+s.schema+`.schema_migration AS own WHERE own.version = m.version)
		FROM `+s.schema+`.schema_migration AS m, (SELECT ''::text AS hash) AS old ORDER BY m.version`)
	return steps, err
}

// A migration runs these first. The wait for its turn has no bound except the context. The lock
// makes concurrent callers wait; there is one per schema, and the schema need not exist yet. The
// last bound keeps a step that waits for a table from holding up everything behind it.
const (
	migrateUnboundSQL = "SELECT set_config('statement_timeout', '0', true), set_config('lock_timeout', '0', true)"
	migrateLockSQL    = "SELECT pg_advisory_xact_lock(hashtextextended('hookonce migrate ' || $1::text, 0::bigint))"
	migrateBoundSQL   = "SELECT set_config('lock_timeout', '5s', true)"
)

// Apply implements [driver.Migrator]. Each step records its own version, so that the version is
// recorded too if an operator runs the SQL by hand.
func (s *Store) Apply(ctx context.Context) ([]driver.Migration, error) {
	var taken []driver.Migration
	committing := false
	err := s.pools.Admin.Transaction(ctx, ReadCommitted, func(conn Conn) error {
		var err error
		taken, err = s.apply(ctx, conn)
		committing = err == nil
		return err
	})
	switch {
	case err == nil:
		return taken, nil
	case committing && len(taken) > 0:
		return nil, writeFailed(s.pools.Admin, "migrating the schema", err)
	case errors.Is(err, driver.ErrSchema):
		return nil, fmt.Errorf("migrating the schema: %w", err)
	}
	failed := readFailed(s.pools.Admin, "migrating the schema", err) // nothing was written
	if errors.Is(failed, driver.ErrBadRow) || errors.Is(failed, driver.ErrSchema) {
		return nil, fmt.Errorf("migrating the schema: the server refused a step: %w", err) // these classes are for rows and old schemas
	}
	return nil, failed
}

// apply runs the missing steps in the transaction of conn.
func (s *Store) apply(ctx context.Context, conn Conn) ([]driver.Migration, error) {
	if err := scan(ctx, conn, noRows, migrateUnboundSQL); err != nil {
		return nil, err
	}
	if err := scan(ctx, conn, noRows, migrateLockSQL, s.name); err != nil {
		return nil, err
	}
	if err := scan(ctx, conn, noRows, migrateBoundSQL); err != nil {
		return nil, err
	}
	applied, err := s.applied(ctx, conn)
	if err != nil {
		return nil, err
	}
	if err := driver.CheckApplied(s.migrations, applied); err != nil {
		return nil, err
	}
	var taken []driver.Migration
	for _, step := range s.migrations {
		if driver.IndexStep(applied, step.Version) >= 0 {
			continue
		}
		for sql := range statements(step.SQL) {
			if err := conn.Script(ctx, sql); err != nil {
				return nil, fmt.Errorf("step %d (%s): %w", step.Version, step.Name, err)
			}
		}
		taken = append(taken, step)
	}
	return taken, nil
}

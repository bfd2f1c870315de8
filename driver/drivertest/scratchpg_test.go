package drivertest_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/driver/drivertest"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/internal/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

func connect(t *testing.T, dsn, schema string) driver.Store {
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s, err := hookpgx.New(pool, &hookpgx.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestPGConcurrent(t *testing.T) {
	drivertest.ExerciseConcurrent(t, func(t *testing.T) (driver.Store, driver.Store) {
		dsn, schema := dbtest.Postgres(t)
		a, b := connect(t, dsn, schema), connect(t, dsn, schema)
		if _, err := a.Apply(t.Context()); err != nil {
			t.Fatal(err)
		}
		return a, b
	})
}

func TestPGMigrations(t *testing.T) {
	drivertest.ExerciseMigrations(t, func(t *testing.T) (driver.Store, driver.Store) {
		dsn, schema := dbtest.Postgres(t)
		return connect(t, dsn, schema), connect(t, dsn, schema)
	})
}

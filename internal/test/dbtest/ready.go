package dbtest

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// readySQL keeps ready schemas in the server.
//
//go:embed ready.sql
var readySQL string

// inReady puts the name of the schema of readySQL into SQL. Other builds, which may have other functions, have another.
func inReady(sql string) string { return strings.ReplaceAll(sql, "{ready}", readySchema()) }

var readySchema = sync.OnceValue(func() string {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(readySQL)) // never fails
	return fmt.Sprintf("hookonce_ready_%x", hash.Sum64())
})

// Ready is Postgres with a schema that has hookonce's tables already. Other tests have used it, and it is as new: its
// tables are empty and its sequences begin again. When the test ends, the schema goes to another test, unless the test
// has changed a definition in it; tables that the test adds are dropped. Tests of plans need a new schema, because
// statistics and dead rows stay: they call Postgres.
func Ready(t testing.TB) (dsn, schema string) {
	t.Helper()
	dsn = server(t)
	schema, err := ready.take()
	if err != nil {
		t.Fatalf("dbtest: preparing a schema: %v", err)
	}
	t.Cleanup(func() {
		if err := ready.giveBack(schema); err != nil {
			t.Errorf("dbtest: emptying the test's schema: %v", err)
		}
	})
	return dsn, schema
}

var ready schemas

// schemas hands out ready schemas. The free ones are rows of a table of the server, so the test binaries share them.
type schemas struct {
	mu   sync.Mutex
	conn *pgx.Conn
}

// do runs f with a session that stays open, so that a test costs no further one.
func (s *schemas) do(f func(ctx context.Context, conn *pgx.Conn) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Bound)
	defer cancel()
	if s.conn == nil || s.conn.IsClosed() {
		conn, err := pgx.Connect(ctx, shared.dsn)
		if err != nil {
			return err
		}
		// A session that a test left open must not block the whole run.
		if _, err := conn.Exec(ctx, "SET lock_timeout = '20s'; SET search_path = pg_catalog; SET client_min_messages = warning;"+inReady(readySQL)); err != nil {
			return errors.Join(err, conn.Close(ctx))
		}
		s.conn = conn
	}
	return f(ctx, s.conn)
}

// stepsVersion tells the steps of this build from those of another one.
var stepsVersion = sync.OnceValue(func() int64 {
	hash := fnv.New64a()
	for _, step := range hookmigrate.Postgres("any") {
		_, _ = hash.Write([]byte(step.SQL)) // never fails
	}
	return int64(hash.Sum64())
})

// take returns a free schema, or a new one.
func (s *schemas) take() (schema string, err error) {
	err = s.do(func(ctx context.Context, conn *pgx.Conn) error {
		version := stepsVersion()
		err := conn.QueryRow(ctx, inReady("SELECT {ready}.take($1)"), version).Scan(&schema)
		if err != nil || schema != "" {
			return err
		}
		schema = "ready_" + randomHex(8)
		tx, err := conn.Begin(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback(ctx) }() // it fails after the commit
		for _, step := range hookmigrate.Postgres(schema) {
			if _, err := tx.Exec(ctx, step.SQL); err != nil {
				return fmt.Errorf("step %d: %w", step.Version, err)
			}
		}
		if _, err := tx.Exec(ctx, inReady("SELECT {ready}.add($1, $2)"), schema, version); err != nil {
			return err
		}
		return tx.Commit(ctx)
	})
	return schema, err
}

// clean empties a schema. It drops one that a test has changed, and then tells why.
func (s *schemas) clean(schema string) (droppedFor string, err error) {
	err = s.do(func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, inReady("SELECT coalesce({ready}.clean($1), '')"), schema).Scan(&droppedFor)
	})
	return droppedFor, err
}

// giveBack cleans a schema, and hands it to the next test unless it is dropped.
func (s *schemas) giveBack(schema string) error {
	droppedFor, err := s.clean(schema)
	if err != nil || droppedFor != "" {
		return err
	}
	return s.do(func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, inReady("SELECT {ready}.give_back($1)"), schema)
		return err
	})
}

// close ends the session. On a server that is not ours, it drops the free schemas first.
func (s *schemas) close(ours bool) error {
	if s.conn == nil {
		return nil
	}
	return s.do(func(ctx context.Context, conn *pgx.Conn) error {
		var err error
		if !ours {
			_, err = conn.Exec(ctx, inReady("SELECT {ready}.drop_free()"))
		}
		return errors.Join(err, conn.Close(ctx))
	})
}

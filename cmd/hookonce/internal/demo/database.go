package demo

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // sessions of the demo on PostgreSQL
)

// databaseFile is the gateway's SQLite file, in the demo's folder.
const databaseFile = "hookonce.db"

// database is the database of the gateway. The demo reads it as an operator's tool would.
type database struct {
	kind string // for people
	url  string // for the settings
	*sql.DB
	events string // the view of all events
	server *sql.DB
	name   string // of the temporary database on server; "" on SQLite
}

// openSQLite returns the database in the demo's folder. The gateway makes it.
func openSQLite(folder string) (*database, error) {
	path := filepath.Join(folder, databaseFile)
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(10000)&_pragma=query_only(1)")
	return &database{kind: "SQLite", url: "sqlite:" + path, DB: db, events: "hookonce_events"}, err
}

// createTimeout bounds making and removing a temporary database.
const createTimeout = 30 * time.Second

// createPostgres makes a temporary database on the server of address. It touches no other database.
func createPostgres(ctx context.Context, address string) (*database, error) {
	mine, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("--database: the demo needs one URL, as postgres://USER:PASSWORD@HOST/DATABASE") // it may hold a password
	}
	server, err := sql.Open("pgx", address)
	if err != nil {
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	d := &database{kind: "PostgreSQL", events: "hookonce.events", server: server, name: "hookonce_demo_" + strings.ToLower(rand.Text()[:12])}
	ctx, cancel := context.WithTimeout(ctx, createTimeout)
	defer cancel()
	if _, err := server.ExecContext(ctx, "CREATE DATABASE "+d.name); err != nil {
		// If the answer was lost, the database may exist.
		return nil, errors.Join(&Error{
			Err:    fmt.Errorf("making a temporary database: %w", err),
			Remedy: "check that the server runs, and name a user with the right CREATEDB; or leave out --database",
		}, d.remove())
	}
	query := mine.Query()
	query.Set("dbname", d.name) // wins over the path
	mine.RawQuery = query.Encode()
	d.url = mine.String()
	if d.DB, err = sql.Open("pgx", d.url); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the temporary database: %w", err), d.remove())
	}
	return d, nil
}

// remove closes the database, and removes it from its server.
func (d *database) remove() error {
	var failed error
	if d.DB != nil {
		failed = d.DB.Close()
	}
	if d.server == nil {
		return failed
	}
	ctx, cancel := context.WithTimeout(context.Background(), createTimeout)
	defer cancel()
	_, err := d.server.ExecContext(ctx, "DROP DATABASE IF EXISTS "+d.name+" WITH (FORCE)")
	if err != nil {
		// FORCE fails while an autovacuum works there, because its process is a superuser's. Without FORCE, PostgreSQL ends
		// the autovacuum, and waits for sessions that are ending.
		_, err = d.server.ExecContext(ctx, "DROP DATABASE IF EXISTS "+d.name)
	}
	if err != nil {
		failed = errors.Join(failed, fmt.Errorf("removing the temporary database %s: %w", d.name, err))
	}
	return errors.Join(failed, d.server.Close())
}

// storedEvent is a row of the view of events.
type storedEvent struct{ source, id, state string }

// stored returns all events of the gateway.
func (d *database) stored(ctx context.Context) ([]storedEvent, error) {
	return list(ctx, d.DB, "SELECT source, event_id, state FROM "+d.events, func(scan func(...any) error) (e storedEvent, err error) {
		return e, scan(&e.source, &e.id, &e.state)
	})
}

// states counts the events of the gateway by their state.
func (d *database) states(ctx context.Context) (map[string]int, error) {
	events, err := d.stored(ctx)
	counted := make(map[string]int)
	for _, e := range events {
		counted[e.state]++
	}
	return counted, err
}

// list returns the rows of a query.
func list[T any](ctx context.Context, db *sql.DB, query string, read func(scan func(...any) error) (T, error)) ([]T, error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		row, err := read(rows.Scan)
		if err != nil {
			return nil, err
		}
		all = append(all, row)
	}
	return all, rows.Err()
}

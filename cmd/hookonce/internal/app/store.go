package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	// The driver of SQLite files. The library leaves its choice to the program.
	_ "modernc.org/sqlite"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/hooksql"
)

const (
	// sqliteDriver is the name under which modernc.org/sqlite registers.
	sqliteDriver = "sqlite"

	// awaitLimit is how long serve waits for a database that cannot be
	// reached: orchestrators start databases and gateways side by side.
	awaitLimit = 30 * time.Second
	awaitPause = time.Second
	// reachTimeout bounds one try to reach the database.
	reachTimeout = 5 * time.Second
	// closeLimit bounds closing the store: a pool waits for every connection
	// that is in use, and one may hang.
	closeLimit = 2 * time.Second

	// weaknessFileSystem is the name to allow a SQLite file on a file system
	// that other machines may share.
	weaknessFileSystem = "shared_filesystem"
)

// OpenStore opens the database of the settings, which must be there, for a
// command that runs beside a gateway: it never changes the schema. The caller
// closes the store.
func OpenStore(ctx context.Context, settings *config.Settings) (driver.Store, error) {
	if path, ok := settings.SQLitePath(); ok {
		if _, err := os.Stat(path); err != nil {
			return nil, &Error{
				Err:    fmt.Errorf("opening the database: %w", err),
				Remedy: "check the setting database, or make it with: hookonce migrate up",
			}
		}
	}
	return openStore(ctx, settings)
}

// CreateStore is OpenStore, except that it makes the file of a SQLite database
// that is not there yet.
func CreateStore(ctx context.Context, settings *config.Settings) (driver.Store, error) {
	if path, ok := settings.SQLitePath(); ok {
		if err := createFile(path); err != nil {
			return nil, err
		}
	}
	return openStore(ctx, settings)
}

// openStore opens the database and makes sure that it can be reached.
func openStore(ctx context.Context, settings *config.Settings) (driver.Store, error) {
	open := openPostgres
	if _, ok := settings.SQLitePath(); ok {
		open = openSQLite
	}
	store, err := open(ctx, settings)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	if _, err := store.Now(ctx); err != nil {
		return nil, errors.Join(&Error{
			Err:    fmt.Errorf("reaching the database: %w", err),
			Remedy: cmp.Or(lastingRemedy(err), "check that it runs, and the setting database"),
		}, closeStore(store))
	}
	return store, nil
}

// awaitStore is CreateStore for serve: a database that cannot be reached is
// tried again until awaitLimit has passed, unless trying cannot help.
func awaitStore(ctx context.Context, settings *config.Settings, log *slog.Logger) (driver.Store, error) {
	deadline := time.Now().Add(awaitLimit)
	for {
		store, err := CreateStore(ctx, settings)
		if err == nil || !mayHeal(err) || time.Now().Add(awaitPause).After(deadline) {
			return store, err
		}
		// The driver tells of every address on a line of its own.
		log.Warn("waiting for the database", "until", deadline.UTC().Format(time.RFC3339),
			"error", strings.Join(strings.Fields(err.Error()), " "))
		select {
		case <-time.After(awaitPause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

func mayHeal(err error) bool {
	return errors.Is(err, driver.ErrUnavailable) && lastingRemedy(err) == ""
}

var errStillInUse = errors.New("a connection to the database did not close")

// closeStore closes store, and gives up on it after closeLimit with
// errStillInUse: a connection that no longer answers ends with the process.
func closeStore(store driver.Store) error {
	closed := make(chan error, 1)
	go func() { closed <- store.Close() }()
	select {
	case err := <-closed:
		return err
	case <-time.After(closeLimit):
		return errStillInUse
	}
}

// pooledStore closes the pool that was made for a store, behind it.
type pooledStore struct {
	driver.Store
	pool *pgxpool.Pool
}

func (s *pooledStore) Close() error {
	err := s.Store.Close()
	s.pool.Close()
	return err
}

// CheckPostgres refuses a PostgreSQL URL that its driver cannot read, without
// opening it. The error is an *Error that never quotes the URL.
func CheckPostgres(url string) error {
	_, err := parsePostgres(url)
	return err
}

func parsePostgres(url string) (*pgxpool.Config, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		// The error may quote a part of the password, of a URL in which it is
		// what cannot be read.
		return nil, &Error{
			Err:    errors.New("it is not a PostgreSQL URL that can be used"),
			Remedy: "postgres://USER:PASSWORD@HOST:5432/DATABASE?sslmode=require, with other characters of USER and PASSWORD percent-encoded",
		}
	}
	return cfg, nil
}

// workSettings are those of the pool for leases, outcomes and pruning, unless
// the URL has its own: a gateway that is frozen or cut off must not hold its
// locks for hours, nor a statement that nobody waits for any more go on. What
// they end is undone by the server, and tried again.
var workSettings = map[string]string{
	"application_name":                    "hookonce",
	"idle_in_transaction_session_timeout": "60s",
	"statement_timeout":                   "60s",
	"lock_timeout":                        "5s",
}

func openPostgres(ctx context.Context, settings *config.Settings) (driver.Store, error) {
	cfg, err := parsePostgres(settings.Database)
	if err != nil {
		return nil, fmt.Errorf("the setting database: %w", err)
	}
	for name, value := range workSettings {
		if cfg.ConnConfig.RuntimeParams[name] == "" {
			cfg.ConnConfig.RuntimeParams[name] = value
		}
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	store, err := hookpgx.NewWithOptions(pool, nil)
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	return &pooledStore{store, pool}, nil
}

func openSQLite(_ context.Context, settings *config.Settings) (driver.Store, error) {
	path, _ := settings.SQLitePath()
	if err := checkFileSystem(path, settings.AllowUnsafe); err != nil {
		return nil, err
	}
	if err := refuseHardLinks(path); err != nil {
		return nil, err
	}
	store, err := hooksql.OpenSQLite(sqliteDriver, path)
	if err != nil {
		return nil, &Error{
			Err:    fmt.Errorf("opening the database %s: %w", path, err),
			Remedy: cmp.Or(lastingRemedy(err), "check that no other program keeps the file locked, and the setting database"),
		}
	}
	return store, nil
}

// createFile makes the file of a database, for this user only: it holds what
// senders sent. One that is there keeps its mode.
func createFile(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return &Error{
			Err:    fmt.Errorf("opening the database: %w", err),
			Remedy: "check the setting database; its folder must be there, and folder and file writable for this user",
		}
	}
	return file.Close()
}

// checkFileSystem refuses a file system that other machines may share: SQLite's
// write-ahead log needs memory that all of its processes share, so two machines
// would corrupt the file.
func checkFileSystem(path string, allowed []string) error {
	name, err := sharedFileSystem(filepath.Dir(path))
	if err != nil {
		return err
	}
	return judgeFileSystem(path, name, allowed)
}

// judgeFileSystem is checkFileSystem for a file system of that name, "" for a
// local one.
func judgeFileSystem(path, name string, allowed []string) error {
	if name == "" || slices.Contains(allowed, weaknessFileSystem) {
		return nil
	}
	return &Error{
		Err: fmt.Errorf("the database %s is on a file system that other machines may share (%s): two of them at once would corrupt it", path, name),
		Remedy: "put it on a local disk, or use PostgreSQL, or accept that by name in the settings: allow_unsafe: [" +
			weaknessFileSystem + "]",
	}
}

// lockDatabase takes the lock of a SQLite file, and returns what gives it up.
func lockDatabase(settings *config.Settings) (release func() error, err error) {
	path, ok := settings.SQLitePath()
	if !ok {
		return func() error { return nil }, nil
	}
	if err := createFile(path); err != nil {
		return nil, err
	}
	// Every name of the file must lead to the same lock.
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, fmt.Errorf("opening the database: %w", err)
	}
	lock, err := lockInstance(real)
	if err != nil {
		return nil, err
	}
	return lock.release, nil
}

package app

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hookpgx"
)

// Prune removes from store what is finished and past the windows of the
// settings, and returns how much that was.
func Prune(ctx context.Context, store driver.Store, settings *config.Settings) (*driver.PruneResult, error) {
	inbox, err := NewEngine(store, settings, slog.New(slog.DiscardHandler)) // the caller reports
	if err != nil {
		return nil, err
	}
	return inbox.Prune(ctx)
}

// Migrations returns the steps of the schema for the database of the settings,
// without opening it.
func Migrations(settings *config.Settings) []driver.Migration {
	if _, ok := settings.SQLitePath(); ok {
		return hookmigrate.SQLite()
	}
	return hookmigrate.Postgres(hookpgx.DefaultSchema)
}

// SchemaStatus returns every step of the schema that this program knows or the
// database of the settings has. A SQLite file that is not there has none of
// them, and is not made.
func SchemaStatus(ctx context.Context, settings *config.Settings) ([]hookmigrate.Step, error) {
	if path, ok := settings.SQLitePath(); ok && canBeMade(path) {
		var steps []hookmigrate.Step
		for _, m := range Migrations(settings) {
			steps = append(steps, hookmigrate.Step{Version: m.Version, Name: m.Name})
		}
		return steps, nil
	}
	store, err := OpenStore(ctx, settings)
	if err != nil {
		return nil, err
	}
	steps, err := hookmigrate.Status(ctx, store)
	return steps, errors.Join(err, store.Close())
}

// canBeMade reports whether the file is not there, and its folder is.
func canBeMade(path string) bool {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	folder, err := os.Stat(filepath.Dir(path))
	return err == nil && folder.IsDir()
}

// SQLiteVersion returns the version of the SQLite library in this program.
func SQLiteVersion(ctx context.Context) (version string, err error) {
	db, err := sql.Open(sqliteDriver, ":memory:")
	if err != nil {
		return "", fmt.Errorf("asking SQLite for its version: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.QueryRowContext(ctx, "select sqlite_version()").Scan(&version); err != nil {
		return "", fmt.Errorf("asking SQLite for its version: %w", err)
	}
	return version, nil
}

package app

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/internal/config"
)

// Prune removes from store what is finished and past the windows of the
// settings, and returns how much that was.
func Prune(ctx context.Context, store driver.Store, settings *config.Settings) (*driver.PruneResult, error) {
	inboxConfig := settings.Inbox
	inboxConfig.Logger = slog.New(slog.DiscardHandler) // the caller reports
	inbox, err := hookonce.New(store, &inboxConfig)
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

package app

import (
	"context"
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

// prepareSchema brings the schema up to date where the settings say auto, and
// otherwise refuses one that is not.
func prepareSchema(ctx context.Context, store driver.Store, auto bool, log *slog.Logger) error {
	if !auto {
		return CheckSchema(ctx, store)
	}
	applied, err := hookmigrate.Up(ctx, store)
	if err != nil {
		return fmt.Errorf("migrating the database: %w", err)
	}
	for _, step := range applied {
		log.Info("migrated the database", "version", step.Version, "step", step.Name)
	}
	return nil
}

// CheckSchema refuses a database whose schema is not the one that this program
// works with. The error matches driver.ErrSchema.
func CheckSchema(ctx context.Context, store driver.Store) error {
	err := hookmigrate.Check(ctx, store)
	if !errors.Is(err, driver.ErrSchema) {
		return err
	}
	return &Error{Err: err, Remedy: "hookonce migrate status"}
}

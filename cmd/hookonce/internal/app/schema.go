package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
)

// Migrations returns the schema's steps for the kind of database in the settings. It does not open
// the database.
func Migrations(settings *config.Settings) []driver.Migration {
	if _, ok := settings.SQLitePath(); ok {
		return hookmigrate.SQLite()
	}
	return hookmigrate.Postgres(settings.Schema)
}

// SchemaStatus returns every schema step that this program knows or that the database has. A
// missing or empty SQLite file has no applied step, and stays as it is.
func SchemaStatus(ctx context.Context, settings *config.Settings) ([]hookmigrate.Step, error) {
	if path, ok := settings.SQLitePath(); ok && (canBeMade(path) || errors.Is(checkSQLiteFile(path), errEmpty)) {
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

// canBeMade reports whether the file does not exist but its folder does.
func canBeMade(path string) bool {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	folder, err := os.Stat(filepath.Dir(path))
	return err == nil && folder.IsDir()
}

// prepareSchema migrates the database if auto is true; otherwise it refuses an older schema.
func prepareSchema(ctx context.Context, store driver.Store, auto bool, log *slog.Logger) error {
	if !auto {
		return CheckSchema(ctx, store)
	}
	applied, err := Migrate(ctx, store)
	if err != nil {
		return fmt.Errorf("migrating the database: %w", err)
	}
	for _, step := range applied {
		log.Info("migrated the database", "version", step.Version, "step", step.Name)
	}
	return nil
}

// Migrate applies the missing steps.
func Migrate(ctx context.Context, store driver.Store) ([]driver.Migration, error) {
	applied, err := hookmigrate.Up(ctx, store)
	return applied, schemaRemedy(ctx, store, err)
}

// CheckSchema refuses a database with another schema than that of this program. The error matches
// driver.ErrSchema.
func CheckSchema(ctx context.Context, store driver.Store) error {
	return schemaRemedy(ctx, store, hookmigrate.Check(ctx, store))
}

// schemaRemedy adds the remedy to an error that matches driver.ErrSchema.
func schemaRemedy(ctx context.Context, store driver.Store, err error) error {
	if !errors.Is(err, driver.ErrSchema) {
		return err
	}
	steps, failed := hookmigrate.Status(ctx, store)
	remedy := "hookonce migrate status"
	switch {
	case failed != nil:
	case slices.ContainsFunc(steps, func(s hookmigrate.Step) bool { return s.Unknown }):
		remedy = "hookonce migrate status, which shows the steps; then install the version of hookonce that made the newest"
	case slices.ContainsFunc(steps, func(s hookmigrate.Step) bool { return !s.Applied }):
		remedy = "hookonce migrate up"
	}
	return &Error{Err: err, Remedy: remedy}
}

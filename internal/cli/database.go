package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/app"
	"github.com/hookonce/hookonce/internal/config"
)

// settingsFlags are the flags of every command that works on the settings.
type settingsFlags struct{ config, database string }

func addSettingsFlags(cmd *cobra.Command) *settingsFlags {
	f := new(settingsFlags)
	cmd.Flags().StringVar(&f.config, "config", "", "settings file (default hookonce.yaml in the working directory, if there is one)")
	cmd.Flags().StringVar(&f.database, "database", "", "sqlite:PATH or postgres://..., instead of the settings' database")
	return f
}

func addJSONFlag(cmd *cobra.Command, asJSON *bool) {
	cmd.Flags().BoolVar(asJSON, "json", false, "print JSON, in the shapes of the API")
}

// load reads the settings.
func (p *program) load(f *settingsFlags) (*config.Settings, error) {
	return p.loadWith(f, config.Flags{})
}

// loadWith is load with more flags than those of every command.
func (p *program) loadWith(f *settingsFlags, flags config.Flags) (*config.Settings, error) {
	flags.Database = f.database
	settings, err := config.Load(p.loadOptions(f.config, flags))
	if err == nil {
		err = p.checkDatabase(settings, f.database)
	}
	var faults *config.Faults
	if errors.As(err, &faults) {
		return nil, &app.Error{Err: fmt.Errorf("the settings cannot be used:\n%w", err), Remedy: "mend them; hookonce config check reads them again"}
	}
	return settings, err
}

// checkDatabase returns the fault of a database that its driver cannot read,
// which reading the settings leaves to the driver. flag is the one of
// --database.
func (p *program) checkDatabase(settings *config.Settings, flag string) error {
	err := app.CheckDatabase(settings)
	if err == nil {
		return nil
	}
	const variable = "HOOKONCE_DATABASE"
	fault := config.Fault{Path: "database", Message: err.Error()}
	var h hinter
	if errors.As(err, &h) {
		fault.Hint = h.Hint()
	}
	switch {
	case flag != "":
		fault.Path = "--database"
	case slices.ContainsFunc(p.environ, func(entry string) bool {
		value, ok := strings.CutPrefix(entry, variable+"=")
		return ok && value != ""
	}):
		fault.Path = variable
	case settings.File != "":
		fault.Path = settings.File + ": database"
	}
	return &config.Faults{File: settings.File, List: []config.Fault{fault}}
}

func (p *program) loadOptions(file string, flags config.Flags) config.LoadOptions {
	return config.LoadOptions{File: file, Environ: func() []string { return p.environ }, Flags: flags}
}

// openFunc opens the database of the settings.
type openFunc func(context.Context, *config.Settings) (driver.Store, error)

// using calls work with a store that open made, and closes it.
func using(ctx context.Context, settings *config.Settings, open openFunc, work func(context.Context, driver.Store) error) error {
	store, err := open(ctx, settings)
	if err != nil {
		return err
	}
	return errors.Join(work(ctx, store), store.Close())
}

// withStore calls work with the database of the settings where its schema is
// the one of this program. It never migrates: a running gateway may be older.
func (p *program) withStore(ctx context.Context, f *settingsFlags, work func(context.Context, driver.Store) error) error {
	settings, err := p.load(f)
	if err != nil {
		return err
	}
	return using(ctx, settings, app.OpenStore, onOwnSchema(work))
}

// onOwnSchema is work, for a store whose schema is the one of this program.
func onOwnSchema(work func(context.Context, driver.Store) error) func(context.Context, driver.Store) error {
	return func(ctx context.Context, store driver.Store) error {
		if err := app.CheckSchema(ctx, store); err != nil {
			return err
		}
		return work(ctx, store)
	}
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

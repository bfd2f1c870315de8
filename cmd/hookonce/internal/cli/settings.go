package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/driver"
)

// settingsFlags are the flags of every command that reads the settings.
type settingsFlags struct {
	cmd              *cobra.Command
	config, database string
}

func addSettingsFlags(cmd *cobra.Command) *settingsFlags {
	f := &settingsFlags{cmd: cmd}
	addConfigFlag(cmd, &f.config)
	cmd.Flags().StringVar(&f.database, "database", "", "database `URL`, in place of the setting: sqlite:PATH or postgres://...")
	return f
}

func addConfigFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "config", "", "settings `FILE` (default hookonce.yaml in the working directory, if it exists)")
}

// takeInstalled returns the settings of the package for a command without --config, if nothing else names settings or a
// database, and this folder has none that this user can see. The command then works in the folder of the service, for
// relative paths, if this user may. Only commands that make no database may call it.
func (p *program) takeInstalled(named string) string {
	if named != "" || p.variable("HOOKONCE_CONFIG") != "" || p.variable("HOOKONCE_DATABASE") != "" {
		return named
	}
	if _, err := os.Stat(config.DefaultFile); err == nil || !exists(app.InstalledSettings) {
		return ""
	}
	_ = os.Chdir(app.InstalledFolder)
	return app.InstalledSettings
}

// load reads the settings.
func (p *program) load(f *settingsFlags) (*config.Settings, error) {
	return p.loadWith(f, config.Flags{})
}

// loadWith is load with additional flags.
func (p *program) loadWith(f *settingsFlags, flags config.Flags) (*config.Settings, error) {
	settings, faults := p.inspect(f, flags)
	if faults == nil {
		return settings, nil
	}
	if err := f.misused(faults); err != nil {
		return nil, err
	}
	return nil, unusableSettings(faults)
}

// unusableSettings is the error of settings with faults.
func unusableSettings(faults *config.Faults) error {
	return &app.Error{Err: unusable(faults), Remedy: "fix them, and check them again: hookonce config check"}
}

func unusable(faults *config.Faults) error {
	return fmt.Errorf("the settings cannot be used:\n%w", faults)
}

// misused returns a usage error if a flag is at fault: a settings file cannot fix that.
func (f *settingsFlags) misused(faults *config.Faults) error {
	if slices.ContainsFunc(faults.List, config.Fault.FromFlag) {
		return newUsageError(f.cmd, unusable(faults))
	}
	return nil
}

// inspect reads the settings. If there are faults, the settings hold the values that could be read.
func (p *program) inspect(f *settingsFlags, flags config.Flags) (*config.Settings, *config.Faults) {
	flags.Database = f.database
	return config.Load(p.loadOptions(f.config, flags))
}

func (p *program) loadOptions(file string, flags config.Flags) config.LoadOptions {
	return config.LoadOptions{
		File: file, Environ: func() []string { return p.environ }, Flags: flags, CheckPostgres: app.CheckPostgres, CheckTLS: app.CheckTLS,
	}
}

// openFunc opens the database of the settings.
type openFunc func(context.Context, *config.Settings) (driver.Store, error)

// using opens a store, calls work with it, and closes it.
func using(ctx context.Context, settings *config.Settings, open openFunc, work func(context.Context, driver.Store) error) error {
	store, err := open(ctx, settings)
	if err != nil {
		return err
	}
	return errors.Join(work(ctx, store), store.Close())
}

// withSettings calls work with the settings and their database. It fails if the schema is not the one
// of this program, and never migrates: a running gateway may be older.
func (p *program) withSettings(ctx context.Context, f *settingsFlags, work func(context.Context, *config.Settings, driver.Store) error) error {
	settings, err := p.loadToOpen(ctx, f)
	if err != nil {
		return err
	}
	return using(ctx, settings, app.OpenStore, func(ctx context.Context, store driver.Store) error {
		if err := app.CheckSchema(ctx, store); err != nil {
			return err
		}
		return work(ctx, settings, store)
	})
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// variable returns a variable of the environment, or "".
func (p *program) variable(name string) string {
	for _, entry := range p.environ {
		if key, value, _ := strings.Cut(entry, "="); key == name {
			return value
		}
	}
	return ""
}

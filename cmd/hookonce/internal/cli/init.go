package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/deploy"
	"github.com/hookonce/hookonce/provider"
)

// beginning holds the answers that become settings.
type beginning struct {
	cmd       *cobra.Command
	providers []string
	forward   string // "" for no destination
	database  string

	systemd, compose bool
}

func (p *program) initCommand() *cobra.Command {
	b := new(beginning)
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Write settings to begin with",
		Long: "Write a commented " + config.DefaultFile + " and an .env.example into the working directory,\n" +
			"check them, and print the next steps. On a terminal the command asks for the\n" +
			"values that no flag gives. It replaces no file: if one is there, it writes none.",
		Example: "  hookonce init\n" +
			"  hookonce init --provider stripe --provider github \\\n    --forward http://127.0.0.1:3000/hooks",
		Args: noArgs,
	}
	b.cmd = cmd
	flags := cmd.Flags()
	flags.StringArrayVar(&b.providers, "provider", nil, "`NAME` of a provider that sends to you; hookonce providers lists all; may be repeated")
	flags.StringVar(&b.forward, "forward", "", "`URL` of the application that takes the events; empty for none")
	flags.StringVar(&b.database, "database", config.DefaultDatabase, "database `URL`: sqlite:PATH or postgres://...; a password goes into a variable")
	flags.BoolVar(&b.systemd, "systemd", false, "write a unit of systemd, too")
	flags.BoolVar(&b.compose, "compose", false, "write a compose file, too")
	_ = cmd.RegisterFlagCompletionFunc("provider", cobra.FixedCompletions(completions(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("forward", cobra.NoFileCompletions)
	_ = cmd.RegisterFlagCompletionFunc("database", cobra.NoFileCompletions)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return p.init(cmd.Context(), b) }
	return cmd
}

func (p *program) init(ctx context.Context, b *beginning) error {
	if err := b.check(); err != nil {
		return err
	}
	if err := refuseExisting(b.names()); err != nil {
		return err
	}
	switch err := p.canAsk(); {
	case err == nil:
		if err := p.askBeginning(ctx, b); err != nil {
			return err
		}
	case len(b.providers) == 0:
		return &usageError{err: fmt.Errorf("--provider is missing, and %w", err), hint: initWithFlags}
	}
	w, err := b.settings()
	if err != nil {
		return err
	}
	files := []file{{config.DefaultFile, []byte(w.yaml())}, {envExample, []byte(w.env())}}
	if b.systemd {
		files = append(files, file{unitFile, deploy.Unit})
	}
	if b.compose {
		files = append(files, file{composeFile, deploy.Compose})
	}
	undo, err := writeNew(files)
	if err != nil {
		return err
	}
	checked, faults := p.inspect(&settingsFlags{config: config.DefaultFile}, config.Flags{})
	if faults = besidesUnset(faults); faults != nil {
		return &app.Error{
			Err:    errors.Join(fmt.Errorf("the settings cannot be used, so nothing was written:\n%w", faults), undo()),
			Remedy: "fix that; then run the same command again",
		}
	}
	return p.printNextSteps(b, w, checked)
}

// besidesUnset returns the faults of values other than those whose variables are not set; nil for none.
func besidesUnset(faults *config.Faults) *config.Faults {
	if faults == nil {
		return nil
	}
	others := slices.DeleteFunc(slices.Clone(faults.List), func(f config.Fault) bool { return f.Unset != "" })
	if len(others) == 0 {
		return nil
	}
	return &config.Faults{File: faults.File, List: others}
}

// The files beside the settings.
const (
	envExample  = ".env.example"
	unitFile    = "hookonce.service"
	composeFile = "compose.yaml"
)

// names returns the names of the files that init writes.
func (b *beginning) names() []string {
	names := []string{config.DefaultFile, envExample}
	if b.systemd {
		names = append(names, unitFile)
	}
	if b.compose {
		names = append(names, composeFile)
	}
	return names
}

// check checks the values of flags.
func (b *beginning) check() error {
	for i, name := range b.providers {
		if _, err := provider.Lookup(provider.Name(name)); err != nil {
			return newUsageError(b.cmd, fmt.Errorf("--provider: %w", noProvider(name, err)))
		}
		if slices.Contains(b.providers[:i], name) {
			return newUsageError(b.cmd, fmt.Errorf("--provider: %s is given twice", name))
		}
	}
	if err := checkForward(b.forward); err != nil {
		return newUsageError(b.cmd, fmt.Errorf("--forward: %w", err))
	}
	if err := checkDatabase(b.database); err != nil {
		return newUsageError(b.cmd, fmt.Errorf("--database: %w", err))
	}
	return nil
}

// checkForward checks the URL of a destination as the settings do; "" is none.
func checkForward(text string) error {
	if text == "" {
		return nil
	}
	return checkFlags(config.Flags{Forwards: []string{"app=" + text}})
}

// checkDatabase checks the URL of a database as the settings do.
func checkDatabase(text string) error { return checkFlags(config.Flags{Database: text}) }

func checkFlags(flags config.Flags) error {
	_, faults := config.Load(config.LoadOptions{
		File: os.DevNull, Environ: func() []string { return nil }, CheckPostgres: app.CheckPostgres, Flags: flags,
	})
	if faults != nil {
		return errors.New(faults.List[0].Message)
	}
	return nil
}

// refuseExisting returns an error if one of the files is there.
func refuseExisting(names []string) error {
	for _, name := range names {
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return app.Errorf("%s is there already: nothing was written", name).
				Try("run hookonce init in an empty folder, or move that file away; hookonce providers NAME prints a source to add")
		}
	}
	return nil
}

type file struct {
	name string
	text []byte
}

// writeNew writes all files or none, and returns a function that removes them. It replaces none.
func writeNew(files []file) (undo func() error, err error) {
	var written []string
	undo = func() error {
		var errs []error
		for _, name := range written {
			errs = append(errs, os.Remove(name))
		}
		return errors.Join(errs...)
	}
	for _, f := range files {
		mode := fs.FileMode(0o644)
		if f.name == envExample {
			mode = 0o600 // cp keeps it for the copy, which holds secrets
		}
		out, err := os.OpenFile(f.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if err == nil {
			written = append(written, f.name)
			_, err = out.Write(f.text)
			err = errors.Join(err, out.Close())
		}
		if err != nil {
			return nil, &app.Error{
				Err:    errors.Join(fmt.Errorf("writing the settings: %w", err), undo()),
				Remedy: "make the working directory writable, and run the same command again",
			}
		}
	}
	return undo, nil
}

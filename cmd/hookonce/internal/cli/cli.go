// Package cli is the command line of hookonce: one file for each noun, on top of package app, which
// does the work.
//
// Every command writes its result to stdout and everything else to stderr. A failure prints one
// line "Error:" and, if the user can act on it, one line "Try:". The exit code is 0 for success, 1
// for a failure, 2 for a wrong command line and 3 if the requested thing does not exist.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/build"
	"github.com/hookonce/hookonce/driver"
)

// Exit codes.
const (
	exitOK       = 0
	exitFailed   = 1
	exitUsage    = 2
	exitNotFound = 3
)

// program is the process around one command.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string
	args           []string // without the program's own name
}

// Main runs the command that args name (without the program's own name) and returns the exit code
// of the process. environ has the form of os.Environ. When ctx ends, serve stops gracefully and
// every other command aborts.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int {
	out := &output{Writer: stdout}
	p := &program{stdin: stdin, stdout: out, stderr: stderr, environ: environ, args: args}
	root := p.rootCommand()
	root.SetArgs(args)
	err := checkHelp(root, args)
	if err == nil {
		err = root.ExecuteContext(ctx)
	}
	if err = out.failure(err); err == nil {
		return exitOK
	}
	p.report(root, err)
	return exitCode(err)
}

func (p *program) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "hookonce",
		Short:         "Receive webhooks exactly once",
		Long:          "Receive webhooks, and make at-least-once delivery behave like exactly-once\nprocessing.",
		Version:       build.Read().Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(p.stdin)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.AddCommand(
		p.demoCommand(),
		p.serveCommand(),
		p.initCommand(),
		p.eventsCommand(),
		p.dlqCommand(),
		p.quarantineCommand(),
		p.refusedCommand(),
		p.destinationsCommand(),
		p.sourcesCommand(),
		p.reconcileCommand(),
		p.configCommand(),
		p.providersCommand(),
		p.verifyCommand(),
		p.sendCommand(),
		p.probeCommand(),
		p.listenCommand(),
		p.pruneCommand(),
		p.backupCommand(),
		p.migrateCommand(),
		p.doctorCommand(),
		p.readyCommand(),
		p.versionCommand(),
		p.manCommand(),
		p.statsCommand(),
		p.benchCommand(),
	)
	group(root)
	root.SetVersionTemplate("hookonce {{.Version}}\n")
	root.SetUsageTemplate(strings.NewReplacer(
		".FlagUsages", ".FlagUsagesWrapped 80", "for more information about a command.", "for more about a command.",
	).Replace(root.UsageTemplate()))
	root.SetHelpCommand(helpCommand())
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return newUsageError(cmd, flagError(err)) })
	strict(root)
	return root
}

// group sorts the commands in the help by the purpose of their user. The rest stands below them.
func group(root *cobra.Command) {
	for _, g := range []struct {
		id, title string
		names     []string
	}{
		{"start", "Start:", []string{"demo", "init", "serve"}},
		{"look", "Look:", []string{"events", "refused", "destinations", "sources", "stats", "ready"}},
		{"repair", "Repair:", []string{"doctor", "dlq", "quarantine", "reconcile", "prune"}},
		{"test", "Test:", []string{"send", "listen", "verify", "probe", "bench"}},
		{"setup", "Set up:", []string{"config", "providers", "migrate", "backup"}},
	} {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, cmd := range root.Commands() {
			if slices.Contains(g.names, cmd.Name()) {
				cmd.GroupID = g.id
			}
		}
	}
}

// strict makes cmd and its subcommands fail with a usage error if the command line is wrong. By
// default cobra prints the help of a noun with an unknown verb, and succeeds.
func strict(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		strict(sub)
	}
	if !cmd.Runnable() {
		cmd.RunE = func(cmd *cobra.Command, _ []string) error {
			return newUsageError(cmd, fmt.Errorf("%q needs one of: %s", cmd.CommandPath(), strings.Join(verbs(cmd), ", ")))
		}
		cmd.Args = noArgs
	}
	check := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if cmd.HasSubCommands() && len(args) > 0 {
			return unknownCommand(cmd, args[0])
		}
		if check == nil {
			return nil
		}
		if err := check(cmd, args); err != nil {
			return newUsageError(cmd, err)
		}
		return nil
	}
}

// checkHelp refuses an unknown command with --help: cobra would print the help of the noun, and succeed.
func checkHelp(root *cobra.Command, args []string) error {
	if !slices.Contains(args, "--help") && !slices.Contains(args, "-h") {
		return nil
	}
	found, rest, err := root.Find(args)
	if err != nil || !found.HasSubCommands() { // a noun has no flags with a value
		return nil //nolint:nilerr // cobra reports it
	}
	if i := slices.IndexFunc(rest, func(arg string) bool { return !strings.HasPrefix(arg, "-") }); i >= 0 {
		return unknownCommand(found, rest[i])
	}
	return nil
}

// noArgs refuses arguments. It does not quote them: one may be a secret whose flag was forgotten.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%q takes no arguments, only flags", cmd.CommandPath())
	}
	return nil
}

// arguments demands one argument for each name. It does not quote them, as noArgs.
func arguments(names ...string) cobra.PositionalArgs {
	need := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name[0] == '[' })
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(need):
			return fmt.Errorf("%q needs %s: %s is missing", cmd.CommandPath(), strings.Join(names, " "), need[len(args)])
		case len(args) > len(names):
			return fmt.Errorf("%q takes only %s, and got %d arguments", cmd.CommandPath(), strings.Join(names, " "), len(args))
		}
		if empty := slices.Index(args, ""); empty >= 0 {
			empty += len(names) - len(args)
			return fmt.Errorf("%q: %s is empty", cmd.CommandPath(), strings.Trim(names[empty], "[]"))
		}
		return nil
	}
}

// atMostOne takes at most one argument.
func atMostOne(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return arguments(name)(cmd, args)
		}
		return nil
	}
}

func unknownCommand(cmd *cobra.Command, name string) error {
	text := fmt.Sprintf("unknown command %q for %q", name, cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2 // cobra sets its default only on its own path
	if near := cmd.SuggestionsFor(name); len(near) > 0 {
		text += fmt.Sprintf("; did you mean %q?", near[0])
	}
	return newUsageError(cmd, errors.New(text))
}

// flagError says which values a flag takes. Such a value is no secret: secrets are text.
func flagError(err error) error {
	bad, is := errors.AsType[*pflag.InvalidValueError](err)
	if !is {
		return err
	}
	if errors.Is(err, errGivenTwice) {
		return fmt.Errorf("--%s is given twice, and only one value selects", bad.GetFlag().Name)
	}
	want := map[string]string{
		"bool": "true or false", "duration": "a duration such as 90s, 15m or 1h30m", "int": "a whole number", "int64": "a whole number",
	}[bad.GetFlag().Value.Type()]
	if want == "" {
		return err
	}
	return fmt.Errorf("--%s: %q is not %s", bad.GetFlag().Name, bad.GetValue(), want)
}

func verbs(cmd *cobra.Command) []string {
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	return names
}

// helpCommand is cobra's help command, except that an unknown topic is an error.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [command]",
		Short: "Help about any command",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return unknownCommand(cmd.Root(), strings.Join(args, " "))
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

// usageError says that the command line is wrong.
type usageError struct {
	err  error
	hint string
}

func newUsageError(cmd *cobra.Command, err error) error {
	return &usageError{err: err, hint: cmd.CommandPath() + " --help"}
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }
func (e *usageError) Hint() string  { return e.hint }

func exitCode(err error) int {
	var usage *usageError
	switch {
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, driver.ErrNotFound):
		return exitNotFound
	}
	return exitFailed
}

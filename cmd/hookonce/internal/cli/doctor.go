package cli

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/adminclient"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/internal/say"
)

// checked is the shape of --json for one check.
type checked struct {
	Name   string     `json:"name"`
	Status app.Status `json:"status"` // ok, warning, failure or skipped
	Seen   []string   `json:"seen"`   // the findings, or why the check was skipped
	Remedy string     `json:"remedy"` // what to do, one thing a line; "" if there is nothing to do
	See    string     `json:"see"`    // address of more about it; "" for none
}

func (p *program) doctorCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check settings, database and clocks; change nothing",
		Long: "Check the settings and the certificates of tls, and that the database can be\n" +
			"reached, has the schema of this program, keeps confirmed commits, and agrees\n" +
			"with the clock of this machine.\n" +
			"Tell what a failover of PostgreSQL does to acknowledged events.\n" +
			"Look for triggers that may drop events. Count dead letters, quarantined\n" +
			"requests, and messages that wait for an unknown destination. Ask the running\n" +
			"gateway whether it is ready, and for its settings and warnings. The command\n" +
			"changes nothing, and gateways may run meanwhile. The exit code is 1 if a check\n" +
			"fails.\n" +
			"In a folder without settings it takes those of the package, if there are any.",
		Args: noArgs,
	}
	flags := addAPIFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if p.readAdminURL(flags); flags.adminURL == "" && flags.database == "" {
			flags.config = p.takeInstalled(flags.config)
		}
		settings, faults := p.inspect(flags.settingsFlags, config.Flags{})
		if faults != nil {
			if err := flags.misused(faults); err != nil {
				return err
			}
		}
		client, err := p.namedOrLocal(cmd.Context(), flags, settings)
		if err != nil {
			return err
		}
		if flags.adminURL == "" && client == nil && p.mayGuess(flags.settingsFlags, settings, faults) {
			client = answering(cmd.Context(), settings)
			switch nameless := p.noDatabase(flags.settingsFlags, settings); {
			case client != nil && nameless:
				settings.Database = "" // no settings led to it, and any program may say that it is a gateway
			case client != nil && p.missing(settings):
				settings.Database = databaseOf(cmd.Context(), client, settings)
			case client == nil && nameless && faults == nil && p.missing(settings):
				return p.nothingHere(flags.settingsFlags, settings)
			}
		}
		if flags.adminURL != "" && p.noDatabase(flags.settingsFlags, settings) {
			settings.Database = "" // the default is that of a gateway here
		}
		if flags.adminURL != "" { // which HOOKONCE_READ_TOKEN is for
			settings.Warnings = slices.DeleteFunc(settings.Warnings, func(w config.Fault) bool { return w.Path == readToken })
		}
		var gateway app.Gateway
		if client != nil {
			gateway = client
		}
		checks := app.Doctor(cmd.Context(), settings, faults, gateway)
		if err := p.printChecks(checks, asJSON); err != nil {
			return err
		}
		failures := len(slices.DeleteFunc(slices.Clone(checks), func(c app.Check) bool { return c.Status != app.StatusFailure }))
		if failures > 0 {
			return app.Errorf("%s failed", say.Count(failures, "check")).
				Try("follow the remedies on the standard output")
		}
		return nil
	}
	return cmd
}

// databaseOf returns the SQLite file of a gateway, whose folder the path in its settings is relative to. It returns "" if
// only that gateway can open its database.
func databaseOf(ctx context.Context, client *adminclient.Client, settings *config.Settings) string {
	about, err := client.Gateway(ctx)
	if err != nil {
		return ""
	}
	given, _ := settings.SQLitePath()
	path, is := strings.CutPrefix(about.Database, "sqlite:")
	if is && !filepath.IsAbs(given) && filepath.IsAbs(path) && strings.HasSuffix(path, string(filepath.Separator)+filepath.Clean(given)) && exists(path) {
		return about.Database
	}
	return ""
}

// noDatabase reports whether nothing names a database: no flag, no variable and no file.
func (p *program) noDatabase(f *settingsFlags, settings *config.Settings) bool {
	return f.database == "" && settings.File == "" && p.variable("HOOKONCE_DATABASE") == ""
}

func (p *program) printChecks(checks []app.Check, asJSON bool) error {
	if asJSON {
		out := struct {
			Checks []checked `json:"checks"`
		}{Checks: []checked{}}
		for _, c := range checks {
			out.Checks = append(out.Checks, checked{c.Name, c.Status, c.Seen, c.Remedy, cmp.Or(c.Link, seeURL(c.See))})
		}
		return writeJSON(p.stdout, out)
	}
	t := newFacts(p.stdout)
	t.checks = true
	for _, c := range checks {
		lines := strings.Split(strings.Join(c.Seen, "\n"), "\n")
		t.row(string(c.Status), c.Name, lines[0])
		for _, line := range lines[1:] {
			t.row("", "", line)
		}
		for line := range strings.Lines(c.Remedy) {
			t.row("", "", "→ "+strings.TrimSuffix(line, "\n"))
		}
		if see := cmp.Or(c.Link, seeURL(c.See)); see != "" {
			t.row("", "", "  "+see)
		}
	}
	t.Flush()
	return p.written()
}

package cli

import (
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/build"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/internal/runbook"
)

func (p *program) serveCommand() *cobra.Command {
	var extra config.Flags
	var logs logFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the gateway",
		Long: "Run the gateway: receive webhooks, and send their messages to destinations.\n\n" +
			"SIGTERM or SIGINT stops it gracefully, within 30 seconds unless shutdown_delay\n" +
			"asks for more. A second signal kills it at once, which loses no acknowledged\n" +
			"event. SIGHUP reloads sources, destinations and routes. If the new settings are\n" +
			"wrong, the old ones stay in force.\n\n" +
			"Once it serves, stdout has its addresses and a command to try: as text, or as\n" +
			"one line of JSON if stdout is no terminal and the log is JSON. The log goes to\n" +
			"stderr.",
		Example: "  hookonce serve --source gh=github:SECRET \\\n    --forward app=http://127.0.0.1:3000/hooks",
		Args:    noArgs,
	}
	flags := addSettingsFlags(cmd)
	cmd.Flags().StringVar(&extra.Listen, "listen", "", "`ADDRESS` of /webhooks/ (default \""+config.DefaultListen+"\")")
	cmd.Flags().StringVar(&extra.AdminListen, "admin-listen", "", "`ADDRESS` of the dashboard and the admin API (default \""+config.DefaultAdminListen+"\")")
	cmd.Flags().StringArrayVar(&extra.Sources, "source", nil, "add a source, as `NAME=PROVIDER:SECRET`; SECRET may be file:PATH; may be repeated")
	cmd.Flags().StringArrayVar(&extra.Forwards, "forward", nil,
		"send events to a URL, as `NAME=URL`: NAME is a source, or a new destination for the events of all sources; may be repeated")
	logs.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		logger, err := p.newLogger(cmd, &logs)
		if err != nil {
			return err
		}
		load := func() (*config.Settings, error) { return p.loadToServe(flags, extra) }
		settings, err := load()
		if err != nil {
			return see(runbook.NoStart, err)
		}
		ctx, restore := interruptible(cmd.Context()) // a second signal kills the process, which is safe at any moment
		defer restore()
		hangups := make(chan os.Signal, 1)
		signal.Notify(hangups, syscall.SIGHUP)
		defer signal.Stop(hangups)
		built := build.Read()
		return see(runbook.NoStart, app.Serve(ctx, &app.Options{
			Settings: settings, Logger: logger, Hangups: hangups, Reload: load, Version: built.Version, Revision: built.Revision, Docs: build.Page("README.md"),
			Serving: func(public, admin string) { p.printBanner(&banner{settings, public, admin}, &logs) },
		}))
	}
	return cmd
}

// loadToServe reads the settings and drops the warnings that the engine gives at its start.
func (p *program) loadToServe(flags *settingsFlags, extra config.Flags) (*config.Settings, error) {
	settings, err := p.loadWith(flags, extra)
	if err == nil {
		settings.Warnings = slices.DeleteFunc(settings.Warnings, func(w config.Fault) bool { return w.AtStart })
	}
	return settings, err
}

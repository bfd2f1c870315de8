package cli

import (
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
)

func (p *program) serveCommand() *cobra.Command {
	var extra config.Flags
	var logs logFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the gateway",
		Long: "Run the gateway: receive webhooks, and send on what they owe. SIGTERM or SIGINT stops it gracefully,\n" +
			"within 30 seconds unless shutdown_delay asks for more; a second one ends it at once, and nothing that was\n" +
			"acknowledged is lost by that. SIGHUP reads the settings again, and puts sources, destinations and routes\n" +
			"into force; wrong ones leave the old in force.",
		Example: "  hookonce serve --source gh=github:SECRET --forward app=http://127.0.0.1:3000/hooks",
		Args:    noArgs,
	}
	flags := addSettingsFlags(cmd)
	cmd.Flags().StringVar(&extra.Listen, "listen", "", "address of /webhooks/ (default \""+config.DefaultListen+"\")")
	cmd.Flags().StringVar(&extra.AdminListen, "admin-listen", "", "address of the admin API (default \""+config.DefaultAdminListen+"\")")
	cmd.Flags().StringArrayVar(&extra.Sources, "source", nil, "add a source: NAME=PROVIDER:SECRET; SECRET may be file:PATH")
	cmd.Flags().StringArrayVar(&extra.Forwards, "forward", nil,
		"send events to a URL: NAME=URL, where NAME is a source, or a new destination for the events of all")
	logs.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		logger, err := p.newLogger(cmd, &logs)
		if err != nil {
			return err
		}
		load := func() (*config.Settings, error) { return p.loadToServe(flags, extra) }
		settings, err := load()
		if err != nil {
			return err
		}
		ctx, restore := interruptible(cmd.Context()) // a second signal ends the process, which is safe at any moment
		defer restore()
		hangups := make(chan os.Signal, 1)
		signal.Notify(hangups, syscall.SIGHUP)
		defer signal.Stop(hangups)
		return app.Serve(ctx, &app.Options{
			Settings: settings, Logger: logger, Hangups: hangups, Reload: load,
		})
	}
	return cmd
}

// loadToServe reads the settings without those warnings that the engine gives itself.
func (p *program) loadToServe(flags *settingsFlags, extra config.Flags) (*config.Settings, error) {
	settings, err := p.loadWith(flags, extra)
	if err == nil {
		settings.Warnings = slices.DeleteFunc(settings.Warnings, func(w config.Fault) bool { return w.AtStart })
	}
	return settings, err
}

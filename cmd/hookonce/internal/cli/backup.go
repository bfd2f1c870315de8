package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/internal/shown"
)

func (p *program) backupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the SQLite database to a new file, while it runs",
		Long: "Copy the SQLite database to a new file, also while a gateway writes to it. The\n" +
			"copy has all that was committed when the command began. Only its owner can\n" +
			"read it. FILE must not exist.",
		Example: "  hookonce backup hookonce-$(date +%F).db",
		Args:    arguments("FILE"),
	}
	flags := addSettingsFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		settings, err := p.loadToOpen(cmd.Context(), flags)
		if err != nil {
			return err
		}
		if err := app.Backup(cmd.Context(), settings, args[0]); err != nil {
			return err
		}
		_, err = fmt.Fprintf(p.stdout, "copied %s to %s\n", settings.DatabaseDisplay(), shown.Escape(args[0]))
		return err
	}
	return cmd
}

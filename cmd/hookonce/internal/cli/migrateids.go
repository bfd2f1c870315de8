package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/say"
)

func (p *program) migrateIDsCommand() *cobra.Command {
	var from string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ids",
		Short: "Carry the claimed ids of another database over",
		Long: "Claim each event of another database in that of the settings, as done: copies\n" +
			"that senders deliver later are duplicates. Bodies come along; attempts, history\n" +
			"and the quarantine stay. Stop the gateway of the other database first. The\n" +
			"command refuses one where work waits or is dead. It may be repeated.",
		Example: "  hookonce migrate ids --from sqlite:hookonce.db \\\n    --database postgres://hookonce@db/hookonce",
		Args:    noArgs,
	}
	flags := addSettingsFlags(cmd)
	cmd.Flags().StringVar(&from, "from", "", "database `URL` to carry them from")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	_ = cmd.RegisterFlagCompletionFunc("from", cobra.NoFileCompletions)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if from == "" {
			return &usageError{err: errors.New("--from is missing"), hint: "name the other database, as --from sqlite:hookonce.db"}
		}
		if err := checkDatabase(from); err != nil {
			return newUsageError(cmd, fmt.Errorf("--from: %w", err))
		}
		return p.withSettings(cmd.Context(), flags, func(ctx context.Context, settings *config.Settings, store driver.Store) error {
			if from == settings.Database {
				return &usageError{err: errors.New("--from is the database of the settings"), hint: "name the other one"}
			}
			progress := p.newProgress()
			carried, err := app.CarryIDs(ctx, &config.Settings{Database: from, Schema: settings.Schema}, store, func(c app.Carried) {
				progress.show("%s carried over", say.Number(c.Claimed+c.Known))
			})
			progress.end()
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(p.stdout, carried)
			}
			_, err = fmt.Fprintf(p.stdout, "carried over %s; known before: %s\n", say.Count(carried.Claimed, "id"), say.Number(carried.Known))
			return err
		})
	}
	return cmd
}

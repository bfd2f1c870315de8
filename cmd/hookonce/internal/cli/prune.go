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

// pruned is the shape of --json.
type pruned struct {
	Events      int64 `json:"events,string"`
	Bodies      int64 `json:"bodies,string"`
	Quarantined int64 `json:"quarantined,string"`
}

func (p *program) pruneCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove finished data that is past its window",
		Long: "Remove finished data, as serve does from time to time: bodies and headers past\n" +
			"their retention, identities past the dedupe window, and the quarantine beyond\n" +
			"its bounds. Pending, running and dead events stay.",
		Args: noArgs,
	}
	flags := addSettingsFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return p.withSettings(cmd.Context(), flags, func(ctx context.Context, settings *config.Settings, store driver.Store) error {
			result, err := app.Prune(ctx, store, settings)
			if err != nil && (result == nil || result.Total() == 0) {
				return err
			}
			if asJSON {
				return errors.Join(err, writeJSON(p.stdout, pruned{result.Events, result.Bodies, result.Quarantined}))
			}
			_, printed := fmt.Fprintf(p.stdout, "removed %s, the bodies of %d more, and %s\n",
				say.Count(result.Events, "event"), result.Bodies, say.Count(result.Quarantined, "quarantined request"))
			return errors.Join(err, printed)
		})
	}
	return cmd
}

package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/driver"
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
		Short: "Remove what is finished and past its window, as serve does from time to time",
		Long: "Remove what is finished and past its window, as serve does from time to time: bodies and headers past\n" +
			"their retention, identities past the dedupe window, and the quarantine beyond its bounds. What is\n" +
			"pending, running or dead stays.",
		Args: noArgs,
	}
	flags := addSettingsFlags(cmd)
	addJSONFlag(cmd, &asJSON)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return p.withSettings(cmd.Context(), flags, func(ctx context.Context, settings *config.Settings, store driver.Store) error {
			result, err := app.Prune(ctx, store, settings)
			if err != nil {
				return fmt.Errorf("pruning: %w", err)
			}
			if asJSON {
				return writeJSON(p.stdout, pruned(*result))
			}
			_, err = fmt.Fprintf(p.stdout, "removed %d events, the bodies of %d more, and %d quarantined requests\n",
				result.Events, result.Bodies, result.Quarantined)
			return err
		})
	}
	return cmd
}

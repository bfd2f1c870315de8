package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/say"
)

func (p *program) statsCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{Use: "stats", Short: "Count waiting, dead and quarantined work", Args: noArgs}
	flags := addAPIFlags(cmd)
	addJSONFlag(cmd, &asJSON)
	p.complete(flags, false)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return p.withAPI(cmd.Context(), flags, reads, func(ctx context.Context, api *api) error {
			stats, err := api.Stats(ctx)
			switch {
			case err != nil:
				return fmt.Errorf("counting: %w", err)
			case asJSON:
				return writeJSON(p.stdout, stats)
			}
			p.printStats(stats)
			return nil
		})
	}
	return cmd
}

func (p *program) printStats(s *hookadmin.Stats) {
	t := newFacts(p.stdout)
	for _, line := range []struct {
		key, name string
		n         int64
		oldest    hookadmin.Time
	}{
		{"events_pending", "Events pending", s.EventsPending, s.OldestPendingAt},
		{"messages_pending", "Messages pending", s.MessagesPending, s.OldestDueAt},
		{"messages_sending", "Messages sending", s.MessagesSending, hookadmin.Time{}},
		{"dead_letters", "Dead letters", s.DeadLetters, hookadmin.Time{}},
		{"quarantined", "Quarantined", s.Quarantined, hookadmin.Time{}},
	} {
		count := say.Number(line.n)
		if slices.Contains(s.More, line.key) {
			count += "+"
		}
		if oldest := at(line.oldest); oldest != at(hookadmin.Time{}) {
			count += ", the oldest due at " + oldest
		}
		t.row(line.name+":", count)
	}
	t.row("Paused:", orDash(strings.Join(s.Paused, ", ")))
	t.Flush()
}

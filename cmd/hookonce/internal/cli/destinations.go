package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/hookadmin"
)

func (p *program) destinationsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "destinations", Short: "List destinations: state, open messages, dead letters"}
	cmd.AddCommand(p.destinationsListCommand())
	return cmd
}

func (p *program) destinationsListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the destinations, and the messages that are stuck there",
		Long: "List the destinations, with their pending, sending and dead messages and the age\n" +
			"of the oldest due one. STATE is ok, paused, circuit open (it fails, and the\n" +
			"gateway that answers only probes it) or not in the settings (its messages wait).",
		Args: noArgs,
	}
	flags := addAPIFlags(cmd)
	addJSONFlag(cmd, &asJSON)
	p.complete(flags, false)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return p.withAPI(cmd.Context(), flags, reads, func(ctx context.Context, api *api) error {
			page, err := api.Destinations(ctx)
			if err != nil {
				return fmt.Errorf("listing the destinations: %w", err)
			}
			if asJSON {
				return writeJSON(p.stdout, page)
			}
			return p.printDestinations(page.Destinations)
		})
	}
	return cmd
}

func (p *program) printDestinations(list []hookadmin.Destination) error {
	if len(list) == 0 {
		fmt.Fprintln(p.stderr, "No destinations.")
		return nil
	}
	t := newTable(p.stdout, []narrowing{
		{"OLDEST DUE", brief}, {"ADDRESS", 20}, {"ADDRESS", out}, {"DESTINATION", 16}, {"SENDING", out}, {"OLDEST DUE", out}, {"DESTINATION", 8},
	}, "DESTINATION", "STATE", "PENDING", "SENDING", "DEAD", "OLDEST DUE", "ADDRESS")
	for i := range list {
		d := &list[i]
		address := ""
		if d.Settings != nil {
			address = d.Settings.Address
		}
		t.row(d.Name, stateOf(d), atLeast(d.Pending, d.More, "pending"), atLeast(d.Sending, d.More, "sending"),
			atLeast(d.Dead, d.More, "dead"), at(d.OldestDue), orDash(address))
	}
	return t.Flush()
}

// stateOf returns the state of a destination for people.
func stateOf(d *hookadmin.Destination) string {
	switch {
	case !d.Configured:
		return "not in the settings"
	case d.Paused != nil && *d.Paused:
		return "paused"
	case d.Circuit != nil && d.Circuit.Open:
		return "circuit open"
	}
	return "ok"
}

// atLeast formats a count that may be unknown, or stand for so many or more.
func atLeast(n *int64, more []string, key string) string {
	switch {
	case n == nil:
		return "unknown"
	case slices.Contains(more, key):
		return strconv.FormatInt(*n, 10) + "+"
	}
	return strconv.FormatInt(*n, 10)
}

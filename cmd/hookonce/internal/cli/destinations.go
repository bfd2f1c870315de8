package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/adminclient"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/internal/shown"
)

func (p *program) destinationsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "destinations", Short: "List destinations, pause or resume one, or retry its messages"}
	cmd.AddCommand(p.destinationsListCommand())
	for i := range destinationChanges {
		cmd.AddCommand(p.destinationChangeCommand(&destinationChanges[i]))
	}
	return cmd
}

var destinationList = &list[hookadmin.DestinationPage, hookadmin.Destination]{
	things: "destinations", doing: "listing the destinations",
	ask: func(client *adminclient.Client, ctx context.Context, _ url.Values) (*hookadmin.DestinationPage, error) {
		return client.Destinations(ctx)
	},
	rows: func(page *hookadmin.DestinationPage) ([]hookadmin.Destination, string, hookadmin.Time) {
		return page.Destinations, "", hookadmin.Time{}
	},
	narrow: []narrowing{
		{"LAST ERROR", whole}, {"OLDEST DUE", brief}, {"ADDRESS", 20}, {"ADDRESS", out}, {"DESTINATION", 16}, {"SENDING", out}, {"OLDEST DUE", out}, {"DESTINATION", 8},
	},
	columns: []string{"DESTINATION", "STATE", "PENDING", "SENDING", "DEAD", "OLDEST DUE", "ADDRESS", "LAST ERROR"},
	cells: func(d *hookadmin.Destination) []string {
		address, failure := "", ""
		if d.LastFailure != nil {
			failure = d.LastFailure.String()
		}
		if d.Settings != nil {
			address = d.Settings.Address
		}
		return []string{
			d.Name, stateOf(d), atLeast(d.Pending, d.More, "pending"), atLeast(d.Sending, d.More, "sending"),
			atLeast(d.Dead, d.More, "dead"), at(d.OldestDue), orDash(address), orDash(failure),
		}
	},
}

func (p *program) destinationsListCommand() *cobra.Command {
	return destinationList.command(p, &cobra.Command{
		Use:   "list",
		Short: "List the destinations, and the messages that are stuck there",
		Long: "List the destinations, with their pending, sending and dead messages, the oldest\n" +
			"due one, and the last failed attempt of a message that was not sent since. STATE\n" +
			"is ok, paused, circuit open (it fails, and the gateway that answers only probes\n" +
			"it) or not in the settings (its messages wait).",
	})
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

// destinationChange is a change of one destination, with its texts.
type destinationChange struct {
	verb, short, long string
	// run makes the change. It returns the shape of --json, and a line for people.
	run func(ctx context.Context, api *api, name string) (any, string, error)
}

var destinationChanges = []destinationChange{
	{
		"pause", "Send nothing to a destination until it is resumed",
		"Send nothing to a destination until it is resumed. That holds for every gateway\nof the database. Messages wait and keep their attempts.",
		func(ctx context.Context, api *api, name string) (any, string, error) {
			paused, err := api.PauseDestination(ctx, name)
			return paused, "paused " + name + "; to go on: hookonce destinations resume " + word(name), err
		},
	},
	{
		"resume", "Send to a paused destination again",
		"Send to a paused destination again. One that is not paused stays as it is.",
		func(ctx context.Context, api *api, name string) (any, string, error) {
			resumed, err := api.ResumeDestination(ctx, name)
			return resumed, "resumed " + name, err
		},
	},
	{
		"retry", "Make the waiting messages of a destination due now",
		"Make the messages of a destination that wait for another attempt due now, for\nexample after a repair. Dead ones are replayed by dlq replay.",
		func(ctx context.Context, api *api, name string) (any, string, error) {
			all := &hookadmin.DestinationRetried{Name: name}
			for {
				retried, err := api.RetryDestination(ctx, name)
				if err != nil {
					return nil, "", err
				}
				all.Retried, all.More = all.Retried+retried.Retried, retried.More
				if !retried.More || retried.Retried == 0 { // without progress it would never end
					return all, retriedText(ctx, api, all), nil
				}
			}
		},
	},
}

// retriedText says how many messages a retry made due, and why they may still wait.
func retriedText(ctx context.Context, api *api, all *hookadmin.DestinationRetried) string {
	text := say.Count(all.Retried, "message") + " to " + all.Name + " due now"
	if all.Retried == 0 {
		text = "no message waits for " + all.Name + "; if its circuit is open, the next message is a probe"
	}
	page, err := api.Destinations(ctx)
	if err != nil {
		return text
	}
	for i := range page.Destinations {
		d := &page.Destinations[i]
		if d.Name == all.Name && d.Paused != nil && *d.Paused {
			text += "; it is paused, and sends nothing until hookonce destinations resume " + word(d.Name)
		}
		if d.Name == all.Name && d.Dead != nil && *d.Dead > 0 {
			text += "; " + say.Count(int(*d.Dead), "dead letter") + " left: hookonce dlq replay --destination " + word(d.Name)
		}
	}
	return text
}

func (p *program) destinationChangeCommand(change *destinationChange) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: change.verb + " NAME", Short: change.short, Long: change.long,
		Example: "  hookonce destinations " + change.verb + " billing",
		Args:    arguments("NAME"),
	}
	flags := addAPIFlags(cmd)
	addJSONFlag(cmd, &asJSON)
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return p.destinationNames(flags), cobra.ShellCompDirectiveNoFileComp
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return p.withAPI(cmd.Context(), flags, changes, func(ctx context.Context, api *api) error {
			changed, line, err := change.run(ctx, api, args[0])
			switch {
			case errors.Is(err, driver.ErrNotFound):
				near, _ := unknownDestination(ctx, api.Client, args[0])
				return app.Errorf("destination %q: %w%s", args[0], driver.ErrNotFound, near).
					Try("hookonce destinations list")
			case err != nil:
				return err
			case asJSON:
				return writeJSON(p.stdout, changed)
			}
			_, err = fmt.Fprintln(p.stdout, shown.Escape(line))
			return err
		})
	}
	return cmd
}

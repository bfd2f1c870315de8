package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/adminclient"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/shown"
)

// maxNewest bounds -n.
const maxNewest = 10_000

func (p *program) eventsTailCommand() *cobra.Command {
	var asJSON bool
	var newest int
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Print the newest events, then outcomes as they happen",
		Long: "Print the newest events, oldest first, and then each delivery, attempt, refusal\n" +
			"and operator's change as it happens, until interrupted. Without a running\n" +
			"gateway, print each new event once, as it is within seconds of its arrival.\n\n" +
			"On a terminal, p pauses, / filters by a text, Esc clears the filter, k and j\n" +
			"select an older and a newer event, Enter shows it, r replays it, and q ends.",
		Args: noArgs,
	}
	flags := addAPIFlags(cmd)
	addFilterFlags(cmd, tailFilters)
	cmd.Flags().IntVarP(&newest, "newest", "n", 10, fmt.Sprintf("begin with the newest `N` events, 0 to %d", maxNewest))
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one row per line, in the shape of the stream of the API")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		query, filter, err := readFilter(cmd, tailFilters, hookadmin.ParseStreamFilter)
		if err != nil {
			return err
		}
		if newest < 0 || newest > maxNewest {
			return newUsageError(cmd, fmt.Errorf("--newest: %d is not a number from 0 to %d", newest, maxNewest))
		}
		ctx, restore := interruptible(cmd.Context())
		defer restore()
		t := &tail{program: p, query: query, filter: filter, newest: newest, asJSON: asJSON, out: p.newTailWriter(asJSON), notes: p.stderr}
		client, settings, err := p.findGateway(ctx, flags, reads)
		switch {
		case err != nil:
			return err
		case client != nil:
			return t.watch(ctx, gatewayAPI(client), func(ctx context.Context) error { return t.follow(ctx, client) })
		}
		state, err := t.state()
		if err != nil {
			return newUsageError(cmd, err)
		}
		if flags.database == "" && p.missing(settings) {
			return p.nothingHere(flags.settingsFlags, settings)
		}
		return using(ctx, settings, app.OpenStore, func(ctx context.Context, store driver.Store) error {
			if err := app.CheckSchema(ctx, store); err != nil {
				return err
			}
			fmt.Fprintln(p.stderr, "No gateway runs here: following the events of the database.")
			polled := &app.Follow{
				Store: store, Settings: settings, Newest: newest, Show: t.showStored, Trouble: t.trouble,
				Filter: driver.EventFilter{Source: filter.Source, Type: filter.Type, State: state},
			}
			here := func() (*api, error) { return p.apiOf(store, settings, changes) }
			if reader, err := p.apiOf(store, settings, reads); err == nil {
				warnOfSource(ctx, p.stderr, reader.Client, filter.Source)
			}
			return t.watch(ctx, here, polled.Run)
		})
	}
	return cmd
}

// tail is one run of "events tail".
type tail struct {
	*program
	query  url.Values
	filter *hookadmin.StreamFilter
	newest int
	asJSON bool
	out    tailWriter
	notes  io.Writer

	// listed are the events of the beginning, by source and id: their deliveries are not shown again.
	listed map[[2]string]bool
}

// state returns the state of the stored events that the filter selects, or "" for any. Events have no
// other outcome than their state.
func (t *tail) state() (string, error) {
	f := t.filter
	if f.Kind != "" || f.Destination != "" || f.Outcome != "" && !slices.Contains(driver.EventStates(), f.Outcome) {
		return "", errors.New("--kind, --destination and this --outcome need a running gateway; " +
			"start it, name it by --admin-url, or use --outcome done, dead or skipped")
	}
	return f.Outcome, nil
}

// follow shows the stream of a gateway, after the newest events.
func (t *tail) follow(ctx context.Context, client *adminclient.Client) error {
	f := &adminclient.Follow{
		Query: t.query, Trouble: t.trouble,
		Opened: func() error {
			err := t.begin(ctx, client)
			fmt.Fprintf(t.notes, "Following the gateway at %s.\n", client)
			return err
		},
		Show: func(row *hookadmin.StreamRow) error {
			if row.Kind == driver.FeedDelivery.String() && row.Outcome == "ok" && t.listed[[2]string{row.Source, row.EventID}] {
				return nil
			}
			return t.out.write(row)
		},
		Missing: func() {
			fmt.Fprintln(t.notes, "Warning: some rows are missing here; hookonce events list shows their events")
		},
	}
	if err := f.Run(ctx, client); err != nil {
		return fmt.Errorf("following the stream: %w", err)
	}
	return nil
}

func (t *tail) trouble(err error) {
	fmt.Fprintf(t.notes, "Warning: %s; retrying\n", shown.EscapeLines(err.Error()))
}

// begin shows the newest events, unless the filter selects only rows that are not events.
func (t *tail) begin(ctx context.Context, client *adminclient.Client) error {
	state, err := t.state()
	if err != nil {
		return nil //nolint:nilerr // the stream has such rows
	}
	query := url.Values{"source": {t.filter.Source}, "type": {t.filter.Type}, "state": {state}}
	var events []hookadmin.Event
	err = adminclient.EachPage(query, func(query url.Values) (string, error) {
		left := t.newest - len(events)
		if left <= 0 {
			return "", nil
		}
		query.Set("limit", strconv.Itoa(min(left, driver.MaxLimit)))
		page, err := client.Events(ctx, query)
		if err != nil {
			return "", err
		}
		events = append(events, page.Events...)
		return page.Next, nil
	})
	if err != nil {
		return fmt.Errorf("listing the newest events: %w", err)
	}
	t.listed = make(map[[2]string]bool, len(events))
	for i := range events {
		t.listed[[2]string{events[i].Source, events[i].EventID}] = true
	}
	if len(events) == 0 {
		warnOfSource(ctx, t.notes, client, t.filter.Source)
	}
	slices.Reverse(events)
	return t.showEvents(events)
}

// showStored shows new events of the database.
func (t *tail) showStored(events []driver.Event) error {
	return t.showEvents(hookadmin.NewEventPage(&driver.EventPage{Events: events}).Events)
}

func (t *tail) showEvents(events []hookadmin.Event) error {
	for i := range events {
		ev := &events[i]
		row := &hookadmin.StreamRow{
			Kind: driver.FeedEvent.String(), At: ev.ReceivedAt, Source: ev.Source, EventID: ev.EventID, Type: ev.Type, Outcome: ev.State,
			Attempt: ev.Attempts, Error: ev.LastError, Reason: ev.Note,
		}
		if err := t.out.write(row); err != nil {
			return err
		}
	}
	return nil
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/adminclient"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/operate"
	"github.com/hookonce/hookonce/internal/say"
)

// quarantineFilters are the filters of quarantine list.
var quarantineFilters = []filterFlag{
	{"source", "only requests to this `SOURCE`"},
	{"limit", "at most `N` rows, 1 to 20 (default 10)"},
	{"cursor", "continue after the previous page, at its `CURSOR`"},
}

func (p *program) quarantineCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "quarantine", Short: "List, show or retry verified requests that could not be read"}
	cmd.AddCommand(p.quarantineListCommand(), p.quarantineShowCommand(), p.quarantineRetryCommand())
	return cmd
}

var quarantineList = &list[hookadmin.QuarantinePage, hookadmin.QuarantinedRequest]{
	things: "quarantined requests", doing: "listing the quarantine",
	filters: quarantineFilters, parse: checkedBy(hookadmin.ParseQuarantineFilter), ask: (*adminclient.Client).Quarantine,
	rows: func(page *hookadmin.QuarantinePage) ([]hookadmin.QuarantinedRequest, string, hookadmin.Time) {
		return page.Requests, page.Next, hookadmin.Time{}
	},
	narrow:  []narrowing{{"REASON", 30}, {"ID", below}, {"LAST", brief}, {"SOURCE", 12}, {"REASON", below}},
	columns: []string{"LAST", "SOURCE", "COUNT", "ID", "REASON"},
	cells: func(q *hookadmin.QuarantinedRequest) []string {
		return []string{at(q.LastAt), q.Source, strconv.FormatInt(q.Count, 10), q.ID, remark("", q.Reason)}
	},
}

func (p *program) quarantineListCommand() *cobra.Command {
	return quarantineList.command(p, &cobra.Command{Use: "list", Short: "List quarantined requests, the latest first"})
}

func (p *program) quarantineShowCommand() *cobra.Command {
	return (&show[hookadmin.QuarantinedRequest]{
		names: []string{"ID"}, doing: "reading a quarantined request", print: printQuarantined,
		check: func(id string) error {
			_, err := hookadmin.ParseQuarantineID(id)
			return err
		},
		ask: func(ctx context.Context, client *adminclient.Client, args []string) (*hookadmin.QuarantinedRequest, error) {
			return client.Quarantined(ctx, args[0])
		},
		absent: func(_ context.Context, _ *adminclient.Client, args []string, err error) error {
			return noQuarantined(args[0], err)
		},
	}).command(p, &cobra.Command{Use: "show ID", Short: "Show one quarantined request: reason, headers, body"})
}

func noQuarantined(id string, err error) error {
	return app.Errorf("quarantined request %q: %w", id, err).Try("hookonce quarantine list")
}

// printQuarantined prints one request for people.
func printQuarantined(w io.Writer, found *hookadmin.QuarantinedRequest) {
	t := newFacts(w)
	for _, line := range [][2]string{
		{"Id", found.ID},
		{"Source", found.Source},
		{"Reason", found.Reason},
		{"Count", strconv.FormatInt(found.Count, 10)},
		{"First", at(found.FirstAt)},
		{"Last", at(found.LastAt)},
		{"Body SHA-256", found.BodySHA256},
	} {
		t.row(line[0]+":", line[1])
	}
	t.Flush()
	printHeadersAndBody(w, found.Headers, found.Body, found.BodyBase64)
}

// quarantineFlags are the flags of quarantine retry.
type quarantineFlags struct {
	*apiFlags
	source           string
	all, yes, asJSON bool
}

func (p *program) quarantineRetryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "retry [ID]",
		Short: "Read quarantined requests again, and claim their events",
		Long: "Read a quarantined request again, claim its events as those of a delivery, and\n" +
			"remove it from the quarantine. The running gateway reads it, with its settings;\n" +
			"without one, this command does. A request that still cannot be read stays there,\n" +
			"and so does one whose events another program handles. Signatures are not checked\n" +
			"again. A running gateway sends the messages.\n\n" +
			"With --source or --all, the command first shows how many match, and asks.",
		Example: "  hookonce quarantine retry ID\n  hookonce quarantine retry --source stripe",
		Args:    atMostOne("ID"),
	}
	f := &quarantineFlags{apiFlags: addAPIFlags(cmd)}
	addFilterFlags(cmd, []filterFlag{{"source", "all requests to this `SOURCE`, newest first"}})
	cmd.Flags().BoolVar(&f.all, "all", false, "all requests, newest first")
	addYesFlag(cmd, &f.yes)
	p.complete(f.apiFlags, false)
	addJSONFlag(cmd, &f.asJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.check(cmd, args); err != nil {
			return err
		}
		ctx, restore := interruptible(cmd.Context())
		defer restore()
		if len(args) == 0 {
			return p.withAPI(ctx, f.apiFlags, changes, func(ctx context.Context, api *api) error {
				return p.retryQuarantine(ctx, cmd, api, f)
			})
		}
		if _, err := hookadmin.ParseQuarantineID(args[0]); err != nil {
			return noQuarantined(args[0], err)
		}
		return p.withAPI(ctx, f.apiFlags, changes, func(ctx context.Context, api *api) error {
			return p.retryQuarantined(ctx, api, args[0], f.asJSON)
		})
	}
	return cmd
}

// check requires exactly one of an id, --source and --all.
func (f *quarantineFlags) check(cmd *cobra.Command, args []string) error {
	selections := len(args)
	f.source = cmd.Flags().Lookup("source").Value.String()
	for _, name := range given(cmd, []filterFlag{{name: "source"}, {name: "all"}}) {
		if name == "source" && f.source == "" {
			return newUsageError(cmd, errors.New("--source has no value, which would select everything"))
		}
		if name == "source" || f.all {
			selections++
		}
	}
	if selections != 1 {
		return &usageError{
			fmt.Errorf("%q needs one selection", cmd.CommandPath()),
			cmd.CommandPath() + " ID, or with --source NAME, or with --all",
		}
	}
	return nil
}

const unreadableRemedy = "correct event.id and event.batch of the source, or the database, by the reason; then run the same command again"

func (p *program) retryQuarantined(ctx context.Context, api *api, id string, asJSON bool) error {
	retried, err := api.RetryQuarantined(ctx, id)
	switch {
	case errors.Is(err, adminclient.ErrUnreadable):
		return &app.Error{Err: err, Remedy: unreadableRemedy}
	case errors.Is(err, operate.ErrUnknownSource):
		return app.Errorf("quarantined request %q: %w", id, operate.ErrUnknownSource).Try(api.sourceRemedy())
	case errors.Is(err, operate.ErrHandledElsewhere):
		return app.Errorf("quarantined request %q: %w", id, operate.ErrHandledElsewhere).
			Try("retry it in that program, or have the sender deliver it again")
	case errors.Is(err, driver.ErrNotFound):
		return noQuarantined(id, driver.ErrNotFound)
	case err != nil:
		return err
	case asJSON:
		return writeJSON(p.stdout, retried)
	}
	p.printRetried(&adminclient.QuarantineWork{
		Retried: 1, Claimed: retried.Claimed, Reopened: retried.Reopened, Duplicates: retried.Duplicates, Kept: retried.Kept,
	})
	for _, eventID := range retried.EventIDs {
		fmt.Fprintf(p.stdout, "event %q of source %q\n", eventID, retried.Source)
	}
	return nil
}

// printRetried prints a summary. Of the retried requests some may stay in the quarantine.
func (p *program) printRetried(r *adminclient.QuarantineWork) {
	left := ""
	if r.Stay() > 0 {
		left = fmt.Sprintf("; %d left the quarantine", r.Retried)
	}
	fmt.Fprintf(p.stdout, "retried %s%s: claimed %s, reopened %d, %s\n", say.Count(r.Total(), "request"), left,
		say.Count(r.Claimed, "event"), r.Reopened, say.Count(r.Duplicates, "duplicate"))
	if r.Kept > 0 {
		fmt.Fprintf(p.stdout, "kept %s of batches in the quarantine\n", say.Count(r.Kept, "item"))
	}
}

// quarantineRetried is the shape of --json for many requests.
type quarantineRetried struct {
	Retried          int  `json:"retried"` // requests that are no longer in the quarantine
	Claimed          int  `json:"claimed"` // events
	Reopened         int  `json:"reopened"`
	Duplicates       int  `json:"duplicates"`
	Kept             int  `json:"kept"`              // items of batches that are in the quarantine by themselves
	Unreadable       int  `json:"unreadable"`        // requests that stay
	UnknownSource    int  `json:"unknown_source"`    // requests that stay
	HandledElsewhere int  `json:"handled_elsewhere"` // requests that stay
	Complete         bool `json:"complete"`          // false if the command ended before the last request
}

func (p *program) retryQuarantine(ctx context.Context, cmd *cobra.Command, api *api, f *quarantineFlags) error {
	plan := func() (*adminclient.Plan, error) { return api.PlanQuarantine(ctx, f.source) }
	some, err := p.confirm(ctx, &bulk{cmd: cmd, verb: "retry", thing: "quarantined request", yes: f.yes}, plan)
	if err != nil {
		return err
	}
	result := new(adminclient.QuarantineWork)
	if some {
		result, err = api.RetryQuarantine(ctx, f.source, func(r *adminclient.QuarantineWork) {
			api.progress.show("%d requests retried, %d left the quarantine", r.Total(), r.Retried)
		})
		api.progress.end()
	}
	if err == nil && result.Total() == 0 {
		defer warnOfSource(ctx, p.stderr, api.Client, f.source)
	}
	faults := []error{retryEnded(ctx, result, err)}
	if f.asJSON {
		faults = append(faults, writeJSON(p.stdout, &quarantineRetried{
			result.Retried, result.Claimed, result.Reopened, result.Duplicates, result.Kept,
			result.Unreadable, result.UnknownSource, result.HandledElsewhere, err == nil,
		}))
		return errors.Join(faults...)
	}
	p.printRetried(result)
	if result.Unreadable > 0 {
		fmt.Fprintf(p.stdout, "still unreadable: %s\n", say.Count(result.Unreadable, "request"))
	}
	if result.UnknownSource > 0 {
		fmt.Fprintf(p.stdout, "source not in the settings: %s\n", say.Count(result.UnknownSource, "request"))
	}
	if result.HandledElsewhere > 0 {
		fmt.Fprintf(p.stdout, "handled by another program: %s\n", say.Count(result.HandledElsewhere, "request"))
	}
	return errors.Join(faults...)
}

func retryEnded(ctx context.Context, result *adminclient.QuarantineWork, err error) error {
	const again = "run the same command again: requests that were retried are gone"
	total := say.Count(result.Total(), "request")
	switch {
	case err != nil && ctx.Err() != nil:
		return app.Errorf("interrupted after %s", total).Try(again)
	case err != nil:
		return stopped(total, err, again)
	case result.Stay() > 0:
		return app.Errorf("still in the quarantine: %d of %s", result.Stay(), total).
			Try("hookonce quarantine list, which shows the reasons")
	}
	return nil
}

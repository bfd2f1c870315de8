package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/adminclient"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/defaults"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/operate"
	"github.com/hookonce/hookonce/internal/say"
)

const modesHint = "--as-new (the destination does the work again) or --same-id (it may skip the work)"

// replayFlags are the flags of events replay.
type replayFlags struct {
	*apiFlags
	asNew, sameID, reroute, stale, all, yes, plan, asJSON bool
	to, requestID, rate                                   string
}

// mode returns the mode of the replay, as the API names it; "" with a destination.
func (f *replayFlags) mode() string {
	switch {
	case f.asNew:
		return "as_new"
	case f.sameID:
		return "same_id"
	case f.reroute:
		return "reroute"
	}
	return ""
}

func (p *program) eventsReplayCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "replay [SOURCE EVENT_ID]",
		Short: "Replay finished events",
		Long: "Replay one finished event, or all events that match the filters, one after the\n" +
			"other. By filters, the command first shows how many match, and asks. --plan only\n" +
			"says what would be done.\n\n" +
			"A dead or skipped event keeps its ids. A done event needs --as-new or --same-id.\n" +
			"After a route was corrected, --reroute sends events to where the present routes\n" +
			"lead, and --to sends them to one destination. Each of them changes nothing when\n" +
			"done twice. --to sends a message of its own, also where --reroute sent one.\n" +
			"Discarded events are left out, unless --note, --state or --id selects them.\n" +
			"An event that no route had matched is matched again, with the routes of the\n" +
			"running gateway, or of these settings if none runs. A running gateway sends the\n" +
			"messages.\n\n" +
			"An event whose handler ended its transaction may have taken effect. It is\n" +
			"replayed only with --note '" + driver.NoteTxEnded + "'.",
		Example: "  hookonce events replay stripe evt_1 --as-new\n" +
			"  hookonce events replay --reroute --destination ci --since 2h\n" +
			"  hookonce events replay --same-id --note \"no route\" --since 7d --rate 100/s",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 0 && len(args) != 2 {
				return fmt.Errorf("%q takes SOURCE EVENT_ID, or filters alone", cmd.CommandPath())
			}
			return nil
		},
	}
	f := &replayFlags{apiFlags: addAPIFlags(cmd)}
	addFilterFlags(cmd, eventFilters)
	cmd.Flags().BoolVar(&f.asNew, "as-new", false, "with new ids: the handler runs again, and destinations do the work again")
	cmd.Flags().BoolVar(&f.sameID, "same-id", false, "with the same ids: the handler runs again, and destinations may skip the work")
	cmd.Flags().BoolVar(&f.reroute, "reroute", false, "to where the present routes lead: missing messages are sent, wrong ones that wait are skipped")
	cmd.Flags().StringVar(&f.to, "to", "", "one message to the destination `NAME`, whatever the routes say")
	cmd.Flags().BoolVar(&f.stale, "stale", false, "one event, although a higher version of its object was sent (routes with order)")
	cmd.Flags().BoolVar(&f.all, "all", false, "all events, without a filter")
	cmd.Flags().StringVar(&f.rate, "rate", "", "maximum `RATE` of a replay by filter: 6000/m, or none (default 100/s)")
	cmd.Flags().StringVar(&f.requestID, "request-id", "",
		"`NAME` of this replay; a repetition with the same name skips the events that were replayed")
	cmd.Flags().BoolVar(&f.plan, "plan", false, "only say what would be done, for each destination")
	addYesFlag(cmd, &f.yes)
	p.complete(f.apiFlags, true)
	addJSONFlag(cmd, &f.asJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return p.replayEvents(cmd, f, args) }
	return cmd
}

func (p *program) replayEvents(cmd *cobra.Command, f *replayFlags, args []string) error {
	if f.asNew && f.sameID {
		return &usageError{errors.New("--as-new and --same-id exclude each other"), "one of " + modesHint}
	}
	if err := exclusive(cmd, "reroute", "to", "as-new", "same-id"); err != nil {
		return err
	}
	if cmd.Flags().Changed("to") && f.to == "" {
		return newUsageError(cmd, errors.New("--to has no value: name a destination"))
	}
	for _, other := range []string{"yes", "stale", "request-id"} {
		if err := exclusive(cmd, "plan", other); err != nil {
			return err
		}
	}
	var err error
	if f.requestID, err = requestID(cmd, f.requestID); err != nil {
		return err
	}
	if len(args) == 2 {
		flags := given(cmd, append([]filterFlag{{name: "all"}, {name: "rate"}}, eventFilters...))
		flags = slices.DeleteFunc(flags, func(name string) bool { return name == "note" })
		if len(flags) > 0 {
			return newUsageError(cmd, fmt.Errorf("--%s does not apply to a single event", flags[0]))
		}
		note := cmd.Flags().Lookup("note").Value.String()
		if note != driver.NoteTxEnded && cmd.Flags().Changed("note") {
			return newUsageError(cmd, fmt.Errorf("--note of a single event can only be %q", driver.NoteTxEnded))
		}
		if !f.plan {
			return p.withAPI(cmd.Context(), f.apiFlags, changes, func(ctx context.Context, api *api) error {
				return p.replayEvent(ctx, cmd, api, args[0], args[1], f, note)
			})
		}
		for i, name := range []string{"source", "id"} { // the plan of one event is that of its filters
			if err := cmd.Flags().Set(name, args[i]); err != nil {
				return err
			}
		}
	}
	if f.stale {
		return &usageError{errors.New("--stale replays one event"), cmd.CommandPath() + " SOURCE EVENT_ID --stale"}
	}
	if err := checkSelection(cmd, eventFilters, f.all); err != nil {
		return err
	}
	query, err := readQuery(cmd, eventFilters, hookadmin.ParseFilter)
	if err != nil {
		return err
	}
	if err := idNeedsSource(cmd, given(cmd, eventFilters)); err != nil {
		return err
	}
	rate, err := readRate(cmd, f.rate)
	if err != nil {
		return err
	}
	ctx, restore := interruptible(cmd.Context())
	defer restore()
	return p.withAPI(ctx, f.apiFlags, changes, func(ctx context.Context, api *api) error {
		job := &hookadmin.JobRequest{
			Of: driver.JobOfEvents, Action: driver.JobReplay, Mode: f.mode(), To: f.to, Rate: f.rate, Filter: hookadmin.NewJobFilter(query, f.all),
		}
		var planned *adminclient.Plan
		plan := func() (*adminclient.Plan, error) {
			var err error
			planned, err = api.PlanEvents(ctx, f.requestID, job)
			return planned, err
		}
		b := &bulk{
			cmd: cmd, verb: "replay", thing: "event", requestID: f.requestID, yes: f.yes, only: f.plan, rate: cmp.Or(rate, hookonce.Rate(defaults.ReplayRate)),
		}
		if f.mode()+f.to == "" {
			b.check, b.labels = someWithoutMode, map[string]string{driver.StateDone: "done: refused without --as-new or --same-id"}
		}
		some, err := p.confirm(ctx, b, plan)
		if planned != nil && planned.Job.State == driver.JobPlanned && (err != nil || !some) {
			_ = api.Forget(context.WithoutCancel(ctx), planned.Job) // a job that is left planned does nothing
		}
		if fault, wrong := api.requestFault(ctx, cmd, err); wrong {
			return fault
		}
		switch {
		case err != nil:
			return err
		case f.plan && f.asJSON:
			return writeJSON(p.stdout, planned.Job)
		case f.plan && planned.Count == 0:
			fmt.Fprintln(p.stderr, "No events match.")
		}
		if !some {
			defer warnOfNames(ctx, p.stderr, api.Client, query)
			if f.plan {
				return nil
			}
			return p.printReplayed(&hookadmin.Job{State: driver.JobDone}, f.asJSON, true)
		}
		return p.replayMatching(ctx, api, query, b, job, f)
	})
}

// someWithoutMode refuses a replay without a mode if each of the planned events needs one.
func someWithoutMode(plan *adminclient.Plan) error {
	if plan.More || plan.Parts[driver.StateDone] < plan.Count {
		return nil
	}
	return &usageError{
		fmt.Errorf("%s match, and each is done: %w", say.Count(plan.Count, "event"), driver.ErrModeNeeded), "add " + modesHint,
	}
}

// exclusive refuses two of some flags together.
func exclusive(cmd *cobra.Command, names ...string) error {
	given := slices.DeleteFunc(names, func(name string) bool { return !cmd.Flags().Changed(name) })
	if len(given) > 1 {
		return newUsageError(cmd, fmt.Errorf("--%s and --%s exclude each other", given[0], given[1]))
	}
	return nil
}

// requestID returns the value of --request-id, or a new one.
func requestID(cmd *cobra.Command, given string) (string, error) {
	if cmd.Flags().Changed("request-id") && given == "" {
		return "", newUsageError(cmd, errors.New("--request-id is empty: give it a name, or leave it out"))
	}
	return cmp.Or(given, "cli_"+strings.ToLower(rand.Text())), nil
}

// checkSelection requires a filter or --all for a command that changes many events. A filter
// without a value is refused: it would select everything.
func checkSelection(cmd *cobra.Command, filters []filterFlag, all bool) error {
	names := given(cmd, filters)
	for _, name := range names {
		if cmd.Flags().Lookup(name).Value.String() == "" {
			return newUsageError(cmd, fmt.Errorf("--%s has no value, which would select everything", name))
		}
	}
	switch {
	case all && len(names) > 0:
		return newUsageError(cmd, fmt.Errorf("--all and --%s exclude each other", names[0]))
	case !all && len(names) == 0:
		var flags []string
		for _, f := range filters {
			flags = append(flags, "--"+f.name)
		}
		return &usageError{
			fmt.Errorf("%q needs a selection", cmd.CommandPath()),
			cmd.CommandPath() + " SOURCE EVENT_ID, or with some of " + strings.Join(flags, ", ") + ", or with --all",
		}
	}
	return nil
}

func readRate(cmd *cobra.Command, text string) (hookonce.Rate, error) {
	rate, err := limit.ParsePace(text)
	if err != nil {
		return hookonce.Rate{}, newUsageError(cmd, fmt.Errorf("--rate: %q %w", text, err))
	}
	return hookonce.Rate(rate), nil
}

func (p *program) replayEvent(ctx context.Context, cmd *cobra.Command, api *api, source, eventID string, f *replayFlags, note string) error {
	replayed, err := api.ReplaySafely(ctx, source, eventID, f.requestID, &hookadmin.ReplayRequest{
		AsNew: f.asNew, SameID: f.sameID, Reroute: f.reroute, To: f.to, Note: note, Stale: f.stale,
	})
	if err != nil {
		return api.notReplayed(ctx, cmd, source, eventID, f.requestID, err)
	}
	if f.asJSON {
		return writeJSON(p.stdout, replayed)
	}
	if replayed.Stayed {
		fmt.Fprintf(p.stdout, "event %q of source %q stays as it is: nothing is missing\n", eventID, source)
		return nil
	}
	done := "replayed"
	if replayed.Repeated {
		done = "this request had already replayed"
	}
	fmt.Fprintf(p.stdout, "%s event %q of source %q: %s\n", done, eventID, source, dueAfter(replayed))
	return nil
}

// dueAfter lists the work that a replay made due.
func dueAfter(replayed *hookadmin.Replayed) string {
	due := "its handler runs again"
	switch {
	case replayed.Messages > 0:
		due = say.Count(replayed.Messages, "message") + " due"
	case replayed.Skipped > 0, replayed.Repeated:
		due = "nothing is missing"
	}
	if replayed.Skipped > 0 {
		due += ", " + say.Count(replayed.Skipped, "message") + " skipped"
	}
	return fmt.Sprintf("generation %d, %s", replayed.Generation, due)
}

// notReplayed turns the error of a replay into one for the operator.
func (a *api) notReplayed(ctx context.Context, cmd *cobra.Command, source, eventID, requestID string, err error) error {
	event := fmt.Sprintf("event %q of source %q", eventID, source)
	fail := func(remedy, format string, args ...any) error {
		return app.Errorf(format, args...).Try(remedy)
	}
	switch {
	case errors.Is(err, operate.ErrRequestID):
		return newUsageError(cmd, fmt.Errorf("--request-id: %w", operate.ErrRequestID))
	case errors.Is(err, driver.ErrNotFound):
		return noEvent(ctx, a.Client, source, eventID)
	case errors.Is(err, driver.ErrRequestReused):
		return newUsageError(cmd, fmt.Errorf("%s: --request-id: %w", event, driver.ErrRequestReused))
	case errors.Is(err, driver.ErrNoteNeeded):
		return &usageError{
			fmt.Errorf("%s: %w", event, driver.ErrNoteNeeded),
			"correct the handler, look at the effects of the event, and add --note '" + driver.NoteTxEnded + "' if it is to run again",
		}
	case errors.Is(err, driver.ErrModeNeeded):
		return &usageError{fmt.Errorf("%s: %w", event, driver.ErrModeNeeded), modesHint}
	case errors.Is(err, operate.ErrUnknownDestination):
		return a.noDestination(ctx, cmd)
	case errors.Is(err, driver.ErrSending):
		return fail("run the same command again in a moment", "%s: %w", event, driver.ErrSending)
	case errors.Is(err, driver.ErrOpen):
		state := "open"
		if detail, err := a.Event(ctx, source, eventID); err == nil {
			state = detail.State
		}
		return fail("wait until it is done or dead: hookonce events show "+word(source)+" "+word(eventID),
			"%s is %s: %w", event, state, driver.ErrOpen)
	case errors.Is(err, driver.ErrRedacted):
		return fail("nothing is left to send", "%s cannot be replayed: %w", event, driver.ErrRedacted)
	case errors.Is(err, driver.ErrBodyPruned):
		return fail("nothing is left to send; while the identity is claimed (dedupe_window), a delivery of the same event id is a duplicate", "%s cannot be replayed: %w", event, driver.ErrBodyPruned)
	case errors.Is(err, driver.ErrUndecided):
		return fail("simplify the condition that the log names, reload the gateway (SIGHUP), and replay it then", "%s: %w", event, driver.ErrUndecided)
	case errors.Is(err, driver.ErrPassed):
		return &usageError{
			fmt.Errorf("%s: %w", event, driver.ErrPassed), "add --stale to send it nevertheless: the destination then has the older state",
		}
	case errors.Is(err, driver.ErrNoRoute):
		return a.noRoute(ctx, source, event)
	case errors.Is(err, driver.ErrLockTimeout):
		return fail("run the same command again in a moment", "%s is in use: %w", event, driver.ErrLockTimeout)
	case errors.Is(err, driver.ErrCommitUnknown):
		return fail("run the same command with --request-id "+word(requestID), "%s may have been replayed: %w", event, err)
	}
	return err
}

func (a *api) noRoute(ctx context.Context, source, event string) error {
	page, err := a.Sources(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(page.Sources, func(s hookadmin.Source) bool { return s.Name == source }) {
		return app.Errorf("%s: %w: that source is not in the settings", event, driver.ErrNoRoute).Try(a.sourceRemedy())
	}
	return app.Errorf("%s: %w", event, driver.ErrNoRoute).
		Try("add a route for it to the settings, reload the gateway (SIGHUP), and replay it then")
}

// bulkReplayed is the shape of --json for a replay by filter.
type bulkReplayed struct {
	Replayed  int64  `json:"replayed"`
	Passed    int64  `json:"passed"` // with --reroute or --to: as wanted already
	Refused   int64  `json:"refused"`
	LastError string `json:"last_error"` // the reason of the last refusal; "" without one
	Complete  bool   `json:"complete"`   // false if the replay ended before the last event
}

// replayMatching replays the events that match.
func (p *program) replayMatching(ctx context.Context, api *api, query url.Values, b *bulk, q *hookadmin.JobRequest, f *replayFlags) error {
	job, err := p.runJob(ctx, api, q, b)
	if fault, wrong := api.requestFault(ctx, b.cmd, err); wrong {
		return fault
	}
	if job == nil {
		return err
	}
	if err == nil && job.Done+job.Skipped+job.Failed == 0 {
		defer warnOfNames(ctx, p.stderr, api.Client, query)
	}
	return errors.Join(p.printReplayed(job, f.asJSON, !b.yes || isTerminal(p.stderr)), replayEnded(ctx, job, b.continued(query), err))
}

// noDestination is the error of a replay to a destination that is not in the settings.
func (a *api) noDestination(ctx context.Context, cmd *cobra.Command) error {
	to := cmd.Flags().Lookup("to").Value.String()
	near, _ := unknownDestination(ctx, a.Client, to)
	return app.Errorf("--to %s: %w%s", to, operate.ErrUnknownDestination, near).Try("hookonce destinations list")
}

// requestFault returns the error for a wrong --request-id or --to, and whether err is one.
func (a *api) requestFault(ctx context.Context, cmd *cobra.Command, err error) (fault error, is bool) {
	if errors.Is(err, operate.ErrUnknownDestination) {
		return a.noDestination(ctx, cmd), true
	}
	for _, known := range []error{operate.ErrRequestID, driver.ErrRequestReused} {
		if errors.Is(err, known) {
			return newUsageError(cmd, fmt.Errorf("--request-id: %w", known)), true
		}
	}
	return nil, false
}

func replayEnded(ctx context.Context, job *hookadmin.Job, resume string, err error) error {
	events := say.Count(job.Done+job.Skipped+job.Failed, "event")
	switch {
	case err != nil && ctx.Err() != nil:
		return app.Errorf("interrupted after %s, %d replayed", events, job.Done).Try(resume)
	case err != nil:
		return stopped(fmt.Sprintf("%s, %d replayed", events, job.Done), err, resume)
	case job.Failed > 0:
		remedy := "fix the listed reasons, or narrow the filters"
		if strings.HasSuffix(job.LastError, driver.ErrModeNeeded.Error()) {
			remedy = "add " + modesHint + ", or narrow the filters"
		}
		return app.Errorf("not replayed: %d of %s", job.Failed, events).Try(remedy)
	}
	return nil
}

// printReplayed prints the result of a job. told says that the plan was shown, with the events that are left out.
func (p *program) printReplayed(job *hookadmin.Job, asJSON, told bool) error {
	if asJSON {
		return writeJSON(p.stdout, &bulkReplayed{job.Done, job.Skipped, job.Failed, job.LastError, job.State == driver.JobDone})
	}
	fmt.Fprintf(p.stdout, "replayed %s\n", say.Count(job.Done, "event"))
	if job.Skipped > 0 {
		fmt.Fprintf(p.stdout, "%s as before: nothing was missing\n", stay(job.Skipped))
	}
	if job.Discarded > 0 && !told {
		fmt.Fprintf(p.stdout, "left out %s; for those, add --note discarded\n", say.Count(job.Discarded, "discarded event"))
	}
	p.printRefused(job)
	return p.written()
}

func (p *program) printRefused(job *hookadmin.Job) {
	if job.Failed > 0 {
		t := newFacts(p.stdout, "REFUSED", "REASON")
		t.row(say.Number(job.Failed), "the last: "+job.LastError)
		t.Flush()
	}
}

// stay returns "1 event stays" or "2 events stay".
func stay(n int64) string {
	if n == 1 {
		return "1 event stays"
	}
	return say.Number(n) + " events stay"
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/observe"
)

// reconciled is the shape of --json.
type reconciled struct {
	Source       string         `json:"source"`
	Plan         bool           `json:"plan"`
	From         hookadmin.Time `json:"from"`
	Until        hookadmin.Time `json:"until"`
	Seen         int            `json:"seen"`
	Known        int            `json:"known"`
	Unmatched    int            `json:"unmatched"`
	Missing      int            `json:"missing"`
	Claimed      int            `json:"claimed"`
	Unreadable   int            `json:"unreadable"`
	FirstMissing hookadmin.Time `json:"first_missing"`
	LastMissing  hookadmin.Time `json:"last_missing"`
}

func (p *program) reconcileCommand() *cobra.Command {
	var plan, yes, asJSON bool
	var since string
	cmd := &cobra.Command{
		Use:   "reconcile SOURCE",
		Short: "Claim the events that never arrived by webhook",
		Long: "Read the events that the provider's API lists, and claim those that never\n" +
			"arrived by webhook. The source needs the setting reconcile. Events that arrived\n" +
			"stay as they are. If another program received the webhooks before, it has done\n" +
			"the work of events that seem missing: look at the plan first.",
		Example: "  hookonce reconcile stripe --since 3d --plan",
		Args:    arguments("SOURCE"),
	}
	flags := addSettingsFlags(cmd)
	p.complete(&apiFlags{settingsFlags: flags}, true)
	cmd.Flags().StringVar(&since, "since", "3d", "look at events since this `TIME` (RFC 3339), or this long ago (2h, 7d)")
	cmd.Flags().BoolVar(&plan, "plan", false, "only count missing events, and change nothing")
	addYesFlag(cmd, &yes)
	addJSONFlag(cmd, &asJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		span, err := hookadmin.ParseFilter(url.Values{"since": {since}}, time.Now())
		if bad, is := errors.AsType[*hookadmin.ParameterError](err); is {
			return newUsageError(cmd, fmt.Errorf("--since: %s", bad.Reason))
		}
		r := &reconcile{p: p, cmd: cmd, source: args[0], back: time.Since(span.Since), line: p.newProgress()}
		ctx, stop := interruptible(cmd.Context())
		defer stop()
		var done *hookonce.Reconciled
		err = p.withEngine(ctx, flags, &observe.Observer{Direct: true, Reconciled: r.show}, func(ctx context.Context, in *engine) (err error) {
			done, err = r.run(ctx, in, plan, yes)
			return err
		})
		if errors.Is(err, hookonce.ErrSince) {
			return newUsageError(cmd, err)
		}
		if err != nil {
			return err
		}
		return p.printReconciled(args[0], done, plan, asJSON)
	}
	return cmd
}

// reconcile is one call of the command.
type reconcile struct {
	p      *program
	cmd    *cobra.Command
	source string
	back   time.Duration

	line                   *progress
	seen, missing, claimed int
}

// show shows how far the list was read.
func (r *reconcile) show(page observe.Reconciled) {
	if page.Ended {
		r.line.end()
		r.seen, r.missing, r.claimed = 0, 0, 0
		return
	}
	r.seen, r.missing, r.claimed = r.seen+page.Seen, r.missing+page.Missing, r.claimed+page.Claimed
	r.line.show("%s read, %s missing, %s claimed", say.Count(r.seen, "event"), say.Number(r.missing), say.Number(r.claimed))
}

// run plans, and claims missing events unless planOnly is set. Without yes it asks first.
func (r *reconcile) run(ctx context.Context, in *engine, planOnly, yes bool) (*hookonce.Reconciled, error) {
	if !slices.ContainsFunc(in.settings.Engine.Sources, func(s hookonce.Source) bool { return s.Name == r.source }) {
		return nil, app.Errorf("source %q: %w", r.source, driver.ErrNotFound).Try("hookonce sources list")
	}
	if planOnly || !yes {
		plan, err := in.PlanReconcile(ctx, r.source, r.back)
		if ctx.Err() != nil {
			return nil, r.interrupted("nothing was claimed")
		}
		if err != nil || planOnly || plan.Missing == 0 {
			return plan, err
		}
		missing := say.Count(plan.Missing, "missing event")
		fmt.Fprintf(r.p.stderr, "This would claim %s, from %s to %s.\n", missing, moment(plan.FirstMissing), moment(plan.LastMissing))
		if err := r.p.ask(ctx, r.cmd, "claim "+missing); err != nil {
			return nil, err
		}
	}
	done, err := in.Reconcile(ctx, r.source, r.back)
	if err != nil && ctx.Err() != nil && done != nil {
		return nil, r.interrupted(say.Count(done.Claimed, "event") + " claimed")
	}
	if err != nil && done != nil && done.Claimed > 0 {
		err = stopped(say.Count(done.Claimed, "event"), err, r.p.sameCommand(r.cmd))
	}
	return done, err
}

func (r *reconcile) interrupted(after string) error {
	return &app.Error{Err: errors.New("interrupted: " + after), Remedy: r.p.sameCommand(r.cmd)}
}

func (p *program) printReconciled(source string, r *hookonce.Reconciled, plan, asJSON bool) error {
	if asJSON {
		return writeJSON(p.stdout, &reconciled{
			source, plan, hookadmin.Time(r.From), hookadmin.Time(r.Until), r.Seen, r.Known, r.Unmatched, r.Missing, r.Claimed, r.Unreadable,
			hookadmin.Time(r.FirstMissing), hookadmin.Time(r.LastMissing),
		})
	}
	t := newFacts(p.stdout)
	t.row("source", source)
	t.row("events", "from "+moment(r.From)+" to "+moment(r.Until))
	for _, row := range []struct {
		name string
		n    int
	}{
		{"seen", r.Seen},
		{"known", r.Known},
		{"unmatched", r.Unmatched},
		{"missing", r.Missing},
		{"claimed", r.Claimed},
		{"unreadable", r.Unreadable},
	} {
		count := say.Number(row.n)
		if plan && row.name == "claimed" {
			count += ": this is a plan"
		}
		t.row(row.name, count)
	}
	if r.Missing > 0 {
		t.row("first missing", moment(r.FirstMissing))
		t.row("last missing", moment(r.LastMissing))
	}
	t.Flush()
	return nil
}

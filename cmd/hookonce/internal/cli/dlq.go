package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/adminclient"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/defaults"
)

func (p *program) dlqCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "dlq", Short: "List, replay or discard dead letters, or undo a discard"}
	cmd.AddCommand(
		p.dlqListCommand(),
		p.dlqWorkCommand(&letterWork{
			verb: "replay", done: "replayed", short: "Make dead letters due again, with the ids that they had",
			replays: true, passed: "no longer dead, locked by another session, or dead with the note '" + driver.NoteTxEnded + "'",
			pace: hookonce.Rate(defaults.ReplayRate),
		}),
		p.dlqWorkCommand(&letterWork{
			verb: "discard", done: "discarded", short: "Give dead letters up; their identities stay claimed",
			passed: "no longer dead, or locked by another session",
		}),
		p.dlqUndoCommand(),
	)
	return cmd
}

var deadLetterList = &list[hookadmin.DeadLetterPage, hookadmin.DeadLetter]{
	things: "dead letters", doing: "listing dead letters",
	filters: slices.Concat(deadLetterFilters, pageFlags), parse: checkedBy(hookadmin.ParseDeadLetterFilter),
	ask: (*adminclient.Client).DeadLetters,
	rows: func(page *hookadmin.DeadLetterPage) ([]hookadmin.DeadLetter, string, hookadmin.Time) {
		return page.DeadLetters, page.Next, page.SearchedUntil
	},
	narrow: []narrowing{
		{"LAST ERROR", 30},
		{"RECEIVED", brief},
		{"FAILED", brief},
		{"ATTEMPTS", brief},
		{"MESSAGE", out},
		{"TYPE", 16},
		{"LAST ERROR", below},
		{"DESTINATION", 16},
		{"SOURCE", 12},
		{"EVENT ID", below},
		{"TYPE", 12},
		{"DESTINATION", 10},
		{"SOURCE", 8},
		{"TYPE", 7},
		{"FAILED", out},
		{"STATUS", out},
		{"ATTEMPTS", out},
		{"TYPE", out},
		{"DESTINATION", 5},
		{"SOURCE", 5},
	},
	columns: []string{
		"RECEIVED", "SOURCE", "EVENT ID", "TYPE", "DESTINATION", "ATTEMPTS", "STATUS", "FAILED", "MESSAGE", "LAST ERROR",
	},
	cells: func(d *hookadmin.DeadLetter) []string {
		return []string{
			at(d.ReceivedAt), d.Source, d.EventID, orDash(d.Type), orDash(d.Destination), strconv.Itoa(d.Attempts),
			status(d.StatusCode), at(d.FailedAt), orDash(d.MessageID), remark("", d.LastError),
		}
	},
}

func (p *program) dlqListCommand() *cobra.Command {
	return deadLetterList.command(p, &cobra.Command{Use: "list", Short: "List dead letters, newest events first"})
}

// letterWork is an action on dead letters, with its texts.
type letterWork struct {
	verb, done, short string
	passed            string        // why dead letters are passed over
	replays           bool          // dead letters with driver.NoteTxEnded are passed over
	pace              hookonce.Rate // the default; zero for none
}

func (p *program) dlqWorkCommand(w *letterWork) *cobra.Command {
	var all, yes, asJSON bool
	var rateText, request string
	cmd := &cobra.Command{
		Use:   w.verb + " [SOURCE EVENT_ID...]",
		Short: w.short,
		Long: w.short + ".\n\n" +
			"Name the events, or select by filters. By filters, the command first shows how\n" +
			"many match, and asks. A dead letter that is no longer dead, or that another\n" +
			"session has locked, is passed over.",
		Example: "  hookonce dlq " + w.verb + " stripe evt_1 evt_2\n  hookonce dlq " + w.verb + " --destination billing --rate 100/s",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return fmt.Errorf("%q takes SOURCE EVENT_ID..., or filters alone", cmd.CommandPath())
			}
			if slices.Contains(args, "") {
				return errors.New("a source or event id is empty")
			}
			return nil
		},
	}
	flags := addAPIFlags(cmd)
	addFilterFlags(cmd, deadLetterFilters)
	cmd.Flags().BoolVar(&all, "all", false, "all dead letters, without a filter")
	pace := ""
	if w.pace.Count > 0 {
		pace = " (default 100/s)"
	}
	cmd.Flags().StringVar(&rateText, "rate", "", "maximum `RATE`: 100/s, 6000/m, or none"+pace)
	addYesFlag(cmd, &yes)
	cmd.Flags().StringVar(&request, "request-id", "",
		"`NAME` of this change by filters; the same name continues an interrupted one")
	p.complete(flags, true)
	addJSONFlag(cmd, &asJSON)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		selected, err := readDeadLetters(cmd, args, all)
		if err != nil {
			return err
		}
		rate, err := readRate(cmd, rateText)
		if err != nil {
			return err
		}
		if selected.query == nil && cmd.Flags().Changed("request-id") {
			return newUsageError(cmd, errors.New("--request-id does not apply to named dead letters"))
		}
		if request, err = requestID(cmd, request); err != nil {
			return err
		}
		ctx, restore := interruptible(cmd.Context())
		defer restore()
		return p.withAPI(ctx, flags, changes, func(ctx context.Context, api *api) error {
			b := &bulk{cmd: cmd, verb: w.verb, thing: "dead letter", requestID: request, yes: yes, rate: cmp.Or(rate, w.pace)}
			return p.workOnLetters(ctx, api, w, selected, b, rateText, asJSON)
		})
	}
	return cmd
}

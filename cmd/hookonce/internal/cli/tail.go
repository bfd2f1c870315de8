package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
)

// maxNewest bounds -n.
const maxNewest = 10_000

func (p *program) eventsTailCommand() *cobra.Command {
	var asJSON bool
	var newest int
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Print the newest events, and then each new one as it arrives",
		Long: "Print the newest events, oldest first, and then each new one as it arrives,\n" +
			"until interrupted. Each event is printed once, as it is within seconds of its\n" +
			"arrival; --state and --note select by that state and note.",
		Args: noArgs,
	}
	flags := addSettingsFlags(cmd)
	addFilterFlags(cmd, tailFilters)
	cmd.Flags().IntVarP(&newest, "newest", "n", 10, fmt.Sprintf("begin with the newest `N` events, 0 to %d", maxNewest))
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one event per line, in the shape of the API")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		_, filter, err := readFilter(cmd, tailFilters, hookadmin.ParseFilter)
		if err != nil {
			return err
		}
		if newest < 0 || newest > maxNewest {
			return newUsageError(cmd, fmt.Errorf("--newest: %d is not a number from 0 to %d", newest, maxNewest))
		}
		ctx, restore := interruptible(cmd.Context())
		defer restore()
		return p.withSettings(ctx, flags, func(ctx context.Context, settings *config.Settings, store driver.Store) error {
			follow := &app.Follow{
				Store: store, Settings: settings, Filter: *filter, Newest: newest, Show: p.printTail,
				Trouble: func(err error) {
					fmt.Fprintf(p.stderr, "Warning: %s; retrying\n", printableLines(err.Error()))
				},
			}
			if asJSON {
				follow.Show = p.printTailJSON
			}
			return follow.Run(ctx)
		})
	}
	return cmd
}

// tailColumns are the minimum widths of the columns: the widths of later rows are not known when
// the first rows are printed.
var tailColumns = []int{20, 12, 32, 24, 7}

func (p *program) printTail(events []driver.Event) error {
	w := bufio.NewWriter(p.stdout)
	for i := range events {
		ev := &events[i]
		cells := []string{moment(ev.ReceivedAt), ev.Source, ev.EventID, orDash(ev.Type), ev.State}
		for column, cell := range cells {
			cell = printable(cell)
			fmt.Fprintf(w, "%s%*s  ", cell, max(tailColumns[column]-utf8.RuneCountInString(cell), 0), "")
		}
		fmt.Fprintln(w, printable(remark(ev.Note, ev.LastError)))
	}
	return w.Flush()
}

func (p *program) printTailJSON(events []driver.Event) error {
	w := bufio.NewWriter(p.stdout)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, ev := range hookadmin.NewEventPage(&driver.EventPage{Events: events}).Events {
		if err := enc.Encode(ev); err != nil {
			return err
		}
	}
	return w.Flush()
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/adminclient"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/shown"
)

// list is a command that prints a page of a listing of the API.
type list[Page, Row any] struct {
	things  string // the rows, such as "dead letters"
	doing   string // for errors, such as "listing dead letters"
	filters []filterFlag
	parse   parser[any] // of the filters
	ask     func(*adminclient.Client, context.Context, url.Values) (*Page, error)
	// rows returns the rows, the cursor of the next page, and the time until which a search came.
	rows    func(*Page) (rows []Row, next string, searched hookadmin.Time)
	narrow  []narrowing
	columns []string
	cells   func(*Row) []string
	// instead holds other listings of the command, by the flag that asks for one.
	instead map[string]lister
}

// lister is a list of any rows.
type lister interface {
	run(p *program, cmd *cobra.Command, flags *apiFlags, asJSON bool) error
}

// command makes cmd, which has its texts, the command of l.
func (l *list[Page, Row]) command(p *program, cmd *cobra.Command) *cobra.Command {
	var asJSON bool
	cmd.Args = noArgs
	flags := addAPIFlags(cmd)
	addFilterFlags(cmd, l.filters)
	addJSONFlag(cmd, &asJSON)
	p.complete(flags, false)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		for name, other := range l.instead {
			if asked, _ := cmd.Flags().GetBool(name); asked {
				return other.run(p, cmd, flags, asJSON)
			}
		}
		return l.run(p, cmd, flags, asJSON)
	}
	return cmd
}

func (l *list[Page, Row]) run(p *program, cmd *cobra.Command, flags *apiFlags, asJSON bool) error {
	var query url.Values
	if len(l.filters) > 0 {
		var err error
		if query, err = readQuery(cmd, l.filters, l.parse); err != nil {
			return err
		}
	}
	return p.withAPI(cmd.Context(), flags, reads, func(ctx context.Context, api *api) error {
		page, err := l.ask(api.Client, ctx, query)
		if err != nil {
			return fmt.Errorf("%s: %w", l.doing, err)
		}
		if rows, _, _ := l.rows(page); len(rows) == 0 {
			defer warnOfNames(ctx, p.stderr, api.Client, query)
		}
		if asJSON {
			return writeJSON(p.stdout, page)
		}
		l.print(p, page)
		return nil
	})
}

func (l *list[Page, Row]) print(p *program, page *Page) {
	rows, next, searched := l.rows(page)
	if len(rows) == 0 && next == "" {
		fmt.Fprintf(p.stderr, "No %s.\n", l.things)
		return
	}
	if len(rows) == 0 {
		fmt.Fprintf(p.stderr, "No %s so far.\n", l.things)
	} else {
		t := newTable(p.stdout, l.narrow, l.columns...)
		for i := range rows {
			t.row(l.cells(&rows[i])...)
		}
		t.Flush()
	}
	switch {
	case next == "":
	case time.Time(searched).IsZero():
		fmt.Fprintf(p.stdout, "\nThere are more: --cursor %s\n", shown.Escape(word(next)))
	default: // the search ended before the page was full
		fmt.Fprintf(p.stdout, "\nSearched back to %s. Search on: --cursor %s\n", at(searched), shown.Escape(word(next)))
	}
}

// checkedBy is parse without the type of its filter, which a listing by the API does not need.
func checkedBy[F any](parse parser[F]) parser[any] {
	return func(values url.Values, now time.Time) (any, error) { return parse(values, now) }
}

// show is a command that prints one thing of the API.
type show[Thing any] struct {
	names []string           // of the arguments; the first may be optional, as [SOURCE]
	doing string             // for errors, such as "reading an event"
	check func(string) error // says why the first argument can name nothing; may be nil
	ask   func(context.Context, *adminclient.Client, []string) (*Thing, error)
	// absent is the error if there is no such thing; without a client, the argument names nothing.
	absent func(ctx context.Context, client *adminclient.Client, args []string, err error) error
	print  func(io.Writer, *Thing)
}

// command makes cmd, which has its texts, the command of s.
func (s *show[Thing]) command(p *program, cmd *cobra.Command) *cobra.Command {
	var asJSON bool
	cmd.Args = arguments(s.names...)
	flags := addAPIFlags(cmd)
	addJSONFlag(cmd, &asJSON)
	p.complete(flags, strings.Trim(s.names[0], "[]") == "SOURCE")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if s.check != nil {
			if err := s.check(args[0]); err != nil {
				return s.absent(cmd.Context(), nil, args, err)
			}
		}
		return p.withAPI(cmd.Context(), flags, reads, func(ctx context.Context, api *api) error {
			found, err := s.ask(ctx, api.Client, args)
			switch {
			case errors.Is(err, driver.ErrNotFound):
				return s.absent(ctx, api.Client, args, driver.ErrNotFound)
			case err != nil:
				return fmt.Errorf("%s: %w", s.doing, err)
			case asJSON:
				return writeJSON(p.stdout, found)
			}
			s.print(p.stdout, found)
			return nil
		})
	}
	return cmd
}

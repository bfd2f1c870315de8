package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/adminclient"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/say"
)

// filterFlag is a flag for a parameter of the API's listings.
type filterFlag struct{ name, help string }

// parameter returns the API's name of the parameter.
func (f filterFlag) parameter() string {
	if f.name == "message" {
		return "message_id"
	}
	return f.name
}

var (
	sourceFilter = filterFlag{"source", "only events of this `SOURCE`"}
	typeFilter   = filterFlag{"type", "only events of this `TYPE`"}
	idFilter     = filterFlag{"id", "only the event with this `ID`"}
	textFilter   = filterFlag{"q", "only events with this `TEXT` in the id, the type or the body"}
	toFilter     = filterFlag{"destination", "only events with a message to this destination `NAME`"}
	sinceFilter  = filterFlag{"since", "received at or after this `TIME` (RFC 3339), or this long ago (2h, 7d)"}
	untilFilter  = filterFlag{"until", "received before this `TIME` (RFC 3339), or this long ago (2h, 7d)"}

	pageFlags = []filterFlag{
		{"limit", "at most `N` rows, 1 to 200 (default 50)"},
		{"cursor", "continue after the previous page, at its `CURSOR`"},
	}
	// tailFilters are the filters of the stream.
	tailFilters = []filterFlag{
		sourceFilter, typeFilter,
		{"kind", "only rows of this `KIND`: delivery, event, attempt or refused"},
		{"destination", "only rows about this destination `NAME`"},
		{"outcome", "only rows with this `OUTCOME`, such as duplicate, sent, retry or dead"},
	}
	eventFilters = []filterFlag{
		sourceFilter, typeFilter,
		{"state", "only events in this `STATE`: pending, running, done, dead or skipped"},
		toFilter,
		{"note", "only events with this `NOTE`, such as \"no route\""},
		idFilter, textFilter, sinceFilter, untilFilter,
	}
	deadLetterFilters = []filterFlag{
		sourceFilter, typeFilter,
		{"destination", "only messages to this destination `NAME`"},
		{"note", "only dead letters with this `NOTE`"},
		idFilter,
		{"message", "only the message with this `ID`"},
		textFilter, sinceFilter, untilFilter,
	}
)

func addFilterFlags(cmd *cobra.Command, filters []filterFlag) {
	for _, f := range filters {
		cmd.Flags().Var(new(onlyOnce), f.name, f.help)
	}
}

// onlyOnce is a text that is given once: a second one would silently replace the first.
type onlyOnce struct {
	text  string
	given bool
}

var errGivenTwice = errors.New("given twice")

// Set implements pflag.Value.
func (o *onlyOnce) Set(text string) error {
	if o.given {
		return errGivenTwice
	}
	o.text, o.given = text, true
	return nil
}

func (o *onlyOnce) String() string { return o.text }

// Type implements pflag.Value.
func (o *onlyOnce) Type() string { return "string" }

// warnOfNames warns of a source and of a destination of query that do not exist, after an empty result: a name may be
// misspelt. An error of the API loses only the warning.
func warnOfNames(ctx context.Context, w io.Writer, client *adminclient.Client, query url.Values) {
	warnOfSource(ctx, w, client, query.Get("source"))
	name := query.Get("destination")
	if name == "" {
		return
	}
	if near, unknown := unknownDestination(ctx, client, name); unknown {
		fmt.Fprintf(w, "Warning: the destination %q is not in the settings, and nothing waits for it%s\n", name, near)
	}
}

// warnOfSource is warnOfNames for a source alone.
func warnOfSource(ctx context.Context, w io.Writer, client *adminclient.Client, name string) {
	if name == "" {
		return
	}
	if near, unknown := unknownSource(ctx, client, name); unknown {
		fmt.Fprintf(w, "Warning: the source %q is not in the settings, and has no events%s\n", name, near)
	}
}

// unknownSource reports whether a source is neither in the settings nor has events, with a hint at the one that is
// probably meant.
func unknownSource(ctx context.Context, client *adminclient.Client, name string) (hint string, unknown bool) {
	page, err := client.Sources(ctx)
	if err != nil {
		return "", false
	}
	if hint, unknown = isUnknown(name, page.Sources, func(s hookadmin.Source) string { return s.Name }); !unknown {
		return "", false
	}
	if found, err := client.Events(ctx, one("source", name)); err != nil || len(found.Events) > 0 {
		return "", false // it was removed from the settings, and its events stay
	}
	return hint, true
}

// unknownDestination is unknownSource for a destination, which may have messages that wait.
func unknownDestination(ctx context.Context, client *adminclient.Client, name string) (hint string, unknown bool) {
	page, err := client.Destinations(ctx)
	if err != nil {
		return "", false
	}
	return isUnknown(name, page.Destinations, func(d hookadmin.Destination) string { return d.Name })
}

// isUnknown reports whether no row has the name, with a hint at the nearest one.
func isUnknown[Row any](name string, rows []Row, nameOf func(Row) string) (hint string, unknown bool) {
	var known []string
	for _, row := range rows {
		known = append(known, nameOf(row))
	}
	if near := say.Nearest(name, known); near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	return hint, !slices.Contains(known, name)
}

// given returns the names of the filters that are set on the command line.
func given(cmd *cobra.Command, filters []filterFlag) []string {
	var names []string
	for _, f := range filters {
		if cmd.Flags().Changed(f.name) {
			names = append(names, f.name)
		}
	}
	return names
}

// idNeedsSource refuses --id without --source for a command that changes many things.
func idNeedsSource(cmd *cobra.Command, names []string) error {
	if slices.Contains(names, "id") && !slices.Contains(names, "source") {
		return newUsageError(cmd, errors.New("--id needs --source, because event ids belong to one source"))
	}
	return nil
}

// parser reads the parameters of a listing of the API.
type parser[F any] func(url.Values, time.Time) (F, error)

// readFilter reads the flags with parse, and returns them as parameters of the API, too. Their times
// are absolute, so that every page of a listing is about the same events.
func readFilter[F any](cmd *cobra.Command, filters []filterFlag, parse parser[F]) (url.Values, F, error) {
	values, names := make(url.Values), make(map[string]string)
	for _, f := range filters {
		names[f.parameter()] = f.name
		if cmd.Flags().Changed(f.name) {
			values.Set(f.parameter(), cmd.Flags().Lookup(f.name).Value.String())
		}
	}
	now := time.Now()
	filter, err := parse(values, now)
	if bad, is := errors.AsType[*hookadmin.ParameterError](err); is {
		return nil, filter, newUsageError(cmd, fmt.Errorf("--%s: %s", names[bad.Name], bad.Reason))
	}
	if err != nil {
		return nil, filter, err
	}
	span, err := hookadmin.ParseFilter(url.Values{"since": values["since"], "until": values["until"]}, now)
	if err != nil {
		return nil, filter, err
	}
	for name, t := range map[string]time.Time{"since": span.Since, "until": span.Until} {
		if !t.IsZero() {
			values.Set(name, t.UTC().Format(time.RFC3339Nano))
		}
	}
	return values, filter, nil
}

// readQuery reads the flags as parameters of the API, and checks them with parse.
func readQuery[F any](cmd *cobra.Command, filters []filterFlag, parse parser[F]) (url.Values, error) {
	values, _, err := readFilter(cmd, filters, parse)
	return values, err
}

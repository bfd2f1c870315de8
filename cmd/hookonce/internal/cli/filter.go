package cli

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
)

// filterFlag is a parameter of a listing of the API.
type filterFlag struct{ name, help string }

// parameter is the name that the API has for it.
func (f filterFlag) parameter() string {
	if f.name == "message" {
		return "message_id"
	}
	return f.name
}

var (
	sourceFilter = filterFlag{"source", "only events of this source"}
	typeFilter   = filterFlag{"type", "only events of this type"}
	idFilter     = filterFlag{"id", "only the event with this id"}
	textFilter   = filterFlag{"q", "only events with this text in the id, the type or the body"}
	sinceFilter  = filterFlag{"since", "received at or after this time (RFC 3339), or this long ago (2h, 7d)"}
	untilFilter  = filterFlag{"until", "received before this time (RFC 3339), or this long ago (2h, 7d)"}

	pageFlags = []filterFlag{
		{"limit", "how many at most, 1 to 200 (default 50)"},
		{"cursor", "continue where the page before ended"},
	}
	// cursorFlag is for what works on many.
	cursorFlag = filterFlag{"cursor", "go on where the same command ended, with what it told then"}

	// tailFilters are those that look at an event as it arrives.
	tailFilters = []filterFlag{
		sourceFilter, typeFilter,
		{"state", "only events in this state: pending, running, done, dead or skipped"},
		{"note", "only events with this note, such as \"no route\""},
		idFilter, textFilter, sinceFilter,
	}
	eventFilters      = append(slices.Clone(tailFilters), untilFilter)
	deadLetterFilters = []filterFlag{
		sourceFilter, typeFilter,
		{"destination", "only messages to this destination"},
		{"note", "only dead letters with this note"},
		idFilter,
		{"message", "only the message with this id"},
		textFilter, sinceFilter, untilFilter,
	}
)

func addFilterFlags(cmd *cobra.Command, filters []filterFlag) {
	for _, f := range filters {
		cmd.Flags().String(f.name, "", f.help)
	}
}

// given returns the names of those of filters that the command line has.
func given(cmd *cobra.Command, filters []filterFlag) []string {
	var names []string
	for _, f := range filters {
		if cmd.Flags().Changed(f.name) {
			names = append(names, f.name)
		}
	}
	return names
}

// readFilter reads the flags with the eyes of the API, by parse.
func readFilter[F any](cmd *cobra.Command, filters []filterFlag, parse func(url.Values, time.Time) (F, error)) (F, error) {
	values, names := make(url.Values), make(map[string]string)
	for _, f := range filters {
		names[f.parameter()] = f.name
		if cmd.Flags().Changed(f.name) {
			values.Set(f.parameter(), cmd.Flags().Lookup(f.name).Value.String())
		}
	}
	filter, err := parse(values, time.Now())
	if bad, is := errors.AsType[*hookadmin.ParameterError](err); is {
		return filter, newUsageError(cmd, fmt.Errorf("--%s: %s", names[bad.Name], bad.Reason))
	}
	return filter, err
}

func readEventFilter(cmd *cobra.Command, filters []filterFlag) (*driver.EventFilter, error) {
	return readFilter(cmd, filters, hookadmin.ParseFilter)
}

func readDeadLetterFilter(cmd *cobra.Command, filters []filterFlag) (*driver.MessageFilter, error) {
	return readFilter(cmd, filters, hookadmin.ParseDeadLetterFilter)
}

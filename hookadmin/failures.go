package hookadmin

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/hookonce/hookonce/internal/shown"
)

// newestFailures is how many failures the page of a destination shows.
const newestFailures = 10

// addFailures adds the last failure of each destination that fails, or has open or dead messages.
func (h *handling) addFailures(r *http.Request, page *DestinationPage) {
	byName := make(map[string]*Destination)
	var names []string
	for i := range page.Destinations {
		d := &page.Destinations[i]
		if d.Circuit != nil && d.Circuit.Failures > 0 || d.Pending != nil && *d.Pending+*d.Sending+*d.Dead > 0 {
			byName[d.Name] = d
			names = append(names, d.Name)
		}
	}
	if len(names) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	all, err := h.store.Failures(ctx, names, 1)
	if err != nil {
		h.logger.WarnContext(ctx, "reading the last failures failed; destinations are shown without them", slog.Any("error", err))
	}
	for i := range all {
		byName[all[i].Destination].LastFailure = newFailure(&all[i])
	}
}

// failuresOf returns the newest failures of a destination.
func (h *handler) failuresOf(ctx context.Context, name string) ([]Failure, error) {
	all, err := h.store.Failures(ctx, []string{name}, newestFailures)
	if err != nil {
		return nil, err
	}
	failures := make([]Failure, len(all))
	for i := range all {
		failures[i] = *newFailure(&all[i])
	}
	return failures, nil
}

// RetryCommand returns the command that makes its waiting messages due now.
func (d *Destination) RetryCommand() string {
	return "hookonce destinations retry " + shown.Word(d.Name)
}

// String says in a line what happened: "answered 500 (evt_1 of stripe, 2026-01-31 12:00:00 UTC)".
func (f *Failure) String() string {
	return fmt.Sprintf("%s (%s of %s, %s)", newText(f.Error, 160).Short, newID(f.EventID).Short, newText(f.Source, 24).Short, toTheSecond(f.At))
}

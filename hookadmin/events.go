package hookadmin

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func (h *handling) listEvents(w http.ResponseWriter, r *http.Request) {
	list(h, w, r, h.parseFilter, h.freshEvents, NewEventPage)
}

// parseFilter is ParseFilter for this program: an id without a source may belong to any of its sources.
func (h *handler) parseFilter(values url.Values, now time.Time) (*driver.EventFilter, error) {
	f, err := ParseFilter(values, now)
	if err == nil {
		f.Sources = h.sources()
	}
	return f, err
}

// ofSources does the same for a parser of message filters.
func (h *handler) ofSources(parse func(url.Values, time.Time) (*driver.MessageFilter, error)) func(url.Values, time.Time) (*driver.MessageFilter, error) {
	return func(values url.Values, now time.Time) (*driver.MessageFilter, error) {
		f, err := parse(values, now)
		if err == nil {
			f.Sources = h.sources()
		}
		return f, err
	}
}

// sources returns the names of the configured sources.
func (h *handler) sources() []string {
	var names []string
	for _, s := range h.engine.Operator().Sources() {
		names = append(names, s.Name)
	}
	return names
}

func (h *handler) destinations() []string {
	var names []string
	for _, d := range h.engine.Operator().Destinations() {
		names = append(names, d.Name)
	}
	return names
}

// list answers with the page that the parameters of r select.
func list[Filter, Page, Shape any](
	h *handling, w http.ResponseWriter, r *http.Request,
	parse func(url.Values, time.Time) (*Filter, error),
	find func(context.Context, *Filter) (*Page, error),
	shape func(*Page) Shape,
) {
	values, ok := h.query(w, r)
	if !ok {
		return
	}
	filter, err := parse(values, time.Now())
	if err != nil {
		h.fail(w, r, http.StatusBadRequest, err.Error(), nil)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	page, err := find(ctx, filter)
	if err != nil {
		h.failStore(w, r, fmt.Errorf("listing: %w", err))
		return
	}
	writeJSON(w, shape(page))
}

func (h *handling) showEvent(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	found, err := h.freshEvent(ctx, r.PathValue("source"), r.PathValue("event_id"))
	if err != nil {
		h.failStore(w, r, fmt.Errorf("reading an event: %w", err))
		return
	}
	detail, err := NewEventDetail(found)
	if err != nil {
		h.failStore(w, r, err)
		return
	}
	writeJSON(w, detail)
}

// freshEvents and freshEvent read events after the counts of this gateway's deliveries were written:
// the sender of a duplicate has its answer already.
func (h *handling) freshEvents(ctx context.Context, f *driver.EventFilter) (*driver.EventPage, error) {
	h.writeCounts(ctx)
	return h.store.Events(ctx, f)
}

func (h *handling) freshEvent(ctx context.Context, source, eventID string) (*driver.EventDetail, error) {
	h.writeCounts(ctx)
	return h.store.Event(ctx, source, eventID)
}

// writeCounts fails no read: without it a count is a second old.
func (h *handling) writeCounts(ctx context.Context) {
	if err := h.engine.Operator().FreshCounts(ctx); err != nil {
		h.logger.Debug("writing delivery counts failed; this answer may lack the deliveries of the last second", slog.Any("error", err))
	}
}

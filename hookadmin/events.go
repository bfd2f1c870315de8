package hookadmin

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

func (h *handler) listEvents(w http.ResponseWriter, r *http.Request) {
	list(h, w, r, ParseFilter, h.store.Events, NewEventPage)
}

// list answers with the page that the parameters of r select.
func list[Filter, Page, Shape any](
	h *handler, w http.ResponseWriter, r *http.Request,
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

func (h *handler) showEvent(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	found, err := h.store.Event(ctx, r.PathValue("source"), r.PathValue("event_id"))
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

package hookadmin

import (
	"context"
	"fmt"
	"net/http"

	"github.com/hookonce/hookonce/driver"
)

func (h *handler) listQuarantine(w http.ResponseWriter, r *http.Request) {
	values, ok := h.query(w, r)
	if !ok {
		return
	}
	filter, err := parseQuarantine(values)
	if err != nil {
		h.fail(w, r, http.StatusBadRequest, err.Error(), nil)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	page, err := h.store.Quarantined(ctx, filter)
	if err != nil {
		h.failStore(w, r, fmt.Errorf("listing the quarantine: %w", err))
		return
	}
	shape, err := newQuarantinePage(page)
	if err != nil {
		h.failStore(w, r, err)
		return
	}
	writeJSON(w, shape)
}

func (h *handler) listSources(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, newSourcePage(h.inbox.Sources()))
}

func (h *handler) listRoutes(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, newRoutePage(h.inbox.Routes()))
}

func (h *handler) listDestinations(w http.ResponseWriter, r *http.Request) {
	if stats := h.stats(w, r); stats != nil {
		writeJSON(w, newDestinationPage(h.inbox.Destinations(), stats.Destinations))
	}
}

func (h *handler) showStats(w http.ResponseWriter, r *http.Request) {
	if stats := h.stats(w, r); stats != nil {
		writeJSON(w, newStats(stats))
	}
}

// stats counts, and answers and returns nil where it cannot.
func (h *handler) stats(w http.ResponseWriter, r *http.Request) *driver.Stats {
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	stats, err := h.store.Stats(ctx)
	if err != nil {
		h.failStore(w, r, fmt.Errorf("counting: %w", err))
		return nil
	}
	return stats
}

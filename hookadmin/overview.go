package hookadmin

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"time"
)

// listSources shows the settings even without the database.
func (h *handling) listSources(w http.ResponseWriter, r *http.Request) {
	all := h.engine.Operator().Sources()
	page := NewSourcePage(all)
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
		page.Sources[i].Address = "/webhooks/" + url.PathEscape(names[i])
		if h.public() {
			page.Sources[i].Address = h.webhookURL(names[i])
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	learned, err := h.store.LearnedSecrets(ctx, names)
	if err != nil {
		h.logger.WarnContext(ctx, "reading learned secrets failed; sources are listed without them", slog.Any("error", err))
		writeJSON(w, page)
		return
	}
	for i := range page.Sources {
		page.Sources[i].learned(&learned[i])
	}
	h.addActivity(ctx, page)
	writeJSON(w, page)
}

// addActivity adds how the sources did.
func (h *handler) addActivity(ctx context.Context, page *SourcePage) {
	known, err := h.activity(ctx, h.sourceRows(), time.Now())
	if err != nil {
		h.logger.WarnContext(ctx, "reading figures failed; sources are listed without them", slog.Any("error", err))
		return
	}
	for i := range page.Sources {
		if s := &page.Sources[i]; (*known)[s.Name] != nil {
			a := (*known)[s.Name]
			s.Health, s.Why, s.Deliveries = a.Health, a.Why, a.Deliveries
			if last := time.Time(a.Last); !last.IsZero() { // the end of a minute, or now
				s.LastDeliveryAt = Time(last.Add(-1).Truncate(time.Minute))
			}
		}
	}
}

func (h *handler) listRoutes(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, newRoutePage(h.engine.Operator().Routes()))
}

// listDestinations shows the circuits even without the database: an outage may be the reason to
// look.
func (h *handling) listDestinations(w http.ResponseWriter, r *http.Request) {
	stats, err := h.stats(r)
	if err != nil {
		h.logger.WarnContext(r.Context(), "counting failed; destinations are listed without their counts", slog.Any("error", err))
	}
	page := newDestinationPage(h.engine.Operator().Destinations(), stats)
	h.addPaused(r, page)
	h.addFailures(r, page)
	writeJSON(w, page)
}

// showGateway answers without the database, so that a command can name the gateway in any case.
func (h *handler) showGateway(w http.ResponseWriter, _ *http.Request) { writeJSON(w, h.about) }

func (h *handling) showStats(w http.ResponseWriter, r *http.Request) {
	stats, err := h.stats(r)
	if err != nil {
		h.failStore(w, r, err)
		return
	}
	paused, err := h.paused(r)
	if err != nil {
		h.failStore(w, r, err)
		return
	}
	out := newStats(stats)
	out.addPaused(paused)
	writeJSON(w, out)
}

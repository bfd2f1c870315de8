package hookadmin

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
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
	if err == nil {
		err = h.addLooks(ctx, page.Sources)
	}
	if err != nil {
		h.logger.WarnContext(ctx, "reading the facts of sources failed; they are listed without their secrets and looks", slog.Any("error", err))
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
			s.Health, s.Why, s.Deliveries = a.Health, a.Why+inOneText(a.Steps), a.Deliveries
			if last := time.Time(a.Last); !last.IsZero() { // the end of a minute, or now
				s.LastDeliveryAt = Time(last.Add(-1).Truncate(time.Minute))
			}
		}
	}
}

// addLooks adds how the lists of providers were looked at.
func (h *handler) addLooks(ctx context.Context, sources []Source) error {
	var names []string
	for i := range sources {
		if sources[i].Reconcile != nil {
			names = append(names, sources[i].Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	states, err := h.store.Reconciles(ctx, names)
	if err != nil {
		return fmt.Errorf("reading how providers' lists were looked at: %w", err)
	}
	for i := range states {
		at := slices.IndexFunc(sources, func(s Source) bool { return s.Name == states[i].Source })
		sources[at].Reconcile.looked(&states[i])
	}
	return nil
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

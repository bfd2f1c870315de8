package hookadmin

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"

	"github.com/hookonce/hookonce/driver"
)

// DestinationPaused is the answer of POST /api/v1/destinations/{name}/pause and /resume.
type DestinationPaused struct {
	Name     string `json:"name"`
	Paused   bool   `json:"paused"`
	PausedAt Time   `json:"paused_at"` // null unless paused
}

// DestinationRetried is the answer of POST /api/v1/destinations/{name}/retry.
type DestinationRetried struct {
	Name    string `json:"name"`
	Retried int    `json:"retried"` // messages that are due now and waited for another attempt
	More    bool   `json:"more"`    // others wait: send the request again
}

// destinationThing is the thing of the endpoints of one destination.
const destinationThing = "destination"

const repeatedPause = "Repeating it is safe."

func (h *handling) pauseDestination(w http.ResponseWriter, r *http.Request) {
	if !h.read(w, r, &struct{}{}) {
		return
	}
	ctx, cancel := changing(r)
	defer cancel()
	name := r.PathValue("name")
	at, err := h.engine.Operator().PauseDestination(ctx, name)
	if err != nil {
		h.failChange(w, r, repeatedPause, fmt.Errorf("pausing a destination: %w", err))
		return
	}
	writeJSON(w, &DestinationPaused{Name: name, Paused: true, PausedAt: Time(at)})
}

func (h *handling) resumeDestination(w http.ResponseWriter, r *http.Request) {
	if !h.read(w, r, &struct{}{}) {
		return
	}
	ctx, cancel := changing(r)
	defer cancel()
	name := r.PathValue("name")
	if _, err := h.engine.Operator().ResumeDestination(ctx, name); err != nil {
		h.failChange(w, r, repeatedPause, fmt.Errorf("resuming a destination: %w", err))
		return
	}
	writeJSON(w, &DestinationPaused{Name: name})
}

func (h *handling) retryDestination(w http.ResponseWriter, r *http.Request) {
	if !h.read(w, r, &struct{}{}) {
		return
	}
	ctx, cancel := changing(r)
	defer cancel()
	name := r.PathValue("name")
	retried, more, err := h.engine.Operator().RetryDestination(ctx, name)
	if err != nil {
		h.failChange(w, r, repeatedPause, fmt.Errorf("retrying the messages of a destination: %w", err))
		return
	}
	writeJSON(w, &DestinationRetried{Name: name, Retried: retried, More: more})
}

// paused returns the paused destinations.
func (h *handler) paused(r *http.Request) ([]driver.PausedDestination, error) {
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	return h.engine.Operator().PausedDestinations(ctx)
}

// addPaused marks the paused destinations of a page. If the database does not answer, that
// stays unknown.
func (h *handling) addPaused(r *http.Request, page *DestinationPage) {
	paused, err := h.paused(r)
	if err != nil {
		h.logger.WarnContext(r.Context(), "reading paused destinations failed; destinations are listed without their pauses", slog.Any("error", err))
		return
	}
	page.addPaused(paused)
}

// addPaused also adds paused destinations that the page lacks.
func (p *DestinationPage) addPaused(paused []driver.PausedDestination) {
	at := make(map[string]Time, len(paused))
	for _, d := range paused {
		at[d.Destination] = Time(d.At)
		byName := func(one Destination, name string) int { return cmp.Compare(one.Name, name) }
		if i, found := slices.BinarySearchFunc(p.Destinations, d.Destination, byName); !found {
			p.Destinations = slices.Insert(p.Destinations, i, Destination{Name: d.Destination})
		}
	}
	for i := range p.Destinations {
		d := &p.Destinations[i]
		var paused bool
		d.PausedAt, paused = at[d.Name]
		d.Paused = &paused
	}
}

func (s *Stats) addPaused(paused []driver.PausedDestination) {
	s.Paused = make([]string, len(paused))
	for i := range paused {
		s.Paused[i] = paused[i].Destination
	}
}

package hookadmin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
)

func (h *handler) listEvents(w http.ResponseWriter, r *http.Request) {
	list(h, w, r, ParseFilter, h.store.Events, NewEventPage)
}

// list answers with a page of what the parameters of r select.
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

// replayRequest is the body of POST /api/v1/events/{source}/{event_id}/replay.
type replayRequest struct {
	AsNew  bool `json:"as_new"`
	SameID bool `json:"same_id"`
}

const bothModes = `Say {"as_new":true} for new ids, so that destinations do the work again, ` +
	`or {"same_id":true} for the ids it had, so that those that dedupe may skip it.`

func (q *replayRequest) mode() (driver.ReplayMode, *refusal) {
	switch {
	case q.AsNew && q.SameID:
		return 0, &refusal{http.StatusUnprocessableEntity, "A replay cannot be as new and under the same id. " + bothModes}
	case q.AsNew:
		return driver.ReplayAsNew, nil
	case q.SameID:
		return driver.ReplaySameID, nil
	}
	return driver.ReplayPlain, nil
}

// requestID returns the Idempotency-Key of r, "" where there is none.
func requestID(r *http.Request) (string, *refusal) {
	values := r.Header.Values("Idempotency-Key")
	switch {
	case len(values) == 0:
		return "", nil
	case len(values) > 1 || values[0] == "":
		// It would not protect its sender as it was meant to.
		return "", &refusal{http.StatusBadRequest, "Idempotency-Key: there must be one, and not an empty one, or none at all."}
	}
	return values[0], nil
}

func (h *handler) replayEvent(w http.ResponseWriter, r *http.Request) {
	var q replayRequest
	if !h.read(w, r, &q) {
		return
	}
	mode, refused := q.mode()
	id, badID := requestID(r)
	if refused = cmp.Or(badID, refused); refused != nil {
		h.refuse(w, r, refused)
		return
	}
	source, eventID := r.PathValue("source"), r.PathValue("event_id")
	ctx, cancel := changing(r)
	defer cancel()
	replayed, err := h.engine.Replay(ctx, &hookonce.ReplayRequest{Source: source, EventID: eventID, Mode: mode, RequestID: id})
	if err != nil {
		if refused := replayRefusal(err); refused != nil {
			h.refuse(w, r, refused)
			return
		}
		again := "Look at the event before you repeat it; with an Idempotency-Key it could be repeated safely."
		if id != "" {
			again = "Repeat it with the same Idempotency-Key, which is safe."
		}
		h.failChange(w, r, again, fmt.Errorf("replaying an event: %w", err))
		return
	}
	writeJSON(w, NewReplayed(source, eventID, replayed))
}

// changing returns the context of one short change: it goes on when the client
// hangs up, because a change that is cut off leaves in doubt whether it was made.
func changing(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.Context()), queryTimeout)
}

// replayRefusal returns the answer to an event that cannot be replayed as it
// was asked for, or nil.
func replayRefusal(err error) *refusal {
	switch {
	case errors.Is(err, hookonce.ErrRequestID):
		return &refusal{http.StatusBadRequest, "Idempotency-Key: at most 255 bytes of UTF-8 without control characters."}
	case errors.Is(err, driver.ErrOpen):
		return &refusal{http.StatusConflict, "The event is not finished: replay it when it is done, dead or skipped. " +
			"A message of it that waits can be retried at once."}
	case errors.Is(err, driver.ErrBodyPruned):
		return &refusal{http.StatusGone, "The body of the event is past its retention: there is nothing left to send."}
	case errors.Is(err, driver.ErrRequestReused):
		return &refusal{http.StatusUnprocessableEntity, "This Idempotency-Key was used for a replay of the event in another mode: take another one."}
	case errors.Is(err, driver.ErrModeNeeded):
		return &refusal{http.StatusUnprocessableEntity, "The event is done. " + bothModes}
	case errors.Is(err, driver.ErrNoRoute):
		return &refusal{http.StatusUnprocessableEntity, "No route matches the event: add one to the settings, then replay it."}
	}
	return nil
}

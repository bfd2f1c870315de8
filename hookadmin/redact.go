package hookadmin

import (
	"errors"
	"fmt"
	"net/http"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
)

// Redacted is the answer of POST /api/v1/events/{source}/{event_id}/redact.
type Redacted struct {
	Source   string `json:"source"`
	EventID  string `json:"event_id"`
	Redacted bool   `json:"redacted"` // always true
	Repeated bool   `json:"repeated"` // the event was redacted before
	Remains  string `json:"remains"`  // where files of the database may still hold the removed bytes; "" means nowhere
}

func (h *handler) redactEvent(w http.ResponseWriter, r *http.Request) {
	if !h.read(w, r, &struct{}{}) {
		return
	}
	id, refused := requestID(r)
	if refused != nil {
		h.refuse(w, r, refused)
		return
	}
	source, eventID := r.PathValue("source"), r.PathValue("event_id")
	ctx, cancel := changing(r)
	defer cancel()
	redacted, err := h.engine.Redact(ctx, &hookonce.RedactRequest{Source: source, EventID: eventID, RequestID: id})
	if err != nil {
		if refused := redactRefusal(err); refused != nil {
			h.because(err).refuse(w, r, refused)
			return
		}
		h.failChange(w, r, "Repeating it is safe.", fmt.Errorf("redacting an event: %w", err))
		return
	}
	writeJSON(w, &Redacted{Source: source, EventID: eventID, Redacted: true, Repeated: redacted.Repeated, Remains: redacted.Remains})
}

// redactRefusal returns the answer for an event that cannot be redacted now, or nil.
func redactRefusal(err error) *refusal {
	switch {
	case errors.Is(err, hookonce.ErrRequestID):
		return badRequestID
	case errors.Is(err, driver.ErrOpen):
		return &refusal{http.StatusConflict, "The event, or a message that its handler enqueued, is not finished, and its body is still needed. " +
			"Redact it when it is done, dead or skipped."}
	case errors.Is(err, driver.ErrRequestReused):
		return &refusal{http.StatusUnprocessableEntity, "This Idempotency-Key was used for a replay of the event. Use another key."}
	}
	return nil
}

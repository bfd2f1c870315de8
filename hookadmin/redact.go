package hookadmin

import (
	"fmt"
	"net/http"

	hookonce "github.com/hookonce/hookonce"
)

// Redacted is the answer of POST /api/v1/events/{source}/{event_id}/redact.
type Redacted struct {
	Source   string `json:"source"`
	EventID  string `json:"event_id"`
	Redacted bool   `json:"redacted"` // always true
	Repeated bool   `json:"repeated"` // the event was redacted before
	Remains  string `json:"remains"`  // where files of the database may still hold the removed bytes; "" means nowhere
}

func (h *handling) redactEvent(w http.ResponseWriter, r *http.Request) {
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
		h.failKnown(w, r, ofRedact, "Repeating it is safe.", fmt.Errorf("redacting an event: %w", err))
		return
	}
	writeJSON(w, &Redacted{Source: source, EventID: eventID, Redacted: true, Repeated: redacted.Repeated, Remains: redacted.Remains})
}

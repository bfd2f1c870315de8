package hookadmin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
)

// ReplayRequest is the body of POST /api/v1/events/{source}/{event_id}/replay.
type ReplayRequest struct {
	AsNew   bool   `json:"as_new,omitempty"`
	SameID  bool   `json:"same_id,omitempty"`
	Reroute bool   `json:"reroute,omitempty"`
	To      string `json:"to,omitempty"`    // the name of a destination
	Note    string `json:"note,omitempty"`  // "" or driver.NoteTxEnded
	Stale   bool   `json:"stale,omitempty"` // although a higher version of the object was sent
}

func (q *ReplayRequest) mode() (driver.ReplayMode, *refusal) {
	mode, modes := driver.ReplayPlain, 0
	for _, m := range []struct {
		chosen bool
		mode   driver.ReplayMode
	}{{q.AsNew, driver.ReplayAsNew}, {q.SameID, driver.ReplaySameID}, {q.Reroute, driver.ReplayReroute}, {q.To != "", driver.ReplayTo}} {
		if m.chosen {
			mode = m.mode
			modes++
		}
	}
	switch {
	case q.Note != "" && q.Note != driver.NoteTxEnded:
		return 0, &refusal{http.StatusUnprocessableEntity, `The only note that a replay names is "` + driver.NoteTxEnded + `".`}
	case q.AsNew && q.SameID:
		return 0, &refusal{http.StatusUnprocessableEntity, "A replay cannot have both new and old ids. " + bothModes}
	case modes > 1:
		return 0, &refusal{http.StatusUnprocessableEntity, "as_new, same_id, reroute and to exclude each other: give one of them."}
	}
	return mode, nil
}

// requestID returns the Idempotency-Key of r, or "".
func requestID(r *http.Request) (string, *refusal) {
	values := r.Header.Values("Idempotency-Key")
	switch {
	case len(values) == 0:
		return "", nil
	case len(values) > 1 || values[0] == "":
		// A client that sends such a key expects protection that it would not get.
		return "", &refusal{http.StatusBadRequest, "Send one Idempotency-Key that is not empty, or none."}
	}
	return values[0], nil
}

func (h *handling) replayEvent(w http.ResponseWriter, r *http.Request) {
	var q ReplayRequest
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
	replayed, err := h.engine.Replay(ctx, &hookonce.ReplayRequest{
		Source: source, EventID: eventID, Mode: mode, To: q.To, Note: q.Note, Stale: q.Stale, RequestID: id,
	})
	if err != nil {
		again := "Look at the event before you repeat the request. With an Idempotency-Key, repeating is safe."
		if id != "" {
			again = "Repeating it with the same Idempotency-Key is safe."
		}
		h.failKnown(w, r, ofReplay, again, fmt.Errorf("replaying an event: %w", err))
		return
	}
	writeJSON(w, NewReplayed(source, eventID, replayed))
}

// changing returns the context of one short change. The change continues when the client hangs up:
// a cancelled change may or may not be committed.
func changing(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.Context()), queryTimeout)
}

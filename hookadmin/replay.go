package hookadmin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
)

// replayRequest is the body of POST /api/v1/events/{source}/{event_id}/replay.
type replayRequest struct {
	AsNew  bool   `json:"as_new"`
	SameID bool   `json:"same_id"`
	Note   string `json:"note"` // "" or driver.NoteTxEnded
}

const (
	bothModes = `Say {"as_new":true} for new ids, so that destinations do the work again, ` +
		`or {"same_id":true} for the old ids, so that destinations that dedupe may skip it.`
	nameTheNote = "The handler of the event ended its transaction, so the event may have taken effect. Correct the handler, " +
		`look at the effects, and say {"note":"` + driver.NoteTxEnded + `"} if the handler is to run again.`
	bodyPruned = "The body of the event is past its retention or redacted, so there is nothing to send."
)

func (q *replayRequest) mode() (driver.ReplayMode, *refusal) {
	switch {
	case q.Note != "" && q.Note != driver.NoteTxEnded:
		return 0, &refusal{http.StatusUnprocessableEntity, `The only note that a replay names is "` + driver.NoteTxEnded + `".`}
	case q.AsNew && q.SameID:
		return 0, &refusal{http.StatusUnprocessableEntity, "A replay cannot have both new and old ids. " + bothModes}
	case q.AsNew:
		return driver.ReplayAsNew, nil
	case q.SameID:
		return driver.ReplaySameID, nil
	}
	return driver.ReplayPlain, nil
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
	replayed, err := h.engine.Replay(ctx, &hookonce.ReplayRequest{Source: source, EventID: eventID, Mode: mode, Note: q.Note, RequestID: id})
	if err != nil {
		if refused := replayRefusal(err); refused != nil {
			h.because(err).refuse(w, r, refused)
			return
		}
		again := "Look at the event before you repeat the request. With an Idempotency-Key, repeating is safe."
		if id != "" {
			again = "Repeating it with the same Idempotency-Key is safe."
		}
		h.failChange(w, r, again, fmt.Errorf("replaying an event: %w", err))
		return
	}
	writeJSON(w, NewReplayed(source, eventID, replayed))
}

// changing returns the context of one short change. The change continues when the client hangs up:
// a cancelled change may or may not be committed.
func changing(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.Context()), queryTimeout)
}

var badRequestID = &refusal{http.StatusBadRequest, "The Idempotency-Key must be UTF-8 without control characters, at most 255 bytes long."}

// replayRefusal returns the answer for an event that cannot be replayed as requested, or nil.
func replayRefusal(err error) *refusal {
	switch {
	case errors.Is(err, hookonce.ErrRequestID):
		return badRequestID
	case errors.Is(err, driver.ErrOpen):
		return &refusal{http.StatusConflict, "The event is not finished. Replay it when it is done, dead or skipped. " +
			"Its waiting messages can be retried now."}
	case errors.Is(err, driver.ErrRedacted):
		return &refusal{http.StatusGone, "The payload of the event was redacted, so there is nothing to send."}
	case errors.Is(err, driver.ErrBodyPruned):
		return &refusal{http.StatusGone, bodyPruned}
	case errors.Is(err, driver.ErrRequestReused):
		return &refusal{http.StatusUnprocessableEntity, "This Idempotency-Key was used for a replay of the event in another mode, or to redact it. Use another key."}
	case errors.Is(err, driver.ErrNoteNeeded):
		return &refusal{http.StatusUnprocessableEntity, nameTheNote}
	case errors.Is(err, driver.ErrModeNeeded):
		return &refusal{http.StatusUnprocessableEntity, "The event is done. " + bothModes}
	case errors.Is(err, driver.ErrUndecided):
		return &refusal{http.StatusUnprocessableEntity, "The condition of a route takes too long for this event. Simplify it in the settings, then replay the event."}
	case errors.Is(err, driver.ErrNoRoute):
		return &refusal{http.StatusUnprocessableEntity, "No route matches the event. Add one to the settings, then replay the event."}
	}
	return nil
}

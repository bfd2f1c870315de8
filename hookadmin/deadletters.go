package hookadmin

import (
	"fmt"
	"net/http"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func (h *handling) listDeadLetters(w http.ResponseWriter, r *http.Request) {
	list(h, w, r, h.ofSources(ParseDeadLetterFilter), h.store.DeadLetters, NewDeadLetterPage)
}

// DeadLettersRequest is the body of POST /api/v1/dead-letters/replay and /discard.
type DeadLettersRequest struct {
	JobFilter
	Rate string `json:"rate,omitempty"`
}

func (h *handling) replayDead(w http.ResponseWriter, r *http.Request) {
	h.workOn(w, r, driver.JobReplay)
}

func (h *handling) discardDead(w http.ResponseWriter, r *http.Request) {
	h.workOn(w, r, driver.JobDiscard)
}

// workOn replays or discards the dead letters that r selects. It leaves a long change to the job.
func (h *handling) workOn(w http.ResponseWriter, r *http.Request, action string) {
	var q DeadLettersRequest
	if !h.read(w, r, &q) {
		return
	}
	id, refused := requestID(r)
	if refused != nil {
		h.refuse(w, r, refused)
		return
	}
	request, err := (&JobRequest{Action: action, Rate: q.Rate, Filter: q.JobFilter}).job("", time.Now())
	if err != nil {
		h.fail(w, r, http.StatusUnprocessableEntity, err.Error(), nil)
		return
	}
	request.RequestID = id
	// Where the server does not support this, it fails and the server's own deadline holds.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(queryTimeout + answerTimeout))
	ctx, cancel := changing(r)
	defer cancel()
	job, err := h.engine.Operator().Do(ctx, request)
	switch {
	case err != nil:
		h.failKnown(w, r, ofJob, "With an Idempotency-Key, repeating is safe.", fmt.Errorf("working on dead letters: %w", err))
	case job.State != driver.JobDone:
		h.accept(w, job.ID)
	default:
		writeJSON(w, NewWorked(NewJob(job)))
	}
}

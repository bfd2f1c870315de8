package hookadmin

import (
	"context"
	"fmt"
	"net/http"
	"time"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
)

const (
	// bulkTimeout bounds one request about many dead letters. It is shorter than a minute, a common
	// timeout of proxies.
	bulkTimeout = 45 * time.Second
	// answerTimeout is added to bulkTimeout for the client to read the answer.
	answerTimeout = 10 * time.Second
)

func (h *handler) listDeadLetters(w http.ResponseWriter, r *http.Request) {
	list(h, w, r, h.ofSources(ParseDeadLetterFilter), h.store.DeadLetters, NewDeadLetterPage)
}

func (h *handler) replayDead(w http.ResponseWriter, r *http.Request) {
	h.workOn(w, r, h.engine.ReplayDead, NewReplayedDead)
}

func (h *handler) discardDead(w http.ResponseWriter, r *http.Request) {
	h.workOn(w, r, h.engine.Discard, NewDiscarded)
}

// deadLettersRequest is the body of POST /api/v1/dead-letters/replay and /discard. Its keys select
// like the parameters of GET /api/v1/dead-letters, with lists of ids instead of id and message_id.
type deadLettersRequest struct {
	Source      string   `json:"source"`
	Type        string   `json:"type"`
	Destination string   `json:"destination"`
	Note        string   `json:"note"`
	IDs         []string `json:"ids"` // event ids
	MessageIDs  []string `json:"message_ids"`
	Q           string   `json:"q"`
	Since       string   `json:"since"`
	Until       string   `json:"until"`
	All         bool     `json:"all"`
	Rate        string   `json:"rate"`
	Cursor      string   `json:"cursor"` // Worked.Next of the request to continue
}

// selection returns the dead letters that q selects.
func (q *deadLettersRequest) selection(now time.Time) (*hookonce.DeadLetters, error) {
	filtered := q.Source+q.Type+q.Destination+q.Note+q.Q+q.Since+q.Until != "" || q.IDs != nil || q.MessageIDs != nil
	switch {
	case !filtered && !q.All:
		return nil, &ParameterError{"all", "must be true unless other keys select dead letters"}
	case filtered && q.All:
		return nil, &ParameterError{"all", "must stand alone: the other keys select only some of them"}
	case q.IDs != nil && q.Source == "":
		return nil, &ParameterError{"source", "is required with ids, because ids belong to one source"}
	case q.IDs != nil && q.MessageIDs != nil:
		return nil, &ParameterError{"message_ids", "is not allowed with ids"}
	case q.Cursor != "" && (q.IDs != nil || q.MessageIDs != nil):
		return nil, &ParameterError{"cursor", "is not allowed with ids or message_ids: leave out the ids that are done"}
	}
	which := &hookonce.DeadLetters{
		Filter: driver.MessageFilter{
			Source: q.Source, Type: q.Type, Destination: q.Destination, Note: q.Note, Text: q.Q,
		},
		EventIDs:   q.IDs,
		MessageIDs: q.MessageIDs,
	}
	var err error
	if which.Filter.Since, which.Filter.Until, err = parseSpan(q.Since, q.Until, now); err != nil {
		return nil, err
	}
	if which.Rate, err = hookonce.ParsePace(q.Rate); err != nil {
		return nil, &ParameterError{"rate", fmt.Sprintf("%q %s", q.Rate, err)}
	}
	if which.Filter.After, err = driver.ParseMessageCursor(q.Cursor); err != nil {
		return nil, &ParameterError{"cursor", err.Error()}
	}
	return which, nil
}

// workOn calls work for the dead letters that r selects, for at most bulkTimeout.
func (h *handler) workOn(
	w http.ResponseWriter, r *http.Request,
	work func(context.Context, *hookonce.DeadLetters) (hookonce.Worked, error),
	shape func(hookonce.Worked, bool) *Worked,
) {
	var q deadLettersRequest
	if !h.read(w, r, &q) {
		return
	}
	which, err := q.selection(time.Now())
	if err != nil {
		h.fail(w, r, http.StatusUnprocessableEntity, err.Error(), nil)
		return
	}
	// Where the server does not support this, it fails and the server's own deadline holds.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(bulkTimeout + answerTimeout))
	ctx, cancel := context.WithTimeout(r.Context(), bulkTimeout)
	defer cancel()
	worked, err := work(ctx, which)
	if came := worked.Done + worked.Passed; err != nil && (ctx.Err() == nil || came == 0) {
		h.failChange(w, r, howToGoOn(&worked), fmt.Errorf("working on dead letters: %w", err))
		return
	}
	writeJSON(w, shape(worked, err == nil))
}

// howToGoOn returns how many dead letters were handled, and the cursor that continues after them.
// Without the cursor, letters that are dead again would come first.
func howToGoOn(worked *hookonce.Worked) string {
	came := fmt.Sprintf("It handled %d dead letters. ", worked.Done+worked.Passed)
	if worked.Next.IsZero() {
		return came + "Repeating it is safe."
	}
	return came + fmt.Sprintf(`Repeat it with "cursor":%q to continue.`, worked.Next.String())
}

package hookadmin

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"time"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/operate"
)

const (
	// bulkTimeout bounds one request about many dead letters. It is shorter than a minute, a common
	// timeout of proxies.
	bulkTimeout = 45 * time.Second
	// answerTimeout is added to bulkTimeout for the client to read the answer.
	answerTimeout = 10 * time.Second
)

func (h *handling) listDeadLetters(w http.ResponseWriter, r *http.Request) {
	list(h, w, r, h.ofSources(ParseDeadLetterFilter), h.store.DeadLetters, NewDeadLetterPage)
}

func (h *handling) replayDead(w http.ResponseWriter, r *http.Request) {
	h.workOn(w, r, driver.JobReplay, h.engine.ReplayDead, func(worked hookonce.Worked, complete bool, _ string) *Worked {
		return NewReplayedDead(worked, complete)
	})
}

func (h *handling) discardDead(w http.ResponseWriter, r *http.Request) {
	h.workOn(w, r, driver.JobDiscard, h.engine.Discard, func(worked hookonce.Worked, complete bool, id string) *Worked {
		out := NewDiscarded(worked, complete)
		out.RequestID = id
		return out
	})
}

// DeadLettersRequest is the body of POST /api/v1/dead-letters/replay and /discard. Its keys select
// like the parameters of GET /api/v1/dead-letters, with lists of ids instead of id and message_id.
type DeadLettersRequest struct {
	Source      string   `json:"source,omitempty"`
	Type        string   `json:"type,omitempty"`
	Destination string   `json:"destination,omitempty"`
	Note        string   `json:"note,omitempty"`
	Signature   string   `json:"signature,omitempty"`
	IDs         []string `json:"ids,omitempty"` // event ids
	MessageIDs  []string `json:"message_ids,omitempty"`
	Q           string   `json:"q,omitempty"`
	Since       string   `json:"since,omitempty"`
	Until       string   `json:"until,omitempty"`
	All         bool     `json:"all,omitempty"`
	Rate        string   `json:"rate,omitempty"`
	Cursor      string   `json:"cursor,omitempty"` // Worked.Next of the request to continue
}

// selection returns the dead letters that q selects.
func (q *DeadLettersRequest) selection(now time.Time) (*hookonce.DeadLetters, error) {
	filtered := q.Source+q.Type+q.Destination+q.Note+q.Signature+q.Q+q.Since+q.Until != "" || q.IDs != nil || q.MessageIDs != nil
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
			Source: q.Source, Type: q.Type, Destination: q.Destination, Note: q.Note, Signature: q.Signature, Text: q.Q,
		},
		EventIDs:   q.IDs,
		MessageIDs: q.MessageIDs,
	}
	var err error
	if which.Filter.Since, which.Filter.Until, err = parseSpan(q.Since, q.Until, now); err != nil {
		return nil, err
	}
	rate, err := limit.ParsePace(q.Rate)
	if err != nil {
		return nil, &ParameterError{"rate", fmt.Sprintf("%q %s", q.Rate, err)}
	}
	which.Rate = hookonce.Rate(rate)
	if which.Filter.After, err = driver.ParseCursor(q.Cursor); err != nil {
		return nil, &ParameterError{"cursor", err.Error()}
	}
	return which, nil
}

// request returns the request of a job with the same selection.
func (q *DeadLettersRequest) request(action, id string, which *hookonce.DeadLetters) *operate.Request {
	return &operate.Request{
		Of: driver.JobOfDeadLetters, Action: action, Rate: q.Rate, RequestID: id, Start: true,
		Select: driver.JobSelection{
			Source: q.Source, Type: q.Type, Destination: q.Destination, Note: q.Note, Signature: q.Signature, Text: q.Q,
			Since: timeOrNil(which.Filter.Since), Until: timeOrNil(which.Filter.Until),
		},
	}
}

// workOn calls work for the dead letters that r selects, for at most bulkTimeout. More than
// operate.ManyDeadLetters become a job.
func (h *handling) workOn(
	w http.ResponseWriter, r *http.Request, action string,
	work func(context.Context, *hookonce.DeadLetters) (hookonce.Worked, error),
	shape func(hookonce.Worked, bool, string) *Worked,
) {
	var q DeadLettersRequest
	if !h.read(w, r, &q) {
		return
	}
	which, err := q.selection(time.Now())
	if err != nil {
		h.fail(w, r, http.StatusUnprocessableEntity, err.Error(), nil)
		return
	}
	id, refused := requestID(r)
	if refused != nil {
		h.refuse(w, r, refused)
		return
	}
	if job, answered := h.asJob(w, r, q.request(action, id, which), which); answered {
		if job != "" {
			h.accept(w, job)
		}
		return
	}
	if action == driver.JobDiscard && id == "" {
		id = "req_" + rand.Text()
	}
	which.Operation = id
	// Where the server does not support this, it fails and the server's own deadline holds.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(bulkTimeout + answerTimeout))
	ctx, cancel := context.WithTimeout(r.Context(), bulkTimeout)
	defer cancel()
	worked, err := work(ctx, which)
	if came := worked.Done + worked.Passed; err != nil && (ctx.Err() == nil || came == 0) {
		h.failChange(w, r, howToGoOn(&worked), fmt.Errorf("working on dead letters: %w", err))
		return
	}
	writeJSON(w, shape(worked, err == nil, id))
}

// asJob starts a job for a selection of many dead letters. It reports whether r is answered, or a job
// was started.
func (h *handling) asJob(w http.ResponseWriter, r *http.Request, request *operate.Request, which *hookonce.DeadLetters) (job string, answered bool) {
	if which.EventIDs != nil || which.MessageIDs != nil || !which.Filter.After.IsZero() {
		return "", false
	}
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	many, err := h.engine.Operator().HasMany(ctx, &request.Select)
	switch {
	case err != nil:
		h.failChange(w, r, "Nothing was done. Repeating it is safe.", fmt.Errorf("counting dead letters: %w", err))
		return "", true
	case !many:
		return "", false
	}
	if started := h.addJob(w, r, request); started != nil {
		return started.ID, true
	}
	return "", true
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

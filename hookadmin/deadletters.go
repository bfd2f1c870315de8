package hookadmin

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
)

const (
	// bulkTimeout bounds one request for many dead letters. It is shorter than
	// the minute after which proxies commonly give up.
	bulkTimeout = 45 * time.Second
	// answerTimeout is for a client to read the answer behind that.
	answerTimeout = 10 * time.Second
)

func (h *handler) listDeadLetters(w http.ResponseWriter, r *http.Request) {
	list(h, w, r, ParseDeadLetterFilter, h.store.DeadLetters, NewDeadLetterPage)
}

func (h *handler) replayDead(w http.ResponseWriter, r *http.Request) {
	h.workOn(w, r, h.inbox.ReplayDead, NewReplayedDead)
}

func (h *handler) discardDead(w http.ResponseWriter, r *http.Request) {
	h.workOn(w, r, h.inbox.Discard, NewDiscarded)
}

// deadLettersRequest is the body of POST /api/v1/dead-letters/replay and
// /discard: what GET /api/v1/dead-letters takes, and more.
type deadLettersRequest struct {
	Source      string   `json:"source"`
	Type        string   `json:"type"`
	Destination string   `json:"destination"`
	Note        string   `json:"note"`
	IDs         []string `json:"ids"` // of events
	MessageIDs  []string `json:"message_ids"`
	Q           string   `json:"q"`
	Since       string   `json:"since"`
	Until       string   `json:"until"`
	All         bool     `json:"all"`
	Rate        string   `json:"rate"`
}

// selection returns the dead letters that q is about.
func (q *deadLettersRequest) selection(now time.Time) (*hookonce.DeadLetters, error) {
	filtered := q.Source+q.Type+q.Destination+q.Note+q.Q+q.Since+q.Until != "" || q.IDs != nil || q.MessageIDs != nil
	switch {
	case !filtered && !q.All:
		return nil, &ParameterError{"all", "must be true where nothing else says which dead letters"}
	case filtered && q.All:
		return nil, &ParameterError{"all", "stands alone: what else is said selects some of them only"}
	case q.IDs != nil && q.Source == "":
		return nil, &ParameterError{"source", "must be said with ids, which are those of one source"}
	case q.IDs != nil && q.MessageIDs != nil:
		return nil, &ParameterError{"message_ids", "cannot be said with ids"}
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
	which.Rate, err = parseRate(q.Rate)
	return which, err
}

// parseRate reads a rate as the settings have it; "" is none.
func parseRate(s string) (hookonce.Rate, error) {
	const most = 1_000_000_000
	if s == "" {
		return hookonce.Rate{}, nil
	}
	number, unit, _ := strings.Cut(s, "/")
	per, known := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[unit]
	count, err := strconv.Atoi(number)
	if err != nil || !known || count < 1 || count > most {
		return hookonce.Rate{}, &ParameterError{"rate", fmt.Sprintf("%q is no rate; write it as 100/s, 6000/m or 1/h", s)}
	}
	return hookonce.Rate{Count: count, Per: per}, nil
}

// workOn has work done on the dead letters that r selects, as far as the time
// for one request goes.
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
	// It fails where the server does not support it; then that server's own holds.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(bulkTimeout + answerTimeout))
	ctx, cancel := context.WithTimeout(r.Context(), bulkTimeout)
	defer cancel()
	worked, err := work(ctx, which)
	if came := worked.Done + worked.Passed; err != nil && (ctx.Err() == nil || came == 0) {
		again := fmt.Sprintf("It came as far as %d dead letters. Repeating it is safe, and goes on.", came)
		h.failChange(w, r, again, fmt.Errorf("working on dead letters: %w", err))
		return
	}
	writeJSON(w, shape(worked, err == nil))
}

package hookonce

import (
	"net/http"
	"strconv"
	"time"

	"github.com/hookonce/hookonce/internal/problem"
	"github.com/hookonce/hookonce/internal/tell"
	"github.com/hookonce/hookonce/observe"
)

const (
	writeTimeout = 10 * time.Second // for the client to read an answer
	retryAfter   = 5 * time.Second  // the Retry-After of a 503
)

// answer is the answer to a delivery.
type answer struct {
	contentType string
	body        []byte
	retryAfter  time.Duration
	allow       string
	header      map[string]string // further headers

	tell.Delivery // for the observer, the log and their like
}

// write sends a, from now on.
func (a *answer) write(w http.ResponseWriter, r *http.Request, now time.Time) {
	h := w.Header()
	for name, value := range a.header {
		h.Set(name, value)
	}
	if a.allow != "" {
		h.Set("Allow", a.allow)
	}
	if a.retryAfter > 0 {
		seconds := (a.retryAfter + time.Second - 1) / time.Second
		h.Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
	}
	// Close the connection of a refused sender: the server would otherwise read the rest of the
	// body, and the answer would wait for it, or read it as another request. On HTTP/2, closing
	// would end the requests of other clients.
	if a.Status >= 400 && r.ProtoMajor == 1 {
		h.Set("Connection", "close")
	}
	// The deadline is for a client that does not read its answer. If the server cannot set it, the
	// server's own deadline holds.
	_ = http.NewResponseController(w).SetWriteDeadline(now.Add(writeTimeout))
	problem.Write(w, a.Status, a.contentType, a.body)
}

// answered returns an answer that is no refusal.
func answered(status int, contentType string, body []byte) *answer {
	return &answer{contentType: contentType, body: body, Delivery: tell.Delivery{Delivery: observe.Delivery{Status: status}}}
}

// accepted answers 200 with v as JSON.
func accepted(v any) *answer {
	return answered(http.StatusOK, "application/json", problem.JSON(v))
}

// refused returns the answer of a refusal. detail goes to the sender, why and err only to the log;
// the error id is in both.
func refused(status int, detail, why string, err error) *answer {
	id := problem.NewErrorID()
	return &answer{
		contentType: problem.ContentType, body: problem.JSON(problem.New(status, detail, id)),
		Delivery: tell.Delivery{Delivery: observe.Delivery{Status: status}, ErrorID: id, Why: why, Err: err},
	}
}

// because sets the reason that the observer gets.
func (a *answer) because(reason string) *answer {
	a.Reason = reason
	return a
}

// unavailable answers 503: the fault is ours, and the sender should deliver again.
func unavailable(why string, err error) *answer {
	a := refused(http.StatusServiceUnavailable, "The delivery could not be made durable. Send it again.", why, err)
	a.retryAfter = retryAfter
	return a
}

// of makes a the answer to d, which was verified.
func (a *answer) of(d *delivery) *answer {
	a.Span, a.EventID = d.span, d.eventID
	return a
}

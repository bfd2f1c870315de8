package hookonce

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// answer is what a delivery is answered with.
type answer struct {
	status      int
	contentType string
	body        []byte
	retryAfter  time.Duration
	allow       string
	header      map[string]string // more of it

	// For Observer.Delivery; without an outcome the status says it.
	began    time.Time // when the request came; zero if that is not known
	outcome  string
	events   int // durable
	unrouted int // new, and nobody works on them

	// Of refusals, for the log alone.
	errorID string
	why     string
	err     error
}

// write sends a.
func (a *answer) write(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", a.contentType)
	if a.status != http.StatusNoContent {
		h.Set("Content-Length", strconv.Itoa(len(a.body)))
	}
	h.Set("X-Content-Type-Options", "nosniff")
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
	// What else a refused sender put on the connection is not read: neither the
	// rest of its body, for which the answer would wait, nor as another
	// request. On HTTP/2 that would end everybody's requests.
	if a.status >= 400 && r.ProtoMajor == 1 {
		h.Set("Connection", "close")
	}
	// The deadline is for a client that does not read its answer. It fails
	// where the server does not support it, and then that server's own holds.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // a client that is gone has its answer on the retry
}

// accepted answers 200 with v as JSON.
func accepted(v any) *answer {
	return &answer{status: http.StatusOK, contentType: "application/json", body: mustJSON(v)}
}

// problem is a refusal: RFC 9457. It carries no text that came from inside.
type problem struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail"`
	Instance string `json:"instance"`
}

// refused makes the answer for a refusal. detail goes to the sender, why and
// err only to the log; the error id stands in both.
func refused(status int, detail, why string, err error) *answer {
	id := newErrorID()
	body := mustJSON(problem{
		Type:     "about:blank",
		Title:    http.StatusText(status),
		Status:   status,
		Detail:   detail,
		Instance: "urn:hookonce:error:" + id,
	})
	return &answer{
		status: status, contentType: "application/problem+json", body: body,
		errorID: id, why: why, err: err,
	}
}

// unavailable answers 503: the fault is ours, and the sender shall come again.
func unavailable(why string, err error) *answer {
	a := refused(http.StatusServiceUnavailable, "The delivery could not be made durable. Send it again.", why, err)
	a.retryAfter = retryAfter
	return a
}

func newErrorID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand aborts the process instead
	return hex.EncodeToString(b[:])
}

// mustJSON encodes v, which holds nothing that can fail to encode, without
// escaping '<', '>' and '&': ids are answered as they are shown.
func mustJSON(v any) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("hookonce: encoding an answer: " + err.Error())
	}
	return buf.Bytes()
}

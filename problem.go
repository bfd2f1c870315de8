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
}

// write sends a. The connection is closed after every refusal, so that what
// else a refused sender put on it is never read as another request.
func (a *answer) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", a.contentType)
	h.Set("Content-Length", strconv.Itoa(len(a.body)))
	h.Set("X-Content-Type-Options", "nosniff")
	if a.allow != "" {
		h.Set("Allow", a.allow)
	}
	if a.retryAfter > 0 {
		seconds := (a.retryAfter + time.Second - 1) / time.Second
		h.Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
	}
	if a.status >= 400 && a.status < 500 {
		h.Set("Connection", "close")
	}
	// The deadline is for a client that does not read its answer, and must not
	// outlast it: the connection may serve other handlers after us. All of this
	// fails where the server does not support it, and then that server's own
	// deadline holds. A client that is gone has its answer on the retry.
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body)
	_ = rc.Flush()
	_ = rc.SetWriteDeadline(time.Time{})
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

// refused makes the answer for a refusal and the error id that names it in
// the log.
func refused(status int, detail string) (a *answer, errorID string) {
	errorID = newErrorID()
	body := mustJSON(problem{
		Type:     "about:blank",
		Title:    http.StatusText(status),
		Status:   status,
		Detail:   detail,
		Instance: "urn:hookonce:error:" + errorID,
	})
	return &answer{status: status, contentType: "application/problem+json", body: body}, errorID
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

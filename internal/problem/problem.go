// Package problem makes the answers that refuse a request: RFC 9457 problems, each with
// an error id that the log also carries.
package problem

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strconv"
)

// ContentType is the media type of a Problem.
const ContentType = "application/problem+json"

// Problem is the body of a refusal. It must not hold internal error text.
type Problem struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail"`
	Instance string `json:"instance"`
	// Reason is a word for programs, where the admin API has one for the refusal.
	Reason string `json:"reason,omitempty"`
}

// New returns the problem of a status. detail is a sentence for the caller; errorID comes
// from NewErrorID.
func New(status int, detail, errorID string) *Problem {
	return &Problem{
		Type:     "about:blank",
		Title:    http.StatusText(status),
		Status:   status,
		Detail:   detail,
		Instance: "urn:hookonce:error:" + errorID,
	}
}

// NewErrorID returns a random error id: 16 hexadecimal digits.
func NewErrorID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b[:])
}

// JSON encodes v, with a line feed at its end, and does not escape '<', '>' and '&', so
// that ids in answers look as they are stored. It panics if v cannot be encoded.
func JSON(v any) []byte {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("hookonce: encoding an answer: " + err.Error())
	}
	return body.Bytes()
}

// Write sends an answer, a problem or any other. body is complete before the first byte
// goes out, so an answer to HEAD has its length and no error cuts an answer short.
func Write(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("X-Content-Type-Options", "nosniff")
	if status != http.StatusNoContent {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // fails when the client has gone
}

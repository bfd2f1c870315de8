package hookadmin

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/hookonce/hookonce/driver"
)

// problem is the body of an answer that is not 2xx: RFC 9457.
type problem struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail"`
	Instance string `json:"instance"`
}

// retryAfter is the Retry-After of a 503, in seconds.
const retryAfter = "5"

// fail answers with a problem. detail goes to the caller; cause, which may be
// nil, only to the log.
func (h *handler) fail(w http.ResponseWriter, r *http.Request, status int, detail string, cause error) {
	id := newErrorID()
	level, attrs := slog.LevelDebug, []slog.Attr{
		slog.String("error_id", id),
		slog.Int("status", status),
		slog.String("method", r.Method),
		slog.String("path", r.URL.EscapedPath()),
		slog.String("detail", detail),
	}
	if cause != nil {
		level, attrs = slog.LevelError, append(attrs, slog.Any("error", cause))
	}
	if status == http.StatusServiceUnavailable {
		level = slog.LevelWarn // it passes
	}
	h.logger.LogAttrs(r.Context(), level, "admin request failed", attrs...)
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter)
	}
	if h.page {
		h.render(w, r, status, "problem.html", &page{Title: http.StatusText(status), Content: &problemPage{detail, id}})
		return
	}
	write(w, status, "application/problem+json", problem{
		Type:     "about:blank",
		Title:    http.StatusText(status),
		Status:   status,
		Detail:   detail,
		Instance: "urn:hookonce:error:" + id,
	})
}

// refuse answers with a refusal. Who has to sign in first is led there.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request, refused *refusal) {
	if h.page && refused.status == http.StatusUnauthorized {
		redirect(w, rootFrom(r.URL.EscapedPath())+"login")
		return
	}
	if refused.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="hookonce"`)
	}
	h.fail(w, r, refused.status, refused.detail, nil)
}

// failStore answers for an error of the store.
func (h *handler) failStore(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, driver.ErrNotFound):
		h.fail(w, r, http.StatusNotFound, "There is no such "+h.thing+".", nil)
	case passes(err):
		h.fail(w, r, http.StatusServiceUnavailable, "The database did not answer in time.", err)
	case errors.Is(err, driver.ErrSchema):
		h.fail(w, r, http.StatusServiceUnavailable, "The schema of the database does not fit this version.", err)
	default:
		h.fail(w, r, http.StatusInternalServerError, "An internal error occurred; the log has it under this error id.", err)
	}
}

// failChange answers for an error of something that changes the store. again
// says what a caller has to know before repeating it.
func (h *handler) failChange(w http.ResponseWriter, r *http.Request, again string, err error) {
	switch {
	case errors.Is(err, driver.ErrCommitUnknown), inDoubt(err):
		h.fail(w, r, http.StatusServiceUnavailable, "The database did not confirm it in time: it may have happened. "+again, err)
	case passes(err):
		h.fail(w, r, http.StatusServiceUnavailable, "The database did not answer in time. "+again, err)
	default:
		h.failStore(w, r, err)
	}
}

// passes reports whether the same may succeed later. Except for what is in
// doubt, nothing was written.
func passes(err error) bool {
	return errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrLockTimeout) ||
		errors.Is(err, driver.ErrSerialization) || isContextError(err)
}

// inDoubt reports whether err says no more than that the time was up.
func inDoubt(err error) bool {
	return isContextError(err) && !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrLockTimeout)
}

func isContextError(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// newErrorID returns an id of the form that those of deliveries have.
func newErrorID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand aborts the process instead
	return hex.EncodeToString(b[:])
}

func writeJSON(w http.ResponseWriter, v any) { write(w, http.StatusOK, "application/json", v) }

// write answers with v as JSON. The body is complete before the first byte
// goes out, so a HEAD has its length and an error never cuts a 200 short.
func write(w http.ResponseWriter, status int, contentType string, v any) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		// The shapes hold nothing that JSON cannot: only a bug comes here, and
		// net/http turns it into a closed connection and a log line.
		panic(err)
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // the client may have gone; nobody is left to be told
}

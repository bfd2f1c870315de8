package hookadmin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/operate"
	"github.com/hookonce/hookonce/internal/problem"
	"github.com/hookonce/hookonce/internal/shown"
)

// retryAfter is the Retry-After of a 503, in seconds.
const retryAfter = "5"

// fail answers with a problem. detail goes to the caller; cause, which may be nil, goes only to the
// log.
func (h *handler) fail(w http.ResponseWriter, r *http.Request, status int, detail string, cause error) {
	id := problem.NewErrorID()
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
		level = slog.LevelWarn // temporary
	}
	h.logger.LogAttrs(r.Context(), level, "admin request failed", attrs...)
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter)
	}
	if h.page {
		content := &problemPage{Detail: visible(detail), ErrorID: id, Root: rootFrom(r.URL.EscapedPath()), Back: h.access != NoAccess}
		p := &page{Title: http.StatusText(status), Content: content}
		if status == http.StatusServiceUnavailable && r.Method == http.MethodGet && h.access != NoAccess {
			content.Again, p.Live, p.Made = true, &live{Every: 10}, staleness{}.orNow(time.Now())
		}
		h.render(w, r, status, "problem.html", p)
		return
	}
	p := problem.New(status, detail, id)
	p.Reason = h.reason
	problem.Write(w, status, problem.ContentType, shown.JSON(problem.JSON(p)))
}

// reasons are the words for programs that stand in a problem, with the errors that they stand for.
var reasons = []struct {
	err  error
	word string
}{
	{driver.ErrNotFound, "not_found"},
	{driver.ErrOpen, "open"},
	{driver.ErrSent, "sent"},
	{driver.ErrRedacted, "redacted"}, // before the other, which it matches
	{driver.ErrBodyPruned, "body_pruned"},
	{hookonce.ErrRequestID, "request_id"},
	{driver.ErrRequestReused, "request_reused"},
	{driver.ErrNoteNeeded, "note_needed"},
	{driver.ErrModeNeeded, "mode_needed"},
	{driver.ErrUndecided, "undecided"},
	{driver.ErrNoRoute, "no_route"},
	{operate.ErrUnknownSource, "unknown_source"},
	{operate.ErrHandledElsewhere, "handled_elsewhere"},
	{driver.ErrTooLate, "too_late"},
	{driver.ErrCommitUnknown, "in_doubt"},
	{driver.ErrLockTimeout, "locked"},
	{driver.ErrSerialization, "conflict"},
}

// because returns a copy of h whose problem says for programs that err is its reason.
func (h *handler) because(err error) *handler {
	about := *h
	about.reason = ""
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			about.reason = r.word
			break
		}
	}
	if _, unreadable := errors.AsType[*operate.UnreadableError](err); unreadable {
		about.reason = "unreadable"
	}
	return &about
}

// refuse answers with a refusal. It redirects browsers without a session to the login.
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
	h = h.because(err)
	switch {
	case errors.Is(err, driver.ErrNotFound):
		h.fail(w, r, http.StatusNotFound, "There is no such "+h.thing+".", nil)
	case errors.Is(err, driver.ErrSearching):
		h.fail(w, r, http.StatusServiceUnavailable, fmt.Sprintf("%d searches for a text run already. Try again in a few seconds.", driver.TextSearches), nil)
	case passes(err), errors.Is(err, driver.ErrSchema):
		h.fail(w, r, http.StatusServiceUnavailable, awayText(err), err)
	default:
		h.fail(w, r, http.StatusInternalServerError, "An internal error occurred. The log has it under this error id.", err)
	}
}

// failChange answers for an error of a change. again tells the caller how to repeat the request.
func (h *handler) failChange(w http.ResponseWriter, r *http.Request, again string, err error) {
	h = h.because(err)
	switch {
	case errors.Is(err, driver.ErrCommitUnknown), inDoubt(err):
		h.reason = "in_doubt"
		h.fail(w, r, http.StatusServiceUnavailable, "The database did not confirm the change in time: it may have happened. "+again, err)
	case passes(err):
		h.fail(w, r, http.StatusServiceUnavailable, awayText(err)+" "+again, err)
	default:
		h.failStore(w, r, err)
	}
}

// passes reports whether the same request may succeed later. Nothing was written, unless inDoubt.
func passes(err error) bool {
	return errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrLockTimeout) ||
		errors.Is(err, driver.ErrSerialization) || isContextError(err)
}

// inDoubt reports whether err only says that the time was up, so that the outcome is not known.
func inDoubt(err error) bool {
	return isContextError(err) && !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrLockTimeout)
}

func isContextError(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

func writeJSON(w http.ResponseWriter, v any) { writeJSONStatus(w, http.StatusOK, v) }

func writeJSONStatus(w http.ResponseWriter, status int, v any) {
	problem.Write(w, status, "application/json", shown.JSON(problem.JSON(v)))
}

package hookadmin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/problem"
	"github.com/hookonce/hookonce/internal/shown"
)

// retryAfter is the Retry-After of a 503, in seconds.
const retryAfter = "5"

// fail answers with a problem. detail goes to the caller; cause, which may be nil, goes only to the
// log.
func (h *handling) fail(w http.ResponseWriter, r *http.Request, status int, detail string, cause error) {
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
	if h.endpoint.page {
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

// because makes the problem say for programs that err is its reason, and returns h.
func (h *handling) because(err error) *handling {
	h.reason, _ = reasonOf(err)
	return h
}

// refuse answers with a refusal. It redirects browsers without a session to the login.
func (h *handling) refuse(w http.ResponseWriter, r *http.Request, refused *refusal) {
	if h.endpoint.page && refused.status == http.StatusUnauthorized {
		redirect(w, rootFrom(r.URL.EscapedPath())+"login")
		return
	}
	if refused.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="hookonce"`)
	}
	h.fail(w, r, refused.status, refused.detail, nil)
}

// failStore answers for an error of the store.
func (h *handling) failStore(w http.ResponseWriter, r *http.Request, err error) {
	h.because(err)
	switch {
	case errors.Is(err, driver.ErrNotFound):
		h.fail(w, r, http.StatusNotFound, "There is no such "+h.endpoint.thing+".", nil)
	case errors.Is(err, driver.ErrSearching):
		h.fail(w, r, http.StatusServiceUnavailable, fmt.Sprintf("%d searches for a text run already. Try again in a few seconds.", driver.TextSearches), nil)
	case passes(err), errors.Is(err, driver.ErrSchema):
		h.fail(w, r, http.StatusServiceUnavailable, awayText(err), err)
	case driver.FaultOfRows(err):
		h.fail(w, r, http.StatusInternalServerError, "The database refuses the change, as a trigger of its owner may. The log has the reason under this error id.", err)
	default:
		h.fail(w, r, http.StatusInternalServerError, "An internal error occurred. The log has it under this error id.", err)
	}
}

// failChange answers for an error of a change. again tells the caller how to repeat the request.
func (h *handling) failChange(w http.ResponseWriter, r *http.Request, again string, err error) {
	h.because(err)
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

// failKnown answers for an error of a change: with its sentence of known, or as failChange.
func (h *handling) failKnown(w http.ResponseWriter, r *http.Request, known sentences, again string, err error) {
	if refused := known.refusal(err); refused != nil {
		h.because(err).refuse(w, r, refused)
		return
	}
	h.failChange(w, r, again, err)
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

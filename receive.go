package hookonce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/hookonce/hookonce/verify"
)

// Limits on a delivery that no setting changes.
const (
	maxHeaderFields = 100
	bodyTimeout     = 10 * time.Second // for the whole body
	writeTimeout    = 10 * time.Second // for a client to take the answer
	retryAfter      = 5 * time.Second  // what a 503 asks for
)

// ServeHTTP receives one delivery for /webhooks/{source}. Mounted under a
// pattern of http.ServeMux with a {source} wildcard it takes the name from
// there; else it reads the escaped path itself, and knows no other. It may be
// called concurrently.
//
// The order is fixed: known source, limits, raw body, signature, fields,
// routes, claim, answer. An answer of 2xx is written only after the commit.
func (in *Inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() {
		if v := recover(); v != nil {
			if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(v)
			}
			a, id := refused(http.StatusInternalServerError, "An internal error occurred. Send the delivery again.")
			in.log.Error("panic while receiving", slog.Any("panic", v), slog.String("error_id", id),
				slog.String("stack", string(debug.Stack())))
			a.write(w)
		}
	}()
	in.receive(w, r).write(w)
}

func (in *Inbox) receive(w http.ResponseWriter, r *http.Request) *answer {
	name := sourceName(r)
	src := in.sources[name]
	if src == nil {
		a, _ := refused(http.StatusNotFound, "There is no such source.")
		return a
	}
	if r.Method != http.MethodPost {
		a, _ := refused(http.StatusMethodNotAllowed, "Webhooks are delivered with POST.")
		a.allow = http.MethodPost
		return a
	}
	if a := in.checkLimits(src, r); a != nil {
		return a
	}
	budget := bodyBudget{used: &in.bodyBytes, limit: in.cfg.BodyBytes}
	defer budget.release()
	body, a := in.readBody(w, r, src, &budget)
	if a != nil {
		return a
	}
	deadline := time.Now().Add(src.AckTimeout)
	d, a := in.authenticate(r, src, body)
	if a != nil {
		return a
	}
	if wait := src.verified.take(time.Now()); wait > 0 {
		a, _ := refused(http.StatusTooManyRequests, "This source sends faster than it may.")
		a.retryAfter = wait
		return a
	}
	if err := d.inflate(); err != nil {
		return in.refuseInflated(src, d, err, deadline)
	}
	return in.accept(d, deadline)
}

// sourceName returns the {source} of the path, or "" if it is another path.
// Escapes, doubled slashes and dots never name a source.
func sourceName(r *http.Request) string {
	if name := r.PathValue("source"); name != "" {
		return name
	}
	name, ok := strings.CutPrefix(r.URL.EscapedPath(), "/webhooks/")
	if !ok {
		return ""
	}
	return name
}

// checkLimits refuses what can be refused before the body is read.
func (in *Inbox) checkLimits(src *source, r *http.Request) *answer {
	fields := 0
	for _, values := range r.Header {
		fields += len(values)
	}
	if fields > maxHeaderFields {
		a, _ := refused(http.StatusRequestHeaderFieldsTooLarge,
			fmt.Sprintf("There are more than %d header fields.", maxHeaderFields))
		return a
	}
	if r.ContentLength > src.MaxBody {
		return tooLarge(src)
	}
	if enc := r.Header.Values("Content-Encoding"); len(enc) > 0 && !src.acceptsEncoding(enc) {
		a, _ := refused(http.StatusUnsupportedMediaType, "This source does not accept that Content-Encoding.")
		return a
	}
	if in.draining.Load() || in.claims.full() {
		return in.unavailable(src, "draining, or the queue is full", nil)
	}
	return nil
}

func tooLarge(src *source) *answer {
	a, _ := refused(http.StatusRequestEntityTooLarge,
		fmt.Sprintf("The body is larger than the %d bytes that this source accepts.", src.MaxBody))
	return a
}

// readBody reads the raw body within its limits of size and time.
func (in *Inbox) readBody(w http.ResponseWriter, r *http.Request, src *source, budget *bodyBudget) ([]byte, *answer) {
	rc := http.NewResponseController(w)
	// Where the server cannot set deadlines, its own ReadTimeout holds.
	_ = rc.SetReadDeadline(time.Now().Add(bodyTimeout))
	defer func() { _ = rc.SetReadDeadline(time.Time{}) }()

	body, err := readAll(http.MaxBytesReader(w, r.Body, src.MaxBody), r.ContentLength, budget)
	var tooBig *http.MaxBytesError
	switch {
	case err == nil:
		return body, nil
	case errors.As(err, &tooBig):
		return nil, tooLarge(src)
	case errors.Is(err, errBodyBudget):
		return nil, in.unavailable(src, "too many bodies are being received", err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		a, _ := refused(http.StatusRequestTimeout, "The body did not arrive in time.")
		return nil, a
	default:
		a, _ := refused(http.StatusBadRequest, "The body could not be read.")
		return nil, a
	}
}

// authenticate verifies the signature. Nothing that fails here is parsed,
// stored or claimed.
func (in *Inbox) authenticate(r *http.Request, src *source, body []byte) (*delivery, *answer) {
	now := time.Now()
	keys, err := src.activeKeys(r.Context(), r)
	if err != nil {
		return nil, in.unavailable(src, "the source's secrets are not usable", err)
	}
	d, err := src.verify(r, body, keys, now)
	if err == nil {
		return d, nil
	}
	stale := errors.Is(err, verify.ErrTooOld) || errors.Is(err, verify.ErrTooNew)
	if stale && in.clockIsOff(src.tolerance) {
		// The signature is right and our clock is not: the sender must not
		// be told that it forged something.
		return nil, in.unavailable(src, "this machine's clock disagrees with the database's", err)
	}
	wait := in.unverified.take(r.RemoteAddr, now)
	if wait > 0 {
		a, _ := refused(http.StatusTooManyRequests, "Too many unverified requests came from this address.")
		a.retryAfter = wait
		return nil, a
	}
	a, id := refused(http.StatusUnauthorized, "The signature is missing, wrong, or not of now.")
	in.log.Info("refused: not verified", slog.String("source", src.Name), slog.String("remote", r.RemoteAddr),
		slog.String("error_id", id), slog.Any("error", err))
	return nil, a
}

// accept finds the events of a verified delivery, claims them, and answers
// when all are durable.
func (in *Inbox) accept(d *delivery, deadline time.Time) *answer {
	events, malformed := d.source.extractor.Extract(d.input())
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()

	// What cannot be used is kept before anything is answered.
	if len(malformed) > 0 {
		if err := in.quarantine(ctx, d, malformed); err != nil {
			return in.unavailable(d.source, "the quarantine could not be written", err)
		}
	}
	if len(events) == 0 && len(malformed) > 0 {
		return in.answerMalformed(d.source)
	}
	unit := newClaimUnit(in, d, events, deadline)
	if len(unit.claims) > 0 {
		if err := in.claims.submit(unit); err != nil {
			return in.unavailable(d.source, "the delivery could not be queued", err)
		}
		if err := unit.wait(ctx); err != nil {
			return in.unavailable(d.source, "the claim was not made in time", err)
		}
	}
	return in.answerClaimed(ctx, d, unit, len(malformed))
}

// unavailable answers 503: the fault is ours, and the sender shall come again.
func (in *Inbox) unavailable(src *source, what string, err error) *answer {
	a, id := refused(http.StatusServiceUnavailable, "The delivery could not be made durable. Send it again.")
	a.retryAfter = retryAfter
	in.unavailableLog.warn(in.log, "answered 503: "+what, slog.String("source", src.Name),
		slog.String("error_id", id), slog.Any("error", err))
	return a
}

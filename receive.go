package hookonce

import (
	"context"
	"errors"
	"fmt"
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
	// A body that stalls holds its connection for as long as this, whether it is
	// read or refused unread: the server waits for it even then. Where the
	// server cannot set deadlines, its own ReadTimeout holds.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
	name := sourceName(r)
	src := in.setup.Load().sources[name]
	a := in.receiveSafely(w, r, src)
	if a.errorID != "" {
		if src == nil {
			name = "" // what anybody may put into a path does not go into the log
		}
		in.refusals.write(r, name, a)
	}
	a.write(w, r)
}

// receiveSafely makes a panic an answer.
func (in *Inbox) receiveSafely(w http.ResponseWriter, r *http.Request, src *source) (a *answer) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(v)
		}
		a = refused(http.StatusInternalServerError, "An internal error occurred. Send the delivery again.",
			"panic", panicError(v))
	}()
	return in.receive(w, r, src)
}

// panicError is what was recovered, with the stack it came from.
func panicError(v any) error { return fmt.Errorf("panic: %v\n%s", v, debug.Stack()) }

func (in *Inbox) receive(w http.ResponseWriter, r *http.Request, src *source) *answer {
	if src == nil {
		return refused(http.StatusNotFound, "There is no such source.", "no such source", nil)
	}
	if r.Method != http.MethodPost {
		a := refused(http.StatusMethodNotAllowed, "Webhooks are delivered with POST.", "method not allowed", nil)
		a.allow = http.MethodPost
		return a
	}
	if a := in.checkLimits(src, r); a != nil {
		return a
	}
	budget := bodyBudget{used: &in.bodyBytes, limit: in.cfg.BodyBytes}
	defer budget.release()
	body, a := readBody(w, r, src, &budget)
	if a != nil {
		return a
	}
	deadline := time.Now().Add(src.AckTimeout)
	d, a := in.authenticate(r, src, body, deadline)
	if a != nil {
		return a
	}
	if wait := src.verified.take(time.Now()); wait > 0 {
		a := refused(http.StatusTooManyRequests, "This source sends faster than it may.", "over the source's rate", nil)
		a.retryAfter = wait
		return a
	}
	if err := d.inflate(&budget); err != nil {
		return in.refuseInflated(d, err, deadline)
	}
	return in.accept(d, deadline)
}

// sourceName returns the {source} of the path, or "" if it is another path. Read
// from the path itself, escapes, doubled slashes and dots never name a source;
// http.ServeMux undoes escapes first.
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
		return refused(http.StatusRequestHeaderFieldsTooLarge,
			fmt.Sprintf("There are more than %d header fields.", maxHeaderFields), "too many header fields", nil)
	}
	if r.ContentLength > src.MaxBody {
		return tooLarge(src)
	}
	if enc := r.Header.Values("Content-Encoding"); len(enc) > 0 && !src.acceptsEncoding(enc) {
		return refused(http.StatusUnsupportedMediaType, "This source does not accept that Content-Encoding.",
			"content encoding not accepted", nil)
	}
	if in.draining.Load() {
		return unavailable("draining", nil)
	}
	if in.claims.full() {
		return unavailable("the queue is full", nil)
	}
	return nil
}

func tooLarge(src *source) *answer {
	return refused(http.StatusRequestEntityTooLarge,
		fmt.Sprintf("The body is larger than the %d bytes that this source accepts.", src.MaxBody), "body too large", nil)
}

// readBody reads the raw body within its limits of size and time.
func readBody(w http.ResponseWriter, r *http.Request, src *source, budget *bodyBudget) ([]byte, *answer) {
	body, err := readAll(http.MaxBytesReader(w, r.Body, src.MaxBody), r.ContentLength, budget)
	var tooBig *http.MaxBytesError
	switch {
	case err == nil:
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		return body, nil
	case errors.As(err, &tooBig):
		return nil, tooLarge(src)
	case errors.Is(err, errBodyBudget):
		return nil, unavailable("too many bodies are being received", err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, refused(http.StatusRequestTimeout, "The body did not arrive in time.", "slow body", nil)
	default:
		return nil, refused(http.StatusBadRequest, "The body could not be read.", "unreadable body", err)
	}
}

// authenticate verifies the signature. Nothing that fails here is parsed,
// stored or claimed.
func (in *Inbox) authenticate(r *http.Request, src *source, body []byte, deadline time.Time) (*delivery, *answer) {
	now := time.Now()
	// A client that hangs up or half-closes ends its context, and changes nothing.
	ctx, cancel := context.WithDeadline(context.WithoutCancel(r.Context()), deadline)
	defer cancel()
	keys, err := src.activeKeys(ctx, r)
	if err != nil {
		return nil, unavailable("the source's secrets are not usable", err)
	}
	d, err := src.verify(r, body, keys, now)
	if err == nil {
		return d, nil
	}
	stale := errors.Is(err, verify.ErrTooOld) || errors.Is(err, verify.ErrTooNew)
	if stale && in.clockIsOff(src.tolerance) {
		// The signature is right and our clock is not: the sender must not
		// be told that it forged something.
		return nil, unavailable("this machine's clock disagrees with the database's", err)
	}
	if wait := in.unverified.take(r.RemoteAddr, now); wait > 0 {
		a := refused(http.StatusTooManyRequests, "Too many unverified requests came from this address.",
			"not verified, and over the address's rate", err)
		a.retryAfter = wait
		return nil, a
	}
	return nil, refused(http.StatusUnauthorized, "The signature is missing, wrong, or not of now.", "not verified", err)
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
			return unavailable("the quarantine could not be written", err)
		}
	}
	unit := newClaimUnit(d.source, in.claimsFor(d, events), deadline)
	if len(events) > 0 {
		if err := in.claims.claim(ctx, unit); err != nil {
			return unavailable("the claim was not made in time", err)
		}
	}
	return in.answerClaimed(ctx, d, unit, malformed)
}

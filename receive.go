package hookonce

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/guard"
	"github.com/hookonce/hookonce/internal/keyfetch"
	"github.com/hookonce/hookonce/internal/problem"
	"github.com/hookonce/hookonce/internal/stale"
	"github.com/hookonce/hookonce/internal/tell"
	"github.com/hookonce/hookonce/internal/wire"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// Limits on a delivery that are not configurable.
const (
	maxHeaderFields = 100
	bodyTimeout     = 10 * time.Second // for the beginning of the body
	bodyRate        = 256 << 10        // bytes a second that must arrive from then on
	discardTimeout  = 30 * time.Second // for the rest of a body after the answer
	discardedBytes  = 32 << 20         // of such a rest
)

// ServeHTTP receives one delivery for /webhooks/{source}, or answers a handshake of the source's
// provider. It takes the name from the wildcard {source} of an http.ServeMux pattern, or else from the
// escaped path. Some handshakes are GET, HEAD or OPTIONS requests: a pattern with the method POST keeps
// them out. It must get the body as it came: one that a middleware has read is answered 503, or looks
// forged.
func (in *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	problem.CloseUnlessFramedOnce(w, r)
	paceBody(w, r, began)
	name := sourceName(r)
	setup := in.setup.Load()
	a := safely(func() *answer { return in.receive(w, r, name, setup) })
	if !setup.knows(name, began) {
		name = "" // the log must not hold arbitrary text from the path
	}
	a.Began = began
	in.answer(w, r, name, a)
}

// answer answers r with a, and tells of it. source is "" if there is no such source.
func (in *Engine) answer(w http.ResponseWriter, r *http.Request, source string, a *answer) {
	now := time.Now()
	body, paced := r.Body.(*pacedBody)
	coming := paced && body.isComing(r)
	if coming {
		_ = body.deadlines.EnableFullDuplex() // or net/http reads some of it before it sends the answer
		w.Header().Set("Connection", "close")
	}
	a.write(w, r, now)
	in.tell.Delivered(r, source, &a.Delivery, now)
	if coming {
		_ = body.deadlines.Flush()
		body.discard()
	}
}

// safely calls receive, and turns a panic into an answer of 503: the fault is ours, and the next
// delivery of the event may succeed.
func safely(receive func() *answer) (a *answer) {
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(v)
		}
		a = unavailable("panic", guard.Recovered(v))
	}()
	return receive()
}

func (in *Engine) receive(w http.ResponseWriter, r *http.Request, name string, s *setup) *answer {
	budget := in.bodies.Budget(name)
	defer budget.Release()
	d, a := in.read(w, r, name, s, budget, false)
	if a != nil {
		return a
	}
	return in.accept(d).of(d)
}

// read reads a request to the source with that name and verifies it. The returned delivery is ready to
// be claimed. byCaller says that the caller of Verify works on its events.
func (in *Engine) read(w http.ResponseWriter, r *http.Request, name string, s *setup, budget *wire.Budget, byCaller bool) (*delivery, *answer) {
	arrived := time.Now()
	src := s.sources[name]
	switch {
	case src == nil && s.isVanished(name, arrived):
		return nil, unavailable("a reload took this source away a moment ago", nil)
	case src == nil:
		return nil, refused(http.StatusNotFound, "There is no such source.", "no such source", nil).because(tell.ReasonUnknownSource)
	}
	if !src.takes(r.Method) {
		a := refused(http.StatusMethodNotAllowed, "Webhooks are delivered with POST.", "method not allowed", nil).because(tell.ReasonMethod)
		a.allow = src.allow
		return nil, a
	}
	if a := in.checkLimits(src, r); a != nil {
		return nil, a
	}
	var body []byte
	if r.Method == http.MethodPost {
		var a *answer
		if body, a = readBody(w, r, src, budget); a != nil {
			return nil, a
		}
	}
	now := time.Now()
	deadline := now.Add(src.AckTimeout)
	if a := in.handshake(r, src, body, deadline); a != nil {
		return nil, a
	}
	d, a := in.authenticate(r, src, body, now, deadline)
	if a != nil {
		in.tell.Received(&a.Delivery, src.Name, body, src.secretBody)
		a.Shown = src.signatureHeaders
		return nil, a
	}
	d.span, d.visible = in.tell.Verified(d.header, d.visible, arrived, now)
	d.deadline, d.handled, d.remote = deadline, byCaller || src.works(in.handlers.sources), in.tell.Remote(r)
	if wait := src.verified.Take(time.Now()); wait > 0 {
		a := refused(http.StatusTooManyRequests, "This source exceeds its rate.", "over the source's rate", nil).because(tell.ReasonRate)
		a.retryAfter = wait
		return nil, a.of(d)
	}
	if err := d.inflate(budget); err != nil {
		return nil, in.refuseInflated(d, err).of(d)
	}
	return d, nil
}

// sourceName returns the {source} of the path, or "" for another path. In the path itself, escapes,
// doubled slashes and dots never name a source; http.ServeMux undoes escapes first.
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

// checkLimits applies the limits that do not need the body.
func (in *Engine) checkLimits(src *source, r *http.Request) *answer {
	fields := 0
	for _, values := range r.Header {
		fields += len(values)
	}
	if fields > maxHeaderFields {
		return refused(http.StatusRequestHeaderFieldsTooLarge,
			fmt.Sprintf("There are more than %d header fields.", maxHeaderFields), "too many header fields", nil).because(tell.ReasonHeaders)
	}
	if r.ContentLength > src.MaxBody {
		return tooLarge(src)
	}
	if !src.acceptsEncoding(r.Header) {
		return refused(http.StatusUnsupportedMediaType, "This source does not accept that Content-Encoding.",
			"content encoding not accepted", nil).because(tell.ReasonEncoding)
	}
	if in.draining.Load() {
		return unavailable("draining", nil)
	}
	if in.claims.Full(src.Name) {
		return unavailable("the queue is full", nil)
	}
	if err := in.health.refusal(); err != nil {
		return unavailable("the database is refused", err)
	}
	return nil
}

func tooLarge(src *source) *answer {
	return refused(http.StatusRequestEntityTooLarge,
		fmt.Sprintf("The body is larger than the %d bytes that this source accepts.", src.MaxBody), "body too large", nil).because(tell.ReasonTooLarge)
}

// taken says why there is no body. A body that code in front has read is no fault of the sender: without it,
// every signature would look forged.
const taken = "the body was read before hookonce got the request, by a middleware: hookonce must read the raw body"

// wasClosed reports whether err is that of a body which code in front has closed. For HTTP/2 net/http
// exports none.
func wasClosed(err error) bool {
	return errors.Is(err, http.ErrBodyReadAfterClose) || err != nil && err.Error() == "body closed by handler"
}

// pacedBody gives a body more time as it arrives, and none for the size that it claims to have.
type pacedBody struct {
	io.ReadCloser
	deadlines      *http.ResponseController
	began          time.Time
	read, extended int64
	ended          bool
}

// paceBody bounds the time that the body of r has to arrive. A stalled body holds its connection for this long,
// also when it is refused unread: the server waits for it. If the server cannot set deadlines, its own
// ReadTimeout holds.
func paceBody(w http.ResponseWriter, r *http.Request, began time.Time) {
	deadlines := http.NewResponseController(w)
	_ = deadlines.SetReadDeadline(began.Add(bodyTimeout))
	if r.Body != nil {
		r.Body = &pacedBody{ReadCloser: r.Body, deadlines: deadlines, began: began}
	}
}

// Read implements io.Reader.
func (b *pacedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.ended = err != nil
	if b.read += int64(n); b.read-b.extended >= bodyRate {
		b.extended = b.read - b.read%bodyRate
		_ = b.deadlines.SetReadDeadline(b.began.Add(bodyTimeout + time.Duration(b.extended/bodyRate)*time.Second))
	}
	return n, err
}

// isComing reports whether more of the body of an HTTP/1 request is on its way than net/http reads by itself.
func (b *pacedBody) isComing(r *http.Request) bool {
	const readAnyway = 256 << 10
	waits := b.read == 0 && r.Header.Get("Expect") != "" // for 100 Continue, which it does not get
	rest := r.ContentLength - b.read
	return r.ProtoMajor == 1 && !waits && !b.ended && (r.ContentLength < 0 || rest > readAnyway)
}

// discard reads the rest of a body that was answered. A sender that writes all of it first reads the answer
// then; a connection that is closed before resets it, and the sender gets an error of the network instead.
func (b *pacedBody) discard() {
	_ = b.deadlines.SetReadDeadline(time.Now().Add(discardTimeout))
	_, _ = io.CopyN(io.Discard, b.ReadCloser, discardedBytes) // the answer is sent; errors mean that the sender has left
}

// readBody reads the raw body within its limits of size and time.
func readBody(w http.ResponseWriter, r *http.Request, src *source, budget *wire.Budget) ([]byte, *answer) {
	if r.Body == nil {
		return nil, unavailable("the request's Body is nil: "+taken, nil)
	}
	body, err := wire.ReadAll(http.MaxBytesReader(w, r.Body, src.MaxBody), r.ContentLength, budget)
	var tooBig *http.MaxBytesError
	switch {
	case err == nil && int64(len(body)) < r.ContentLength, wasClosed(err):
		return nil, unavailable(taken, err)
	case err == nil:
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		return body, nil
	case errors.As(err, &tooBig):
		return nil, tooLarge(src)
	case errors.Is(err, wire.ErrBudget):
		return nil, unavailable("too many bodies are being received", err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, refused(http.StatusRequestTimeout, "The body did not arrive in time.", "slow body", nil).because(tell.ReasonSlowBody)
	default:
		return nil, refused(http.StatusBadRequest, "The body could not be read.", "unreadable body", err).because(tell.ReasonUnreadable)
	}
}

// authenticate verifies the signature. A request that fails here is not parsed, stored or claimed.
func (in *Engine) authenticate(r *http.Request, src *source, body []byte, now, deadline time.Time) (*delivery, *answer) {
	req := src.request(r, body, now)
	keys, err := in.clients.keysFor(src, r, req, in.fetcher, deadline)
	var d *delivery
	if err == nil {
		d, err = src.verify(req, keys)
	}
	var unverified *verify.Error
	switch {
	case err == nil:
		return d, nil
	case (errors.Is(err, verify.ErrTooOld) || errors.Is(err, verify.ErrTooNew)) && in.clockIsOff(src, deadline):
		// Our clock is wrong: a 401 would tell an authentic sender that it forged the request.
		return nil, unavailable("this machine's clock disagrees with the database's", err)
	case errors.Is(err, keyfetch.ErrTooMany):
		a := refused(http.StatusTooManyRequests, "Too many unknown keys were named from this address.",
			"not verified, and over the address's rate of keys", err).because(tell.ReasonUnverifiedRate)
		a.retryAfter = fetchRate.Per / time.Duration(fetchRate.Count)
		return nil, a
	case errors.Is(err, verify.ErrNoKeys) || errors.Is(err, verify.ErrNoURL):
		return nil, unavailable("the source is not set up to verify", err)
	case errors.Is(err, errKeyRef) || errors.As(err, &unverified):
		a := in.refuseUnverified(r, now, err)
		if a.Status == http.StatusUnauthorized && len(body) == 0 && r.ContentLength < 0 && !errors.Is(err, verify.ErrMissing) {
			// An empty body of unknown length is rare, and all that is left of a chunked one that was read. One without a
			// signature comes from no sender.
			a = unavailable("not verified, and the body is empty: maybe "+taken, err)
		}
		return nil, a
	}
	return nil, unavailable("there are no keys to verify with", err)
}

// clockIsOff reports whether this machine's clock may be why a timestamp looks stale.
func (in *Engine) clockIsOff(src *source, deadline time.Time) bool {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	return in.health.clock.isOff(ctx, src.tolerance)
}

// refuseUnverified answers a request that did not verify because of err.
func (in *Engine) refuseUnverified(r *http.Request, now time.Time, err error) *answer {
	if a := in.clients.limitUnverified(r, now, err); a != nil {
		return a
	}
	return refused(http.StatusUnauthorized, "The signature is missing or wrong, or its timestamp is not current.", "not verified", err).
		because(reasonUnverified(err))
}

func reasonUnverified(err error) string {
	switch {
	case errors.Is(err, verify.ErrMissing):
		return tell.ReasonSignatureMissing
	case errors.Is(err, verify.ErrTooOld):
		return tell.ReasonTooOld
	case errors.Is(err, verify.ErrTooNew):
		return tell.ReasonTooNew
	}
	return tell.ReasonSignatureWrong
}

// accept extracts the events of a verified delivery, claims them, and answers when all are durable.
func (in *Engine) accept(d *delivery) *answer {
	ctx, cancel := context.WithDeadline(context.Background(), d.deadline)
	defer cancel()
	events, malformed, a := in.extract(ctx, d)
	if a != nil {
		return a
	}
	unit := d.unit(in.claimsFor(d, events))
	if d.source.Inline {
		return in.acceptInline(ctx, d, unit, malformed)
	}
	if len(events) > 0 {
		span := d.span.Claiming()
		err := in.claims.Claim(ctx, unit)
		span.EndClaim(len(events), err)
		if err != nil {
			return unavailable("the claim was not made in time", err)
		}
	}
	return in.answerClaimed(ctx, d, unit, malformed)
}

// extract extracts the events of a verified delivery. Unusable parts are stored in the quarantine
// before the answer.
func (in *Engine) extract(ctx context.Context, d *delivery) ([]provider.Event, []provider.Malformed, *answer) {
	events, malformed := d.source.extractor.Extract(d.input())
	if len(malformed) > 0 {
		if err := in.quarantine(ctx, d, malformed); err != nil {
			return nil, nil, unavailable("the quarantine could not be written", err)
		}
	}
	return events, malformed, nil
}

// claimsFor returns the claims of the events of d.
func (in *Engine) claimsFor(d *delivery, events []provider.Event) []driver.Claim {
	visible := d.visible
	if d.source.batch {
		visible = d.partHeader()
	}
	header := wire.EncodeHeader(visible)
	if len(d.source.routes) > 0 {
		visible = visible.Clone() // a decision may outlive the request, and read its header
	}
	all := make([]driver.Claim, len(events))
	if len(events) == 1 {
		d.eventID = events[0].ID
	}
	for i := range events {
		all[i] = in.claimFor(d, &events[i], visible, header)
	}
	return all
}

func (in *Engine) claimFor(d *delivery, ev *provider.Event, visible http.Header, header []byte) driver.Claim {
	src, body := d.source, d.wire
	if src.batch {
		body = ev.Body
	}
	key := driver.EventKey(src.Name, ev.IDParts...)
	claim := driver.Claim{
		Key:        key,
		Source:     src.Name,
		EventID:    ev.ID,
		Type:       ev.Type,
		OccurredAt: ev.Time,
		Headers:    header,
		Body:       body,
		BodyHash:   d.bodyHash(body),
		BodyGuard:  src.guard,
		Remote:     d.remote,
		Gateway:    in.tell.Gateway(),
	}
	if len(body) == 0 && claim.BodyGuard == driver.BodyWatch {
		claim.BodyGuard = driver.BodyIgnore // all of a sender's notifications without a body are equal
	}
	if src.Consume == ConsumeSQL || in.handles(src.Name, ev.Type) {
		claim.Work = driver.WorkQueued
		order, ordered := src.orderOf(&stale.Event{ID: ev.ID, Type: ev.Type, Header: visible, Body: ev.Body})
		claim.Order, claim.Unordered = order, ordered && order == nil
	}
	if len(src.routes) > 0 {
		var undecided string
		claim.Messages, undecided, _ = messagesFor(in.log, src, key, &Event{
			Source: src.Name, ID: ev.ID, Type: ev.Type, OccurredAt: ev.Time, Header: visible, Body: ev.Body, rules: src.extractor,
		}, d.deadline.Add(-src.AckTimeout/decideShare))
		if undecided != "" {
			claim.Undecided = driver.NoteUndecided + undecided
		}
	}
	return claim
}

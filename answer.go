package hookonce

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/claims"
	"github.com/hookonce/hookonce/internal/feed"
	"github.com/hookonce/hookonce/internal/limit"
	"github.com/hookonce/hookonce/internal/problem"
	"github.com/hookonce/hookonce/internal/tell"
	"github.com/hookonce/hookonce/internal/wire"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// answer is the answer to a delivery.
type answer struct {
	status      int
	contentType string
	body        []byte
	retryAfter  time.Duration
	allow       string
	header      map[string]string // further headers

	// For Observer.Delivery. Without an outcome, the status decides.
	delivery    *delivery // nil unless it was verified
	began       time.Time // arrival of the request; zero if unknown
	outcome     string
	reason      string // of a refusal, for the operator
	events      int    // durable ones
	unrouted    int    // new events without a handler, route or consumer
	reopened    int    // events
	otherBodies int    // duplicates with another body than the first
	undecided   int    // new events that are dead because a route was undecided
	seen        []seen // its events, while somebody looks at the live feed

	// For refusals, and for the log only.
	errorID string
	why     string
	err     error

	received *sample // of the body of a refused request; nil if it was not read
}

// sample is the beginning of a body, and the size of all of it.
type sample struct {
	begin []byte
	size  int
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
	if a.status >= 400 && r.ProtoMajor == 1 {
		h.Set("Connection", "close")
	}
	// The deadline is for a client that does not read its answer. If the server cannot set it, the
	// server's own deadline holds.
	_ = http.NewResponseController(w).SetWriteDeadline(now.Add(writeTimeout))
	problem.Write(w, a.status, a.contentType, a.body)
}

// accepted answers 200 with v as JSON.
func accepted(v any) *answer {
	return &answer{status: http.StatusOK, contentType: "application/json", body: problem.JSON(v)}
}

// refused returns the answer of a refusal. detail goes to the sender, why and err only to the log;
// the error id is in both.
func refused(status int, detail, why string, err error) *answer {
	id := problem.NewErrorID()
	return &answer{
		status: status, contentType: problem.ContentType, body: problem.JSON(problem.New(status, detail, id)),
		errorID: id, why: why, err: err,
	}
}

// because sets the reason that the observer gets.
func (a *answer) because(reason string) *answer {
	a.reason = reason
	return a
}

// unavailable answers 503: the fault is ours, and the sender should deliver again.
func unavailable(why string, err error) *answer {
	a := refused(http.StatusServiceUnavailable, "The delivery could not be made durable. Send it again.", why, err)
	a.retryAfter = retryAfter
	return a
}

// answerClaimed answers a delivery whose claims are final. The answer is 2xx only if each event is
// durable or kept in the quarantine.
func (in *Engine) answerClaimed(ctx context.Context, d *delivery, u *claims.Unit, malformed []provider.Malformed) *answer {
	src, durable, kept := d.source, 0, len(malformed)
	if kept > 0 {
		in.log.Warn("quarantined: no single event id could be read", slog.String("source", src.Name),
			slog.Int("items", kept), slog.String("reason", malformed[0].Reason))
	}
	var refusal error // of the database, which refuses an event
	for i := range u.Results {
		result, claim := &u.Results[i], &u.Claims[i]
		switch {
		case errors.Is(result.Err, driver.ErrBadRow):
			if err := in.keepRefused(ctx, d, claim, result.Err); err != nil {
				return unavailable("the quarantine could not be written", err)
			}
			refusal, kept = result.Err, kept+1
		case result.Err != nil:
			return unavailable("the claim was not made", result.Err)
		case !result.Settled():
			return unavailable("the claim has no result", driver.ErrNotStored)
		default:
			durable++
			in.logClaim(claim, result)
		}
	}
	switch {
	case durable > 0 || kept == 0:
	case refusal != nil:
		return answerRefused(d, refusal)
	default:
		return answerMalformed(d, malformed[0].Reason)
	}
	var a *answer
	switch {
	case src.Ack != nil:
		a = src.Ack.answer()
	case src.batch:
		a = answerBatch(u, kept)
	default:
		a = answerEvent(&u.Claims[0], &u.Results[0])
	}
	a.tally(u)
	if in.feed.Watched() {
		a.seen = seenIn(u, len(malformed))
	}
	return d.acknowledge(a)
}

// tally fills in the counts and the outcome for the observer.
func (a *answer) tally(u *claims.Unit) {
	a.outcome = tell.OK
	claimed := false
	for i := range u.Results {
		result := &u.Results[i]
		if result.Err != nil {
			continue
		}
		a.events++
		claimed = claimed || result.Claimed
		if result.Reopened {
			a.reopened++
		}
		if result.OtherBody {
			a.otherBodies++
		}
		switch claim := &u.Claims[i]; {
		case !result.Claimed:
		case claim.Undecided != "":
			a.undecided++
		case claim.Work == driver.WorkNone && len(claim.Messages) == 0:
			a.unrouted++
		}
	}
	switch {
	case claimed || a.events == 0:
	case a.reopened > 0:
		a.outcome = tell.Reopened
	default:
		a.outcome = tell.Duplicate
	}
}

func (a *Ack) answer() *answer {
	return &answer{
		status:      cmp.Or(a.Status, http.StatusOK),
		contentType: cmp.Or(a.ContentType, "text/plain; charset=utf-8"),
		body:        []byte(a.Body),
	}
}

// keepRefused keeps an event in the quarantine that the database refuses: it is authentic, and the
// sender may not deliver it until the fault is mended.
func (in *Engine) keepRefused(ctx context.Context, d *delivery, claim *driver.Claim, refusal error) error {
	in.log.Warn("quarantined: the database refuses the event", slog.String("source", claim.Source),
		slog.String("event_id", claim.EventID), slog.Any("error", refusal))
	return in.quarantine(ctx, d, []provider.Malformed{d.refusedPart(claim, refusal)})
}

// answerRefused answers for a delivery that is in the quarantine because the database refuses its
// events. That is no fault of the sender: several senders never repeat a delivery after a 4xx.
func answerRefused(d *delivery, refusal error) *answer {
	if d.source.Malformed == MalformedQuarantine {
		return answerMalformed(d, refusal.Error())
	}
	a := refused(http.StatusServiceUnavailable, "The event could not be stored. It was kept for the operator. Send it again.",
		"the database refuses the event, which is in the quarantine", refusal)
	a.retryAfter = retryAfter
	return a
}

// answerMalformed answers for a request that is in the quarantine.
func answerMalformed(d *delivery, reason string) *answer {
	src := d.source
	var a *answer
	switch {
	case src.Malformed != MalformedQuarantine:
		a = refused(http.StatusBadRequest,
			"No single event id could be read from the request. It was kept for the operator.",
			"malformed: "+reason, nil)
	case src.Ack != nil:
		a = src.Ack.answer()
	default:
		a = accepted(struct {
			Status string `json:"status"`
		}{"quarantined"})
	}
	a.outcome = tell.Malformed
	return d.acknowledge(a)
}

func answerEvent(claim *driver.Claim, result *claims.Result) *answer {
	status := "ok"
	if result.Duplicate {
		status = "duplicate"
	}
	// By hand: every delivery gets this answer, and encoding/json takes ten times as long for it.
	body := append(make([]byte, 0, 64+len(claim.EventID)), `{"status":"`+status+`","event_id":`...)
	body = wire.AppendJSON(body, claim.EventID)
	if result.Reopened {
		body = append(body, `,"reopened":true`...)
	}
	return &answer{status: http.StatusOK, contentType: "application/json", body: append(body, "}\n"...)}
}

// answerBatch answers for all items of a batch. events counts the durable ones, with duplicates.
func answerBatch(u *claims.Unit, malformed int) *answer {
	body := struct {
		Status     string `json:"status"`
		Events     int    `json:"events"`
		Duplicates int    `json:"duplicates"`
		Malformed  int    `json:"malformed,omitempty"`
	}{Status: "ok", Malformed: malformed}
	for i := range u.Results {
		if u.Results[i].Err != nil {
			continue
		}
		body.Events++
		if u.Results[i].Duplicate {
			body.Duplicates++
		}
	}
	return accepted(body)
}

// logClaim logs a claim. Remarkable ones are rate-limited: a captured delivery can be replayed
// without limit.
func (in *Engine) logClaim(claim *driver.Claim, result *claims.Result) {
	level, msg := slog.LevelDebug, "duplicate"
	switch {
	case result.Reopened:
		level, msg = slog.LevelInfo, "dead event reopened by a delivery"
	case result.RepeatOf != "" && result.Claimed:
		level, msg = slog.LevelWarn, "claimed, though the body was seen before under another event id"
	case result.RepeatOf != "" && claim.BodyGuard == driver.BodyRefuse:
		level, msg = slog.LevelWarn, "refused: the body was seen before under another event id"
	case result.Claimed:
		msg = "claimed"
	case result.OtherBody:
		level, msg = slog.LevelWarn, "duplicate with another body"
	}
	if level > slog.LevelDebug && in.remarkable.Take(time.Now()) > 0 {
		level = slog.LevelDebug
	}
	ctx := context.Background()
	if !in.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("source", claim.Source), slog.String("event_id", claim.EventID),
		slog.String("type", claim.Type), slog.Int("messages", len(claim.Messages)),
	}
	if result.RepeatOf != "" {
		attrs = append(attrs, slog.String("first_event_id", result.RepeatOf))
	}
	in.log.LogAttrs(ctx, level, msg, attrs...)
}

// acknowledge signs a 2xx answer to d if the source has an ack key. The signature's time is this
// machine's clock.
func (d *delivery) acknowledge(a *answer) *answer {
	signer := d.source.ackSigner
	if signer == nil || a.status < 200 || a.status > 299 {
		return a
	}
	req := &verify.Request{Method: d.method, URL: d.source.URL, RawQuery: d.rawQuery, Header: d.header}
	header, err := signer.Sign(req, a.body, time.Now())
	if err != nil {
		// The sender would take an unsigned answer as a refusal, and the log would not show why.
		// The delivery is durable all the same.
		return refused(http.StatusInternalServerError,
			"The delivery was kept, and the answer to it could not be signed.", "the answer was not signed", err)
	}
	a.header = make(map[string]string, len(header))
	for name := range header {
		a.header[name] = header.Get(name)
	}
	return a
}

// keepSample keeps the beginning of the body of an unverified request that is refused with a. A body
// that may hold a credential is not kept.
func (in *Engine) keepSample(a *answer, src *source, body []byte) {
	a.received = &sample{size: len(body)}
	if a.reason != "" && !src.secretBody && in.refused.Room(src.Name) {
		a.received.begin = slices.Clone(body[:min(len(body), driver.MaxRefusedBody)])
	}
}

// describeRefused returns the refused request r, which was answered with a, for the operator.
func (in *Engine) describeRefused(r *http.Request, source, reason string, at time.Time, a *answer) driver.RefusedRequest {
	refused := driver.RefusedRequest{
		ErrorID: a.errorID, At: at.Truncate(time.Microsecond), Source: source, Reason: reason, Status: a.status, Method: figureText(r.Method),
		Remote: in.remote(r), Gateway: in.host, Headers: wire.RefusedHeader(r.Header, driver.MaxRefusedHeaders), BodySize: -1,
	}
	if a.received != nil {
		refused.Body, refused.BodySize = a.received.begin, int64(a.received.size)
	}
	return refused
}

// figureText returns the beginning of s, as every database takes it.
func figureText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s[:min(len(s), driver.MaxFigureText)], ""), "\x00", "")
}

// refusalRate bounds the log lines about refusals: neither forgers nor a stopped database may fill
// the disk with them.
var refusalRate = Rate{Count: 100, Per: time.Second}

// refusalLog logs refusals, at most at refusalRate, and logs the number of skipped lines.
type refusalLog struct {
	log     *slog.Logger
	lines   *limit.Bucket
	skipped atomic.Int64
}

func newRefusalLog(log *slog.Logger) *refusalLog {
	return &refusalLog{log: log, lines: refusalRate.bucket()}
}

// of makes a the answer to d, which may be nil.
func (a *answer) of(d *delivery) *answer {
	a.delivery = d
	return a
}

// eventID returns the id of the only event of a verified delivery; "" if it is not known, or if there
// are several.
func (a *answer) eventID() string {
	if a.delivery == nil {
		return ""
	}
	return a.delivery.eventID
}

func (l *refusalLog) write(r *http.Request, client, source string, a *answer, traceID string) {
	if l.lines.Take(time.Now()) > 0 {
		l.skipped.Add(1)
		return
	}
	level := slog.LevelInfo
	if a.status >= 500 {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{
		slog.Int("status", a.status), slog.String("why", a.why), slog.String("source", source),
		slog.String("remote", client), slog.String("error_id", a.errorID),
	}
	if a.err != nil {
		attrs = append(attrs, slog.Any("error", a.err))
	}
	if id := a.eventID(); id != "" {
		attrs = append(attrs, slog.String("event_id", id))
	}
	if traceID != "" {
		attrs = append(attrs, slog.String("trace_id", traceID))
	}
	if n := l.skipped.Swap(0); n > 0 {
		attrs = append(attrs, slog.Int64("lines_left_out", n))
	}
	l.log.LogAttrs(context.WithoutCancel(r.Context()), level, "refused", attrs...)
}

// seenIn returns the events of a unit with final results, and a part without an id for each of the
// malformed ones.
func seenIn(u *claims.Unit, malformed int) []seen {
	all := make([]seen, 0, len(u.Claims)+malformed)
	for i := range u.Results {
		claim, result := &u.Claims[i], &u.Results[i]
		one := seen{claim.EventID, claim.Type, tell.Duplicate}
		switch {
		case errors.Is(result.Err, driver.ErrBadRow):
			one.outcome = tell.Malformed
		case result.Err != nil:
			one.outcome = tell.Unavailable
		case result.Claimed:
			one.outcome = tell.OK
		case result.Reopened:
			one.outcome = tell.Reopened
		}
		all = append(all, one)
	}
	for range malformed {
		all = append(all, seen{outcome: tell.Malformed})
	}
	return all
}

// feedDelivery adds a delivery that was answered with a to the live feed.
func (in *Engine) feedDelivery(r *http.Request, source string, a *answer, now time.Time, took time.Duration) {
	if !in.feed.Watched() {
		return
	}
	outcome, reason := a.observed()
	row := &feed.Row{At: now, Kind: driver.FeedDelivery, Source: source, Outcome: outcome, Details: feed.Details{
		Status: a.status, TookSeconds: took.Seconds(), Reason: reason, Remote: in.remote(r), ErrorID: a.errorID, Error: a.why,
	}}
	if outcome == tell.Refused {
		row.Kind, row.Error = driver.FeedRefused, "" // the reason says it
	}
	in.feed.delivery(row, a.seen)
}

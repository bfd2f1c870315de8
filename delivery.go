package hookonce

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/claims"
	"github.com/hookonce/hookonce/internal/locate"
	"github.com/hookonce/hookonce/internal/operate"
	"github.com/hookonce/hookonce/internal/tell"
	"github.com/hookonce/hookonce/internal/wire"
	"github.com/hookonce/hookonce/provider"
)

// delivery is a request with a verified signature. Only source.verify makes one, and source.stored
// from the quarantine, where only verified requests are. Only a delivery can be claimed.
type delivery struct {
	source   *source
	method   string
	header   http.Header // as received
	visible  http.Header // header without shared credentials: the stored and shown form
	rawQuery string
	remote   string     // the client's address; "" from the quarantine
	wire     []byte     // the body as sent and signed
	body     []byte     // the inflated body
	deadline time.Time  // of the answer
	span     *tell.Span // of its receiving; nil without a Tracer
	eventID  string     // of its only event; "" before that is read, and for several
	handled  bool       // its events have work besides their messages: in this process, or by the caller of Verify
}

func (d *delivery) input() *locate.Input {
	return &locate.Input{Header: d.header, Body: d.body, RawQuery: d.rawQuery}
}

// unit returns claims of d for the queue.
func (d *delivery) unit(all []driver.Claim) *claims.Unit {
	return claims.NewUnit(all, d.source.Redelivery == redeliveryReopen, d.deadline)
}

func (s *source) acceptsEncoding(values []string) bool {
	return len(values) == 1 && (strings.EqualFold(values[0], "identity") || slices.Contains(s.ContentEncodings, strings.ToLower(values[0])))
}

// inflate undoes the content encoding. It runs after the verification.
func (d *delivery) inflate(budget *wire.Budget) (err error) {
	if wire.IsGzip(d.header) {
		d.body, err = wire.Gunzip(d.wire, d.source.MaxBody, budget)
	}
	return err
}

// refuseInflated answers for a body that cannot be inflated. A decompression bomb is too large; any
// other body is authentic and malformed.
func (in *Engine) refuseInflated(d *delivery, err error) *answer {
	switch {
	case errors.Is(err, wire.ErrTooLarge):
		return tooLarge(d.source)
	case errors.Is(err, wire.ErrBudget):
		return unavailable("too many bodies are being received", err)
	}
	ctx, cancel := context.WithDeadline(context.Background(), d.deadline)
	defer cancel()
	if err := in.quarantine(ctx, d, []provider.Malformed{{Reason: err.Error(), Body: d.wire}}); err != nil {
		return unavailable("the quarantine could not be written", err)
	}
	return answerMalformed(d, err.Error())
}

// quarantine stores authentic but unusable parts of d.
func (in *Engine) quarantine(ctx context.Context, d *delivery, malformed []provider.Malformed) error {
	whole, part := wire.EncodeHeader(d.visible), wire.EncodeHeader(d.partHeader())
	for len(malformed) > 0 {
		var requests []driver.Quarantined
		for size := 0; len(malformed) > 0 && len(requests) < claims.MaxBatch && size < claims.MaxBytes; malformed = malformed[1:] {
			m := &malformed[0]
			header, body := part, m.Body
			if m.Part == provider.PartRequest {
				header, body = whole, d.wire // so that a retry finds the body that was sent
			}
			size += len(header) + len(body)
			requests = append(requests, driver.Quarantined{
				Source:   d.source.Name,
				BodyHash: sha256.Sum256(body),
				Part:     driver.Part(m.Part),
				Headers:  header,
				Body:     body,
				Reason:   m.Reason,
				Handled:  d.handled,
			})
		}
		if err := in.store.Quarantine(ctx, &driver.QuarantineParams{Requests: requests}); err != nil {
			return err
		}
	}
	return nil
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

// partHeader returns the stored header of an item, or of another part of a batch.
func (d *delivery) partHeader() http.Header {
	visible := d.visible
	if visible.Get("Content-Encoding") != "" {
		// Items are cut from the inflated body.
		visible = visible.Clone()
		visible.Del("Content-Encoding")
	}
	if d.source.extractor.HasDocument() {
		// Items are stored as JSON, also those of a form or an XML document.
		visible = visible.Clone()
		visible.Set("Content-Type", "application/json")
	}
	return visible
}

// refusedPart returns the part of d for the quarantine that holds an event that the database
// refuses.
func (d *delivery) refusedPart(claim *driver.Claim, refusal error) provider.Malformed {
	m := provider.Malformed{Reason: wire.ErrorText(refusal), Body: claim.Body}
	if d.source.batch {
		m.Part = provider.PartItem
	}
	return m
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
		Gateway:    in.host,
	}
	if len(body) == 0 && claim.BodyGuard == driver.BodyWatch {
		claim.BodyGuard = driver.BodyIgnore // all of a sender's notifications without a body are equal
	}
	if src.Consume == ConsumeSQL || in.handles(src.Name, ev.Type) {
		claim.Work = driver.WorkQueued
	}
	if len(src.routes) > 0 {
		var undecided string
		claim.Messages, undecided = in.messagesFor(src, key, &Event{
			Source: src.Name, ID: ev.ID, Type: ev.Type, OccurredAt: ev.Time, Header: visible, Body: ev.Body, rules: src.extractor,
		}, d.deadline.Add(-src.AckTimeout/decideShare))
		if undecided != "" {
			claim.Undecided = driver.NoteUndecided + undecided
		}
	}
	return claim
}

// bodyHash identifies a repeated body. Only the signed part is hashed, so re-encoding does not
// evade it; of an item, all bytes are hashed.
func (d *delivery) bodyHash(body []byte) [sha256.Size]byte {
	if d.source.batch {
		return sha256.Sum256(body)
	}
	return d.source.verifier.BodySum(body)
}

// RetriedRequest is the result of RetryQuarantined: the events of the request, which are all stored
// now. An event is counted in one of Claimed, Reopened and Duplicates.
type RetriedRequest struct {
	Source     string
	EventIDs   []string // in the order of the request
	Claimed    int      // new events
	Reopened   int      // dead events that are due again
	Duplicates int
	// Kept counts the items of a batch that cannot be read or stored. Each is now in the quarantine
	// by itself.
	Kept int
}

// ErrUnknownSource is the error of RetryQuarantined for a request whose source is not in the
// settings.
var ErrUnknownSource = errors.New("its source is not in the settings")

// RetryQuarantined reads a quarantined request again with the present settings of its source, claims
// its events as those of a delivery, and then removes it from the quarantine. It checks no
// signature: the request was verified when it was stored.
//
// The error matches driver.ErrNotFound or ErrUnknownSource, or says why the request stays in the
// quarantine: it still cannot be read, or another program handles the events of its source. After any
// error the request is still there, and a repetition is safe: events that were claimed are duplicates
// then.
func (in *Engine) RetryQuarantined(ctx context.Context, key driver.Key) (*RetriedRequest, error) {
	ctx, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	id := hex.EncodeToString(key[:])
	q, err := in.store.QuarantinedRequest(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("hookonce: retry quarantined request %s: %w", id, err)
	}
	log := in.log.With(slog.String("source", q.Source), slog.String("quarantined", id))
	retried, err := in.retryQuarantined(ctx, q)
	if still, is := errors.AsType[*operate.UnreadableError](err); is {
		log.Info("quarantined request retried: it stays", slog.String("reason", still.Reason))
		// A request that another caller has removed meanwhile needs no reason.
		_, settleErr := in.store.SettleQuarantined(ctx, &driver.SettleQuarantinedParams{Key: key, Reason: still.Reason})
		err = errors.Join(err, settleErr)
	}
	if err != nil {
		return nil, fmt.Errorf("hookonce: retry quarantined request %s of source %q: %w", id, q.Source, err)
	}
	if !in.ran.Load() { // Run writes the counts otherwise
		if err := in.claims.WriteCounts(ctx); err != nil {
			log.Warn("writing delivery counts failed", slog.Any("error", err))
		}
	}
	log.Info("quarantined request retried", slog.Int("claimed", retried.Claimed), slog.Int("reopened", retried.Reopened),
		slog.Int("duplicates", retried.Duplicates), slog.Int("kept", retried.Kept))
	return retried, nil
}

func (in *Engine) retryQuarantined(ctx context.Context, q *driver.QuarantinedRequest) (*RetriedRequest, error) {
	src := in.setup.Load().sources[q.Source]
	if src == nil {
		return nil, ErrUnknownSource
	}
	if q.Handled && !in.works(src) {
		return nil, operate.ErrHandledElsewhere
	}
	if err := in.durability.refusal(); err != nil {
		return nil, err
	}
	d, err := src.stored(q)
	if err != nil {
		return nil, &operate.UnreadableError{Reason: wire.ErrorText(err)}
	}
	d.handled = d.handled || in.works(src)
	budget := in.bodies.Budget(src.Name)
	defer budget.Release()
	if err := d.inflate(budget); errors.Is(err, wire.ErrBudget) {
		return nil, fmt.Errorf("%w: too many bodies are being received: %w", driver.ErrUnavailable, err)
	} else if err != nil {
		return nil, &operate.UnreadableError{Reason: wire.ErrorText(err)}
	}
	events, malformed := src.extractor.ExtractStored(provider.Part(q.Part), d.header, d.body, wire.Secret)
	if len(events) == 0 {
		reason := "it holds no events: check event.batch of the source"
		if len(malformed) > 0 {
			reason = malformed[0].Reason
		}
		return nil, &operate.UnreadableError{Reason: reason}
	}
	unit := d.unit(in.claimsFor(d, events))
	if err := in.claimStored(ctx, d, unit); err != nil {
		return nil, err
	}
	retried := &RetriedRequest{Source: src.Name}
	refused, err := in.tallyStored(d, unit, retried)
	if err != nil {
		return nil, err
	}
	if len(retried.EventIDs) == 0 {
		return nil, &operate.UnreadableError{Reason: refused[0].Reason}
	}
	malformed = append(malformed, refused...)
	if retried.Kept = len(malformed); retried.Kept > 0 {
		if err := in.quarantine(ctx, d, malformed); err != nil {
			return nil, err
		}
	}
	// The events are committed. If the process ends here, the request stays in the quarantine, and
	// the events of its next retry are duplicates.
	_, err = in.store.SettleQuarantined(ctx, &driver.SettleQuarantinedParams{Key: q.Key})
	return retried, err
}

// stored returns a delivery from the quarantine.
func (s *source) stored(q *driver.QuarantinedRequest) (*delivery, error) {
	header, err := wire.ParseHeader(q.Headers)
	if err != nil {
		return nil, err
	}
	return &delivery{
		source: s, method: http.MethodPost, header: header, visible: header, wire: q.Body, body: q.Body,
		deadline: time.Now().Add(max(s.AckTimeout, acceptTimeout)), handled: q.Handled,
	}, nil
}

// claimStored claims the events of a delivery from the quarantine, as accept does.
func (in *Engine) claimStored(ctx context.Context, d *delivery, unit *claims.Unit) error {
	if d.source.Inline {
		if failure := in.claimInline(ctx, d, unit); failure != nil {
			return fmt.Errorf("an Inline handler failed: %w", failure)
		}
		return nil
	}
	if err := in.claims.Claim(ctx, unit); err != nil {
		return fmt.Errorf("%w: the claim was not made in time: %w", driver.ErrUnavailable, err)
	}
	return nil
}

// tallyStored counts the results of unit in retried. It returns the parts that the database refuses.
func (in *Engine) tallyStored(d *delivery, unit *claims.Unit, retried *RetriedRequest) (refused []provider.Malformed, err error) {
	for i := range unit.Results {
		result, claim := &unit.Results[i], &unit.Claims[i]
		switch {
		case errors.Is(result.Err, driver.ErrBadRow):
			refused = append(refused, d.refusedPart(claim, result.Err))
			continue
		case result.Err != nil:
			return nil, result.Err
		case !result.Settled():
			return nil, driver.ErrNotStored
		case result.Reopened:
			retried.Reopened++
		case result.Claimed:
			retried.Claimed++
		default:
			retried.Duplicates++
		}
		retried.EventIDs = append(retried.EventIDs, claim.EventID)
		in.tell.Claim(claim, result)
	}
	return refused, nil
}

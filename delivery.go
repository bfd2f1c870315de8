package hookonce

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/claims"
	"github.com/hookonce/hookonce/internal/locate"
	"github.com/hookonce/hookonce/internal/wire"
	"github.com/hookonce/hookonce/provider"
)

// delivery is a request with a verified signature. Only source.verify makes one, and only a
// delivery can be claimed.
type delivery struct {
	source   *source
	method   string
	header   http.Header // as received
	visible  http.Header // header without shared credentials: the stored and shown form
	rawQuery string
	wire     []byte    // the body as sent and signed
	body     []byte    // the inflated body
	deadline time.Time // of the answer
}

func (d *delivery) input() *locate.Input {
	return &locate.Input{Header: d.header, Body: d.body, RawQuery: d.rawQuery}
}

// unit returns claims of d for the queue.
func (d *delivery) unit(all []driver.Claim) *claims.Unit {
	return claims.NewUnit(all, d.source.Redelivery == RedeliveryReopen, d.deadline)
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
	header := wire.EncodeHeader(d.visible)
	for len(malformed) > 0 {
		var requests []driver.Quarantined
		for size := 0; len(malformed) > 0 && len(requests) < claims.MaxBatch && size < claims.MaxBytes; malformed = malformed[1:] {
			m := &malformed[0]
			size += len(header) + len(m.Body)
			requests = append(requests, driver.Quarantined{
				Source:   d.source.Name,
				BodyHash: sha256.Sum256(m.Body),
				Headers:  header,
				Body:     m.Body,
				Reason:   m.Reason,
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
	if d.source.batch && visible.Get("Content-Encoding") != "" {
		// Items are cut from the inflated body.
		visible = visible.Clone()
		visible.Del("Content-Encoding")
	}
	if d.source.batch && d.source.extractor.HasDocument() {
		// Items are stored as JSON, also those of a form or an XML document.
		visible = visible.Clone()
		visible.Set("Content-Type", "application/json")
	}
	header := wire.EncodeHeader(visible)
	all := make([]driver.Claim, len(events))
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
	}
	if src.Consume == ConsumeSQL || in.handles(src.Name, ev.Type) {
		claim.Work = driver.WorkQueued
	}
	if len(src.routes) > 0 {
		var undecided string
		claim.Messages, undecided = in.messagesFor(src, key, &Event{
			Source: src.Name, ID: ev.ID, Type: ev.Type, OccurredAt: ev.Time, Header: visible, Body: ev.Body,
		}, d.deadline.Add(-src.AckTimeout/decideShare))
		if undecided != "" {
			claim.Work, claim.Undecided = driver.WorkUndecided, driver.NoteUndecided+undecided
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

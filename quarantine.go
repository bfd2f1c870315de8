package hookonce

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/claims"
	"github.com/hookonce/hookonce/internal/headers"
	"github.com/hookonce/hookonce/internal/operate"
	"github.com/hookonce/hookonce/internal/wire"
	"github.com/hookonce/hookonce/provider"
)

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

// requeue implements operate.Engine.RetryQuarantined.
func (in *Engine) requeue(ctx context.Context, key driver.Key) (*operate.RetriedRequest, error) {
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

func (in *Engine) retryQuarantined(ctx context.Context, q *driver.QuarantinedRequest) (*operate.RetriedRequest, error) {
	src := in.setup.Load().sources[q.Source]
	if src == nil {
		return nil, operate.ErrUnknownSource
	}
	if q.Handled && !src.works(in.handlers.sources) {
		return nil, operate.ErrHandledElsewhere
	}
	if err := in.health.refusal(); err != nil {
		return nil, err
	}
	d, err := src.stored(q)
	if err != nil {
		return nil, &operate.UnreadableError{Reason: wire.ErrorText(err)}
	}
	d.handled = d.handled || src.works(in.handlers.sources)
	budget := in.bodies.Budget(src.Name)
	defer budget.Release()
	if err := d.inflate(budget); errors.Is(err, wire.ErrBudget) {
		return nil, fmt.Errorf("%w: too many bodies are being received: %w", driver.ErrUnavailable, err)
	} else if err != nil {
		return nil, &operate.UnreadableError{Reason: wire.ErrorText(err)}
	}
	events, malformed := src.extractor.ExtractStored(provider.Part(q.Part), d.header, d.body, headers.Secret)
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
	retried := &operate.RetriedRequest{Source: src.Name}
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
func (in *Engine) tallyStored(d *delivery, unit *claims.Unit, retried *operate.RetriedRequest) (refused []provider.Malformed, err error) {
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

package hookonce

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/provider"
)

// answerClaimed answers a delivery whose claims are final. It is 2xx only if
// every one of its events is durable, or kept in the quarantine.
func (in *Engine) answerClaimed(ctx context.Context, d *delivery, u *claimUnit, malformed []provider.Malformed) *answer {
	src, durable := d.source, 0
	for i := range u.results {
		result, claim := &u.results[i], &u.claims[i]
		switch {
		case errors.Is(result.err, driver.ErrBadRow):
			// The database refuses what the sender signed: as malformed as
			// what could not be parsed, and as authentic.
			item := provider.Malformed{Reason: "the database refuses the event", Body: claim.Body}
			if err := in.quarantine(ctx, d, []provider.Malformed{item}); err != nil {
				return unavailable("the quarantine could not be written", err)
			}
			malformed = append(malformed, item)
		case result.err != nil:
			return unavailable("the claim was not made", result.err)
		default:
			durable++
			in.logClaim(claim, result)
		}
	}
	if len(malformed) > 0 {
		in.log.Warn("quarantined: no single event id could be read", slog.String("source", src.Name),
			slog.Int("items", len(malformed)), slog.String("reason", malformed[0].Reason))
		if durable == 0 {
			return answerMalformed(d, malformed[0].Reason)
		}
	}
	var a *answer
	switch {
	case src.Ack != nil:
		a = src.Ack.answer()
	case src.batch:
		a = answerBatch(u, len(malformed))
	default:
		a = answerEvent(&u.claims[0], &u.results[0])
	}
	a.tally(u)
	return d.acknowledge(a)
}

// tally fills in what is told of claims that are final.
func (a *answer) tally(u *claimUnit) {
	a.outcome = deliveryOK
	claimed, reopened := false, false
	for i := range u.results {
		result := &u.results[i]
		if result.err != nil {
			continue
		}
		a.events++
		claimed = claimed || result.Claimed
		reopened = reopened || result.reopened
		if result.Claimed && u.claims[i].Work == driver.WorkNone && len(u.claims[i].Messages) == 0 {
			a.unrouted++
		}
	}
	switch {
	case claimed || a.events == 0:
	case reopened:
		a.outcome = deliveryReopened
	default:
		a.outcome = deliveryDuplicate
	}
}

func (a *Ack) answer() *answer {
	return &answer{
		status:      cmp.Or(a.Status, http.StatusOK),
		contentType: cmp.Or(a.ContentType, "text/plain; charset=utf-8"),
		body:        []byte(a.Body),
	}
}

// answerMalformed answers for what is in the quarantine by now.
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
	a.outcome = deliveryMalformed
	return d.acknowledge(a)
}

func answerEvent(claim *driver.Claim, result *claimResult) *answer {
	body := struct {
		Status   string `json:"status"`
		EventID  string `json:"event_id"`
		Reopened bool   `json:"reopened,omitempty"`
	}{"ok", claim.EventID, result.reopened}
	if !result.Claimed {
		body.Status = "duplicate"
	}
	return accepted(body)
}

// answerBatch answers for all items of a batch: events counts those that are
// durable now, duplicates among them.
func answerBatch(u *claimUnit, malformed int) *answer {
	body := struct {
		Status     string `json:"status"`
		Events     int    `json:"events"`
		Duplicates int    `json:"duplicates"`
		Malformed  int    `json:"malformed,omitempty"`
	}{Status: "ok", Malformed: malformed}
	for i := range u.results {
		if u.results[i].err != nil {
			continue
		}
		body.Events++
		if !u.results[i].Claimed {
			body.Duplicates++
		}
	}
	return accepted(body)
}

// logClaim tells what is remarkable about a claim, at the rate of refusals: who
// captured one delivery can make any number of them.
func (in *Engine) logClaim(claim *driver.Claim, result *claimResult) {
	level, msg := slog.LevelDebug, "duplicate"
	switch {
	case result.reopened:
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
	if level > slog.LevelDebug && in.remarkable.take(time.Now()) > 0 {
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

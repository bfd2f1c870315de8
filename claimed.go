package hookonce

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/claims"
	"github.com/hookonce/hookonce/internal/tell"
	"github.com/hookonce/hookonce/internal/wire"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

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
			in.tell.Claim(claim, result)
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
	if in.tell.FeedHolds() {
		a.Seen = seenIn(u, len(malformed))
	}
	return d.acknowledge(a)
}

// tally fills in the counts and the outcome for the observer.
func (a *answer) tally(u *claims.Unit) {
	a.Outcome = tell.OK
	claimed := false
	for i := range u.Results {
		result := &u.Results[i]
		if result.Err != nil {
			continue
		}
		a.Events++
		claimed = claimed || result.Claimed
		if result.Reopened {
			a.Reopened++
		}
		if result.OtherBody {
			a.OtherBodies++
		}
		if result.Claimed {
			a.Unordered += unordered(&u.Claims[i])
		}
		switch claim := &u.Claims[i]; {
		case !result.Claimed:
		case claim.Undecided != "":
			a.Undecided++
		case claim.Work == driver.WorkNone && len(claim.Messages) == 0:
			a.Unrouted++
		}
	}
	switch {
	case claimed || a.Events == 0:
	case a.Reopened > 0:
		a.Outcome = tell.Reopened
	default:
		a.Outcome = tell.Duplicate
	}
}

func (a *Ack) answer() *answer {
	return answered(cmp.Or(a.Status, http.StatusOK), cmp.Or(a.ContentType, "text/plain; charset=utf-8"), []byte(a.Body))
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
	a.Outcome = tell.Malformed
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
	return answered(http.StatusOK, "application/json", append(body, "}\n"...))
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

// acknowledge signs a 2xx answer to d if the source has an ack key. The signature's time is this
// machine's clock.
func (d *delivery) acknowledge(a *answer) *answer {
	signer := d.source.ackSigner
	if signer == nil || a.Status < 200 || a.Status > 299 {
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

// seenIn returns the events of a unit with final results, and a part without an id for each of the
// malformed ones.
func seenIn(u *claims.Unit, malformed int) []tell.Seen {
	all := make([]tell.Seen, 0, len(u.Claims)+malformed)
	for i := range u.Results {
		claim, result := &u.Claims[i], &u.Results[i]
		one := tell.Seen{EventID: claim.EventID, Type: claim.Type, Outcome: tell.Duplicate}
		switch {
		case errors.Is(result.Err, driver.ErrBadRow):
			one.Outcome = tell.Malformed
		case result.Err != nil:
			one.Outcome = tell.Unavailable
		case result.Claimed:
			one.Outcome = tell.OK
		case result.Reopened:
			one.Outcome = tell.Reopened
		}
		all = append(all, one)
	}
	for range malformed {
		all = append(all, tell.Seen{Outcome: tell.Malformed})
	}
	return all
}

// unordered returns how many of c and its messages lack the key or the version of their order.
func unordered(c *driver.Claim) (n int) {
	if c.Unordered {
		n++
	}
	for i := range c.Messages {
		if c.Messages[i].Unordered {
			n++
		}
	}
	return n
}

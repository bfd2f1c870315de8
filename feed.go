package hookonce

import (
	"errors"
	"net/http"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/claims"
	"github.com/hookonce/hookonce/internal/feed"
	"github.com/hookonce/hookonce/internal/relay"
	"github.com/hookonce/hookonce/internal/wire"
	"github.com/hookonce/hookonce/internal/work"
)

// seen is an event of a delivery, for the live feed.
type seen struct {
	id, eventType, outcome string
}

// seenIn returns the events of a unit with final results, and a part without an id for each of the
// malformed ones.
func seenIn(u *claims.Unit, malformed int) []seen {
	all := make([]seen, 0, len(u.Claims)+malformed)
	for i := range u.Results {
		claim, result := &u.Claims[i], &u.Results[i]
		one := seen{claim.EventID, claim.Type, deliveryDuplicate}
		switch {
		case errors.Is(result.Err, driver.ErrBadRow):
			one.outcome = deliveryMalformed
		case result.Err != nil:
			one.outcome = deliveryUnavailable
		case result.Claimed:
			one.outcome = deliveryOK
		case result.Reopened:
			one.outcome = deliveryReopened
		}
		all = append(all, one)
	}
	for range malformed {
		all = append(all, seen{outcome: deliveryMalformed})
	}
	return all
}

// feedDelivery adds a delivery that was answered with a to the live feed: a row for each of its
// events.
func (in *Engine) feedDelivery(r *http.Request, source string, a *answer, now time.Time, took time.Duration) {
	if !in.feed.Watched() {
		return
	}
	outcome, reason := a.observed()
	row := feed.Row{At: now, Kind: driver.FeedDelivery, Source: source, Outcome: outcome, Details: feed.Details{
		Status: a.status, TookSeconds: took.Seconds(), Reason: reason, Remote: in.proxies.Client(r), ErrorID: a.errorID, Error: a.why,
	}}
	if outcome == deliveryRefused {
		row.Kind, row.Error = driver.FeedRefused, "" // the reason says it
	}
	if len(a.seen) == 0 {
		in.feed.Add(row)
		return
	}
	for _, one := range a.seen {
		row.EventID, row.Type, row.Outcome = one.id, one.eventType, one.outcome
		in.feed.Add(row)
	}
}

// feedAttempt adds an attempt to send a message to the live feed.
func (in *Engine) feedAttempt(a *relay.Observed) {
	if !in.feed.Watched() {
		return
	}
	m := a.Message
	in.feed.Add(feed.Row{
		At: time.Now(), Kind: driver.FeedAttempt, Source: m.Source, EventID: m.EventID, Type: m.Type, Outcome: a.Outcome,
		Details: feed.Details{
			Destination: m.Destination, MessageID: m.ID, Attempt: m.Attempt, Status: a.StatusCode, TookSeconds: a.Took.Seconds(),
			Error: errorText(a.Err),
		},
	})
}

// feedHandled adds an attempt of a handler to the live feed.
func (in *Engine) feedHandled(o *work.Observed) {
	if !in.feed.Watched() {
		return
	}
	in.feed.Add(feed.Row{
		At: time.Now(), Kind: driver.FeedEvent, Source: o.Event.Source, EventID: o.Event.EventID, Type: o.Event.Type, Outcome: o.Outcome,
		Details: feed.Details{Attempt: o.Attempt, TookSeconds: o.Took.Seconds(), Error: errorText(o.Err)},
	})
}

// feedOperated adds a change by an operator to the live feed. It is about a message if there is a
// message id.
func (in *Engine) feedOperated(action, source, eventID, eventType, destination, messageID string) {
	in.feed.Add(feed.Row{
		At: time.Now(), Kind: driver.FeedEvent, Source: source, EventID: eventID, Type: eventType, Outcome: action,
		Details: feed.Details{Destination: destination, MessageID: messageID},
	})
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return wire.ErrorText(err)
}

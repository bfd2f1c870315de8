package hookonce

import (
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/feed"
	"github.com/hookonce/hookonce/internal/relay"
	"github.com/hookonce/hookonce/internal/wire"
	"github.com/hookonce/hookonce/internal/work"
)

// seen is an event of a delivery, for the live feed.
type seen struct {
	id, eventType, outcome string
}

// liveFeed adds to the live feed while somebody looks at it.
type liveFeed struct{ *feed.Collector }

// delivery adds an answered delivery: a row for each of its events, or row itself if none is known.
func (f liveFeed) delivery(row *feed.Row, events []seen) {
	if len(events) == 0 {
		f.Add(*row)
		return
	}
	for _, one := range events {
		row.EventID, row.Type, row.Outcome = one.id, one.eventType, one.outcome
		f.Add(*row)
	}
}

// attempt adds an attempt to send a message to the live feed.
func (f liveFeed) attempt(a *relay.Observed) {
	if !f.Watched() {
		return
	}
	m := a.Message
	f.Add(feed.Row{
		At: time.Now(), Kind: driver.FeedAttempt, Source: m.Source, EventID: m.EventID, Type: m.Type, Outcome: a.Outcome,
		Details: feed.Details{
			Destination: m.Destination, MessageID: m.ID, Attempt: m.Attempt, Status: a.StatusCode, TookSeconds: a.Took.Seconds(),
			Error: errorText(a.Err),
		},
	})
}

// handled adds an attempt of a handler to the live feed.
func (f liveFeed) handled(o *work.Observed) {
	if !f.Watched() {
		return
	}
	f.Add(feed.Row{
		At: time.Now(), Kind: driver.FeedEvent, Source: o.Event.Source, EventID: o.Event.EventID, Type: o.Event.Type, Outcome: o.Outcome,
		Details: feed.Details{Attempt: o.Attempt, TookSeconds: o.Took.Seconds(), Error: errorText(o.Err)},
	})
}

// lost adds an event of an interrupted run to the live feed, unless that was a run in another database.
func (f liveFeed) lost(l *driver.LostRun) {
	if l.Elsewhere {
		return
	}
	row := feed.Row{
		At: time.Now(), Kind: driver.FeedEvent, Source: l.Source, EventID: l.EventID, Type: l.Type, Outcome: "retry",
		Details: feed.Details{Attempt: l.Attempts, Error: driver.ErrorRunInterrupted},
	}
	if l.Dead {
		row.Outcome = "dead"
	}
	if l.Ended {
		row.Error = (&driver.TxEndedError{Committed: true}).Error()
	}
	f.Add(row)
}

// filed adds a dead letter of an Inline handler to the live feed, whose sender did not deliver again.
func (f liveFeed) filed(l *driver.FiledFailure) {
	f.Add(feed.Row{
		At: time.Now(), Kind: driver.FeedEvent, Source: l.Source, EventID: l.EventID, Type: l.Type, Outcome: "dead",
		Details: feed.Details{Attempt: l.Failures, Error: l.Error},
	})
}

// operated adds a change by an operator to the live feed. It is about a message if there is a
// message id.
func (f liveFeed) operated(action, source, eventID, eventType, destination, messageID string) {
	f.Add(feed.Row{
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

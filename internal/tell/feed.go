package tell

import (
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/feed"
	"github.com/hookonce/hookonce/internal/relay"
	"github.com/hookonce/hookonce/internal/wire"
	"github.com/hookonce/hookonce/internal/work"
)

// FeedHolds reports whether the live feed keeps rows.
func (t *Teller) FeedHolds() bool { return t.feed.Holds() }

// FeedWatched tells that somebody looks at the live feed since a time, as the store knows by now.
func (t *Teller) FeedWatched(since time.Time) { t.feed.Begin(since) }

// feedAttempt adds an attempt to send a message to the live feed.
func (t *Teller) feedAttempt(a *relay.Observed) {
	if !t.feed.Holds() {
		t.feed.Miss()
		return
	}
	m := a.Message
	t.feed.Add(feed.Row{
		At: time.Now(), Kind: driver.FeedAttempt, Source: m.Source, EventID: m.EventID, Type: m.Type, Outcome: a.Outcome,
		Details: feed.Details{
			Destination: m.Destination, MessageID: m.ID, Attempt: m.Attempt, Status: a.StatusCode, TookSeconds: a.Took.Seconds(),
			Error: errorText(a.Err),
		},
	})
}

// feedHandled adds a run of a handler to the live feed.
func (t *Teller) feedHandled(o *work.Observed) {
	if !t.feed.Holds() {
		t.feed.Miss()
		return
	}
	t.feed.Add(feed.Row{
		At: time.Now(), Kind: driver.FeedEvent, Source: o.Event.Source, EventID: o.Event.EventID, Type: o.Event.Type, Outcome: o.Outcome,
		Details: feed.Details{Attempt: o.Attempt, TookSeconds: o.Took.Seconds(), Error: errorText(o.Err)},
	})
}

// Lost adds an event of an interrupted run to the live feed, unless that was a run in another database.
func (t *Teller) Lost(l *driver.LostRun) {
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
	t.feed.Add(row)
}

// Filed adds a dead letter of an Inline handler to the live feed, whose sender did not deliver again.
func (t *Teller) Filed(l *driver.FiledFailure) {
	t.feed.Add(feed.Row{
		At: time.Now(), Kind: driver.FeedEvent, Source: l.Source, EventID: l.EventID, Type: l.Type, Outcome: "dead",
		Details: feed.Details{Attempt: l.Failures, Error: l.Error},
	})
}

// Changed adds a change by an operator to the live feed. It is about a message if there is a
// message id.
func (t *Teller) Changed(action, source, eventID, eventType, destination, messageID string) {
	t.feed.Add(feed.Row{
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

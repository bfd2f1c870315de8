package driver

import (
	"context"
	"slices"
	"time"
)

// Evidence is the part of a store that removes the payload of one event. Claim, CountDeliveries and
// Complete write the evidence, Event reads it, and Prune removes it.
type Evidence interface {
	// Redact removes the payload of a finished event: its body and headers, its other body, the
	// responses and error texts of its attempts, and the same of the messages that its handlers
	// enqueued. The identity, the hashes of the bodies, states, deliveries and history stay, and the
	// history gets an entry ActionRedacted. The event is then as one past its retention: it stays
	// dead if it was dead, neither a delivery nor a replay makes it due again, and it can be
	// discarded.
	//
	// A redacted event stays as it is: the call succeeds with Redacted.Repeated and writes no second
	// entry. The error matches ErrNotFound, ErrRequestReused, ErrOpen while the event or one of the
	// messages is pending, running or being sent, or ErrLockTimeout, in this order of precedence.
	// After an error nothing was changed, unless it matches ErrCommitUnknown.
	//
	// Redact also removes the bytes from the files of the database, as far as the store can:
	// Redacted.Remains tells where they may still be.
	Redact(ctx context.Context, p *RedactParams) (*Redacted, error)
}

// RedactParams are the parameters of Evidence.Redact.
type RedactParams struct {
	Key Key
	// RequestID is like ReplayParams.RequestID. ErrRequestReused means that it named a replay.
	RequestID string
	Now       time.Time // tests only; zero means the database's clock
}

// Redacted is the result of Evidence.Redact.
type Redacted struct {
	Repeated bool // nothing was done: the event was redacted before
	// Remains says, in a sentence for the operator, where files of the database may still hold the
	// removed bytes, and what ends that. "" means nowhere. Backups are not meant.
	Remains string
}

// ErrorRedacted replaces the error texts of a redacted event: they may quote its body, or an answer
// that does.
const ErrorRedacted = "redacted"

// Redacted reports whether the payload of the event was removed by Evidence.Redact.
func (d *EventDetail) Redacted() bool {
	return slices.ContainsFunc(d.History, func(h HistoryEntry) bool { return h.Action == ActionRedacted })
}

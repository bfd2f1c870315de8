package driver

import (
	"context"
	"crypto/sha256"
	"fmt"
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

// Bounds of the evidence of one event.
const (
	MaxRecent       = 20       // deliveries
	MaxOtherBody    = 64 << 10 // bytes of the other body
	MaxOtherHeaders = 64 << 10 // bytes of its headers in their stored form
	MaxResponse     = 4 << 10  // bytes of a response
	MaxResponseType = 255      // bytes of its content type
)

// Delivery is one delivery of an event.
type Delivery struct {
	At       time.Time // when it was claimed or found to be a duplicate
	Remote   string    // the client's address; "" if it is not known, as of a retry from the quarantine
	Gateway  string    // the name of the host that received it
	SameBody bool      // its body is that of the first delivery
}

// OtherBody is the first delivery of an event whose body differs from that of the event.
type OtherBody struct {
	At      time.Time
	Headers []byte            // JSON object of name to list of values, as stored for events; at most MaxOtherHeaders bytes
	Body    []byte            // its beginning, at most MaxOtherBody bytes
	Size    int64             // of the whole body
	SHA256  [sha256.Size]byte // like Claim.BodyHash
}

// Check returns an error that matches ErrBadRow if a store cannot store the evidence in p.
func (p *CountDeliveriesParams) Check() error {
	for i := range p.Counts {
		c := &p.Counts[i]
		if len(c.Recent) > MaxRecent {
			return fmt.Errorf("%w: an event has %d recent deliveries, want at most %d", ErrBadRow, len(c.Recent), MaxRecent)
		}
		for _, d := range c.Recent {
			if !isName(d.Remote) || !isName(d.Gateway) {
				return fmt.Errorf("%w: the address and the gateway of a delivery must be valid UTF-8 without NUL, of at most %d bytes",
					ErrBadRow, MaxFigureText)
			}
		}
		if o := c.Other; o != nil && (len(o.Headers) > MaxOtherHeaders || len(o.Body) > MaxOtherBody) {
			return fmt.Errorf("%w: another body has %d bytes of headers and %d of the body, want at most %d and %d",
				ErrBadRow, len(o.Headers), len(o.Body), MaxOtherHeaders, MaxOtherBody)
		}
	}
	return nil
}

// CheckResponse returns an error that matches ErrBadRow if a store cannot store the response of c.
func (c *Completion) CheckResponse() error {
	if len(c.Response) > MaxResponse || len(c.ResponseType) > MaxResponseType || !IsText(c.ResponseType) {
		return fmt.Errorf("%w: the response to message %s has %d bytes and the content type %.300q, "+
			"want at most %d bytes, and valid UTF-8 without NUL of at most %d bytes",
			ErrBadRow, c.ID, len(c.Response), c.ResponseType, MaxResponse, MaxResponseType)
	}
	return nil
}

func isName(text string) bool { return IsText(text) && len(text) <= MaxFigureText }

// Ago returns how long before the call a delivery of p was. It is never negative.
func (p *CountDeliveriesParams) Ago(at time.Time) time.Duration { return max(p.Clock.Sub(at), 0) }

// MergeRecent returns the newest MaxRecent of the deliveries in both lists, which are newest first, as
// the result is. Of two deliveries at the same time, that in newer comes first.
func MergeRecent(newer, older []Delivery) []Delivery {
	all := slices.Concat(newer, older)
	slices.SortStableFunc(all, func(x, y Delivery) int { return y.At.Compare(x.At) })
	return all[:min(len(all), MaxRecent)]
}

// WithFirst adds the first delivery to recent, which holds the later ones, if there is room.
func WithFirst(recent []Delivery, first Delivery) []Delivery {
	first.SameBody = true
	return MergeRecent(recent, []Delivery{first})
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

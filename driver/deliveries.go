package driver

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"
)

// Bounds of the deliveries that are kept of one event.
const (
	MaxRecent       = 20       // deliveries
	MaxOtherBody    = 64 << 10 // bytes of the other body
	MaxOtherHeaders = 64 << 10 // bytes of its headers in their stored form
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

// DeliveryCount holds the deliveries of one event since the last flush.
type DeliveryCount struct {
	Key         Key
	Duplicates  int // deliveries after the first
	OtherBodies int // those with a different body
	Repeats     int // deliveries of this event's body under other ids
	// Recent are the newest of the duplicates, at most MaxRecent, the newest last. The store keeps
	// the newest MaxRecent of the event.
	Recent []Delivery
	// Other is one of the duplicates with another body; nil if there is none. The store keeps the
	// first one that it gets, if the event still has its own body.
	Other *OtherBody
}

// CountDeliveriesParams are the parameters of Store.CountDeliveries.
type CountDeliveriesParams struct {
	Counts []DeliveryCount // sorted by Key, without repetition
	// Counted, if not nil, gets each event with duplicates in Counts, after the commit.
	Counted func(CountedEvent)
	// Clock is the caller's clock at the call, for the times of Recent and Other. The store keeps
	// these by its own clock.
	Clock time.Time
	Now   time.Time // tests only; zero means the database's clock
}

// CountedEvent is an event whose duplicates were counted.
type CountedEvent struct {
	Key        Key
	Source     string
	ReceivedAt time.Time
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

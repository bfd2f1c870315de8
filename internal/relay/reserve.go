package relay

import (
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	// maxReservedBody bounds the body of a message that is reserved. A large one would hold its memory while
	// it waits for a slot.
	maxReservedBody = 256 << 10
	// maxReservedTimeout bounds the timeout of their destination. They are leased for longer than that, and wait so
	// long if the process dies, or if it does not learn whether the claim was committed.
	maxReservedTimeout = time.Minute
)

// Reservation is room for a message whose event is about to be claimed: the claim leases it to this
// process, so that it needs no lease of its own. The caller ends it by Send or Cancel, once.
type Reservation struct {
	relay *relay
	s     *sending
}

// Reserve returns a reservation for m, which has neither token nor time yet. It returns nil if the message
// must be leased the usual way: its relay does not run, is not caught up, or has no room; its rate is used
// up; its circuit is open; a stale rule watches its type; or the lease of a process that dies would cost it its
// only attempt, or much time.
func (g *Group) Reserve(m *driver.Message) *Reservation {
	g.mu.RLock()
	r := g.relays[m.Destination]
	g.mu.RUnlock()
	if r == nil || !r.reserve(m) {
		return nil
	}
	return &Reservation{relay: r, s: &sending{Message: m, until: time.Now().Add(maxTurnWait), bytes: len(m.Body)}}
}

func (r *relay) reserve(m *driver.Message) bool {
	if r.dest.Timeout > maxReservedTimeout {
		return false
	}
	if !r.caughtUp.Load() || r.dest.Retry.Attempts == 1 || len(m.Body) > maxReservedBody || r.dest.Circuit.Status().Open {
		return false
	}
	if r.o.MayBeStale(m) {
		return false // it must read the applied versions after it is in line
	}
	if !r.places.reserve(len(m.Body)) {
		return false
	}
	if allowed, _ := r.dest.Rate.TakeUpTo(1, time.Now()); allowed == 0 {
		r.places.cancel(len(m.Body))
		return false
	}
	return true
}

// LeaseFor returns how long the claim must lease the message.
func (v *Reservation) LeaseFor() time.Duration { return v.relay.dest.Timeout + driver.LeaseMargin }

// Send sends the message, which is claimed and leased under token, or gives the lease back if that took too
// long. It never blocks.
func (v *Reservation) Send(token int64, receivedAt time.Time) {
	v.s.Token, v.s.Attempt, v.s.ReceivedAt = token, 1, receivedAt
	v.relay.leased <- []*sending{v.s} // as many fit in as there is room for
	v.relay.places.reservations.Done()
}

// Cancel says that the message is not leased.
func (v *Reservation) Cancel() {
	v.relay.dest.Rate.GiveBack(1)
	v.relay.places.cancel(v.s.bytes)
}

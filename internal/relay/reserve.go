package relay

import (
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	// maxReservedBody bounds the body of a message that is reserved. A large one would hold its memory while
	// it waits for a slot.
	maxReservedBody = 256 << 10
	// maxReservedBytes bounds the bodies of all of them.
	maxReservedBytes = maxAheadBytes
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
	if !r.beginReservation(len(m.Body)) {
		return false
	}
	if allowed, _ := r.dest.Rate.TakeUpTo(1, time.Now()); allowed == 0 {
		r.endReservation(len(m.Body))
		return false
	}
	return true
}

// beginReservation takes room for one message with a body of so many bytes.
func (r *relay) beginReservation(bytes int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.live || r.free() <= 0 || r.reservedBytes+bytes > maxReservedBytes {
		return false
	}
	r.reservedBytes += bytes
	r.waiting.Add(1)
	r.reserved.Add(1)
	return true
}

// endReservation gives the room back.
func (r *relay) endReservation(bytes int) {
	r.freeBytes(bytes)
	r.waiting.Add(-1)
	signal(r.freed)
	r.reserved.Done()
}

func (r *relay) freeBytes(n int) {
	if n == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reservedBytes -= n
}

// LeaseFor returns how long the claim must lease the message.
func (v *Reservation) LeaseFor() time.Duration { return v.relay.dest.Timeout + leaseMargin }

// Send sends the message, which is claimed and leased under token, or gives the lease back if that took too
// long. It never blocks.
func (v *Reservation) Send(token int64, receivedAt time.Time) {
	v.s.Token, v.s.Attempt, v.s.ReceivedAt = token, 1, receivedAt
	v.relay.leased <- []*sending{v.s} // as many fit in as there is room for
	v.relay.reserved.Done()
}

// Cancel says that the message is not leased.
func (v *Reservation) Cancel() {
	v.relay.dest.Rate.GiveBack(1)
	v.relay.endReservation(v.s.bytes)
}

// setLive says whether reservations may begin.
func (r *relay) setLive(live bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live = live
}

// holdForLease takes the free room for a lease if it is enough. While the relay is caught up it takes half
// of it: few messages are due then, and reservations need the rest.
func (r *relay) holdForLease(enough int) (held, free int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	free = r.free()
	if free < enough || free <= 0 {
		return 0, free
	}
	held = free
	if r.caughtUp.Load() {
		held = (free + 1) / 2
	}
	r.waiting.Add(int64(held))
	return held, free
}

// free returns how many more messages the relay may hold. The caller holds the lock.
func (r *relay) free() int { return r.room() - len(r.slots) - int(r.waiting.Load()) }

package relay

import (
	"context"
	"sync"
	"time"
)

const (
	// confirmsPerSlot bounds the messages that are sent but whose success is not confirmed yet.
	// Confirming takes twice as long as sending, or longer; see package send.
	confirmsPerSlot = 4
	// maxReservedBytes bounds the bodies of all reserved messages that have no slot yet.
	maxReservedBytes = maxAheadBytes
)

// places counts the messages that a relay holds, by where each is: it waits for a slot, is sent in one, or left it
// while its success is confirmed. Nothing else counts them. It is safe for concurrent use.
type places struct {
	slots int
	ahead ahead
	freed chan struct{} // signals room, to the goroutine that leases
	slot  chan struct{} // signals a free slot, to the goroutine that feeds them

	// reservations are those that have neither sent nor cancelled their message.
	reservations sync.WaitGroup

	mu         sync.Mutex
	open       bool // reservations may begin
	waiting    int  // have room and no slot yet
	sending    int  // have a slot
	confirming int  // left their slot
	reserved   int  // bytes of the bodies of reservations that wait
}

func newPlaces(slots int) *places {
	return &places{slots: slots, freed: make(chan struct{}, 1), slot: make(chan struct{}, 1)}
}

// room returns how many messages may wait or be sent.
func (p *places) room() int { return p.slots + p.ahead.room(p.slots) }

// free returns how many more messages there is room for. The caller holds the lock.
func (p *places) free() int { return p.room() - p.sending - p.waiting }

// setOpen says whether reservations may begin.
func (p *places) setOpen(open bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = open
}

// close lets no reservation begin, and returns when those in progress have ended.
func (p *places) close() {
	p.setOpen(false)
	p.reservations.Wait()
}

// reserve begins a reservation: it takes room for one message with a body of so many bytes.
func (p *places) reserve(bytes int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.open || p.free() <= 0 || p.reserved+bytes > maxReservedBytes {
		return false
	}
	p.waiting++
	p.reserved += bytes
	p.reservations.Add(1) // under the lock: close has not begun to wait
	return true
}

// cancel ends a reservation and gives its room back.
func (p *places) cancel(bytes int) {
	p.giveBack(1, bytes)
	p.reservations.Done()
}

// take takes the free room for a lease, or half of it, if enough is free. It returns the taken and the
// free room.
func (p *places) take(enough int, half bool) (taken, free int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	free = p.free()
	if free < enough || free <= 0 {
		return 0, free
	}
	taken = free
	if half {
		taken = (free + 1) / 2
	}
	p.waiting += taken
	return taken, free
}

// giveBack gives back the room of messages that wait, and the reserved bytes of their bodies.
func (p *places) giveBack(messages, bytes int) {
	p.mu.Lock()
	p.waiting -= messages
	p.reserved -= bytes
	p.mu.Unlock()
	signal(p.freed)
}

// waits reports whether a message waits for a slot.
func (p *places) waits() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting > 0
}

// sit moves a message that waits into a slot, if one is free. bytes are its reserved ones.
func (p *places) sit(bytes int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sending >= p.slots {
		return false
	}
	p.waiting--
	p.reserved -= bytes
	p.sending++
	return true
}

// awaitSlot waits until a slot may be free. It returns false if ctx ended, or that time came, before.
func (p *places) awaitSlot(ctx context.Context, until time.Time) bool {
	late := time.NewTimer(time.Until(until))
	defer late.Stop()
	select {
	case <-p.slot:
		return true
	case <-ctx.Done():
		return false
	case <-late.C:
		return false
	}
}

// confirm lets a message leave its slot while its success is confirmed. It returns false if too many are being
// confirmed: outcomes are not recorded fast enough.
func (p *places) confirm() bool {
	p.mu.Lock()
	if p.confirming == confirmsPerSlot*p.slots {
		p.mu.Unlock()
		return false
	}
	p.confirming++
	p.sending--
	p.mu.Unlock()
	p.signal()
	return true
}

// leave says that a message has ended, in its slot or, if its success was being confirmed, outside of it.
func (p *places) leave(confirming bool) {
	p.mu.Lock()
	if confirming {
		p.confirming--
	} else {
		p.sending--
	}
	p.mu.Unlock()
	p.signal()
}

// signal says that a slot, and so room, may be free.
func (p *places) signal() {
	signal(p.slot)
	signal(p.freed)
}

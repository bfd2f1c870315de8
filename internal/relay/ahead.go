package relay

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	// aheadTime is how long a message that is leased ahead should wait for a slot.
	aheadTime = 20 * time.Millisecond
	// maxAhead bounds the messages that are leased ahead, for each slot.
	maxAhead = 4
	// maxAheadBytes bounds their bodies.
	maxAheadBytes = 8 << 20
	// pastShare is the weight of the past in an average, against that of one message.
	pastShare = 15
)

// ahead decides how many messages a relay leases before there are slots for them. A lease costs the
// database almost as much for one message as for dozens, so a destination that answers quickly would
// keep the database busy with small leases. Nothing is leased ahead of a destination whose last attempt
// failed. The zero value is ready. It is safe for concurrent use.
type ahead struct {
	mu    sync.Mutex
	took  time.Duration // of an attempt, on average; 0: not known
	bytes int           // of a body, on average
}

// note records an attempt.
func (a *ahead) note(works bool, took time.Duration, bytes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	took = max(took, time.Microsecond)
	switch {
	case !works:
		a.took = 0
		return
	case a.took == 0:
		a.took, a.bytes = took, bytes
		return
	}
	a.took += (took - a.took) / (pastShare + 1)
	a.bytes += (bytes - a.bytes) / (pastShare + 1)
}

// room returns how many messages may wait for one of these slots.
func (a *ahead) room(slots int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.took == 0 {
		return 0
	}
	n := slots * int(min(aheadTime/a.took, maxAhead))
	return min(n, maxAheadBytes/max(a.bytes, 1))
}

// feed starts the sends of leased messages in the order of their leases, until leased is closed. Each
// waits for a slot. Messages that may not wait longer are given back, with those behind them.
func (r *relay) feed(ctx, sendCtx context.Context) {
	defer close(r.hands)
	for batch := range r.leased {
		for i, s := range batch {
			if !r.seat(ctx, s) {
				r.giveUp(ctx, r.allFrom(batch[i:]))
				break
			}
			select {
			case r.hands <- s:
			default:
				r.sending.Go(func() { r.work(ctx, sendCtx, s) })
			}
		}
	}
}

// allFrom returns batch with the messages that wait behind it. Reserved messages come one by one, and so many
// statements would hold up a stop.
func (r *relay) allFrom(batch []*sending) []*sending {
	batch = slices.Clip(batch)
	for {
		select {
		case more, ok := <-r.leased:
			if !ok {
				return batch
			}
			batch = append(batch, more...)
		default:
			return batch
		}
	}
}

// idleHand is how long a goroutine waits for another message. A new one would have to grow its stack again.
const idleHand = time.Second

// work dispatches s, and then messages that are handed over, until there was none for a while.
func (r *relay) work(ctx, sendCtx context.Context, s *sending) {
	idle := time.NewTimer(idleHand)
	defer idle.Stop()
	for {
		r.carry(ctx, sendCtx, s)
		idle.Reset(idleHand)
		var ok bool
		select {
		case s, ok = <-r.hands:
			if !ok {
				return
			}
		case <-idle.C:
			return
		}
	}
}

// carry dispatches s and frees its place.
func (r *relay) carry(ctx, sendCtx context.Context, s *sending) {
	defer func() { r.places.leave(s.confirming) }()
	r.dispatch(ctx, sendCtx, s)
}

// seat waits for a slot for s, and reports whether it took one and s may still be sent.
func (r *relay) seat(ctx context.Context, s *sending) bool {
	// While it waits, other sends may open the circuit, or the process may begin to stop. The claim of a
	// reserved message may have taken long.
	for ctx.Err() == nil && time.Now().Before(s.until) && (s.probed || !r.dest.Circuit.Status().Open) {
		if r.places.sit(s.bytes) {
			return true
		}
		if !r.places.awaitSlot(ctx, s.until) {
			return false
		}
	}
	return false
}

// giveUp gives leased messages back that did not get a slot.
func (r *relay) giveUp(ctx context.Context, batch []*sending) {
	r.places.ahead.note(false, 0, 0) // a destination that hangs gets none until it answers again
	messages := make([]driver.Message, len(batch))
	bytes := 0
	for i, s := range batch {
		messages[i] = *s.Message
		bytes += s.bytes
		r.unsent(s.probed)
	}
	if err := r.giveBack(ctx, messages); err != nil {
		r.log.Warn("releasing leases failed; they expire by themselves", slog.Int("messages", len(batch)), slog.Any("error", err))
	}
	for _, s := range batch {
		s.turn.leave(false)
	}
	r.places.giveBack(len(batch), bytes)
	r.wake() // the messages are due again
}

package work

import (
	"slices"
	"sync"
	"time"
)

// seats holds a worker for each of a number of Inline deliveries. The waiting deliveries of all
// sources get free seats in turn, so that a flood of one source delays no other for long. All
// methods may be called concurrently.
type seats struct {
	mu    sync.Mutex
	free  int
	turns []*bench                 // sources with waiting deliveries; the first one has the next turn
	needs map[string]time.Duration // by source: a moving average of the time in a seat
}

// bench is the waiting deliveries of one source, in the order of their arrival.
type bench struct {
	source  string
	waiting []*seat
}

// seat is the place of one delivery.
type seat struct {
	source string
	taken  chan struct{} // closed once the delivery has a worker
}

func newSeats(n int) *seats { return &seats{free: n, needs: make(map[string]time.Duration)} }

// wait queues a delivery of a source for a seat. The caller leaves it, also if it was not taken.
func (s *seats) wait(source string) *seat {
	one := &seat{source, make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.turns, func(b *bench) bool { return b.source == source })
	if i < 0 {
		i = len(s.turns)
		s.turns = append(s.turns, &bench{source: source})
	}
	s.turns[i].waiting = append(s.turns[i].waiting, one)
	s.fill()
	return one
}

// leave frees a seat, or gives up waiting for it.
func (s *seats) leave(one *seat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-one.taken:
		s.free++
		s.fill()
		return
	default:
	}
	i := slices.IndexFunc(s.turns, func(b *bench) bool { return b.source == one.source })
	b := s.turns[i]
	b.waiting = slices.DeleteFunc(b.waiting, func(w *seat) bool { return w == one })
	if len(b.waiting) == 0 {
		s.turns = slices.Delete(s.turns, i, i+1)
	}
}

// fill gives the free seats to waiting deliveries. The caller holds the lock.
func (s *seats) fill() {
	for s.free > 0 && len(s.turns) > 0 {
		b := s.turns[0]
		s.turns = s.turns[1:]
		close(b.waiting[0].taken)
		s.free--
		if b.waiting = b.waiting[1:]; len(b.waiting) > 0 {
			s.turns = append(s.turns, b)
		}
	}
}

// patience returns how long a delivery of a source may wait for its seat if its answer is due after
// left: as long as it keeps twice the usual time in a seat, or half of left. Without this bound, all
// deliveries of an overload would begin when it is too late for them.
func (s *seats) patience(source string, left time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	need, known := s.needs[source]
	if !known {
		return left / 2
	}
	return max(left/2, left-inlineMargin-2*need)
}

// note records the time that a delivery of a source had a seat. With late, the time was too short.
func (s *seats) note(source string, took time.Duration, late bool) {
	if late {
		took *= 2
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, known := s.needs[source]; known {
		took = (3*before + took) / 4
	}
	s.needs[source] = took
}

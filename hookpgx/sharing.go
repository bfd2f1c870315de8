package hookpgx

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// This file is for a server, a database or a role that allows fewer connections than the pools of a store would
// take. Nothing tells a store how many there are for it: other processes use some, too. The first refusal shows it.
// From then on all calls share one pool, and each kind of call has half of its connections:
//
//   - Short calls: claims, leases, outcomes, sweeps, and questions about the state.
//   - Long calls: runs of handlers, and listings. A run needs a short call to be recorded, so runs must never
//     have all connections.
//
// The number of connections is learnt by trying. It shrinks when another one is refused, and grows slowly while calls
// wait. From time to time a store gives one up, so that another process that has none can begin.

const (
	// fewest is the smallest number of connections that a store works with: one for each kind of call.
	fewest = 2
	// settling is how long refusals teach nothing after a change: connections that were closed may still count.
	settling = 2 * time.Second
	// growAfter is how long a store that wants more connections waits before it tries one more.
	growAfter = 5 * time.Second
	// yieldAfter is how long a store keeps its connections before it gives one up.
	yieldAfter = 30 * time.Second
	// sharedIdle is how long a shared connection stays open without work.
	sharedIdle = time.Second
)

// sharing divides few connections among the calls of a store.
type sharing struct {
	pool *pgxpool.Pool // one of the store's own, used only while it shares
	most int           // the connections of all other pools: with so many there is nothing to share

	mu      sync.Mutex
	total   int       // guarded by mu; 0 while the store does not share
	changed time.Time // guarded by mu: when total changed
	// refusedAt is the time of a refusal that taught nothing. Guarded by mu.
	refusedAt time.Time
	yielded   time.Time // guarded by mu: when the store gave one up, or began to share
	halves    [2]half   // guarded by mu; by kind
}

// kind is a kind of calls.
type kind int

const (
	short kind = iota
	long
)

// half is the part of the connections that calls of one kind have.
type half struct {
	used    int
	waiting []chan struct{} // in the order of their calls; closed when a call may go on
}

// sharedSettings returns the settings of the sharing pool's sessions. Each transaction brings those of its call.
// Sessions for a caller's pool keep its isolation level.
func sharedSettings(users bool) map[string]string {
	s := map[string]string{"application_name": "hookonce", "client_encoding": "UTF8"}
	if !users {
		s["default_transaction_isolation"] = "read committed"
	}
	return s
}

// share makes the pool for sharing, after all others.
func (l *link) share(config *pgxpool.Config) error {
	s := &l.sharing
	for _, pool := range l.all() {
		s.most += int(pool.Config().MaxConns)
	}
	config.MaxConnIdleTime, config.HealthCheckPeriod = sharedIdle, sharedIdle
	c, err := l.open(config, s.most, sharedSettings(l.users != nil))
	s.pool = c.pool
	return err
}

// all returns all pools, also the caller's.
func (l *link) all() []*pgxpool.Pool {
	if l.users == nil {
		return l.own
	}
	return append(slices.Clip(l.own), l.users)
}

// refused learns from a refusal that there are too many connections. If the store begins to share, it gives back
// those that are idle.
func (l *link) refused() {
	open := 0
	for _, pool := range l.all() {
		stat := pool.Stat()
		open += int(stat.TotalConns() - stat.ConstructingConns())
	}
	if !l.sharing.learn(open) {
		return
	}
	for _, pool := range l.own {
		pool.Reset()
	}
	if l.users != nil {
		dropIdle(l.users)
	}
}

// learn notes a refusal while so many connections were open, and reports whether the store begins to share.
func (s *sharing) learn(open int) (begins bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	switch {
	case s.total == 0:
		s.total = max(fewest, min(open, s.most))
		s.changed, s.yielded = now, now
		return true
	case now.Sub(s.changed) > settling:
		s.resize(max(fewest, s.total-1), now)
	default:
		s.refusedAt = now // it grows later
	}
	return false
}

// resize changes how many connections there are, and lets those calls go on that may. mu is held.
func (s *sharing) resize(total int, now time.Time) {
	s.total, s.changed = total, now
	if total >= s.most {
		s.total = 0
	}
	for k := range s.halves {
		s.wake(kind(k))
	}
}

// room returns how many calls of a kind may have a connection at once. mu is held.
func (s *sharing) room(k kind) int {
	if k == long {
		return s.total / 2
	}
	return s.total - s.total/2
}

// wake lets waiting calls go on. mu is held.
func (s *sharing) wake(k kind) {
	h := &s.halves[k]
	for len(h.waiting) > 0 && (s.total == 0 || h.used < s.room(k)) {
		h.used++
		close(h.waiting[0])
		h.waiting = h.waiting[1:]
	}
}

// enter waits until a call may have a connection. It reports false at once if the store does not share.
func (s *sharing) enter(ctx context.Context, k kind) (entered bool, err error) {
	s.mu.Lock()
	if s.total == 0 {
		s.mu.Unlock()
		return false, nil
	}
	turn := make(chan struct{})
	s.halves[k].waiting = append(s.halves[k].waiting, turn)
	s.wake(k)
	s.adjust()
	s.mu.Unlock()
	select {
	case <-turn:
		return true, nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.Index(s.halves[k].waiting, turn)
	if at < 0 {
		return true, nil // its turn came at the same time; taking the connection fails
	}
	s.halves[k].waiting = slices.Delete(s.halves[k].waiting, at, at+1)
	return false, context.Cause(ctx)
}

// adjust gives one connection up if it is time to, and tries one more if calls wait. mu is held.
func (s *sharing) adjust() {
	now := time.Now()
	switch {
	case s.total > fewest && now.Sub(s.yielded) > yieldAfter:
		s.yielded = now
		s.resize(s.total-1, now)
	case len(s.halves[short].waiting)+len(s.halves[long].waiting) > 0 && now.Sub(s.changed) > growAfter && now.Sub(s.refusedAt) > growAfter:
		s.resize(s.total+1, now)
	}
}

// leave ends the use of a connection that enter allowed.
func (s *sharing) leave(k kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.halves[k].used--
	s.wake(k)
}

// active reports whether the store shares.
func (s *sharing) active() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total > 0
}

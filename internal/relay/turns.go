package relay

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/stale"
)

// turns keep this process from sending two messages about one object at the same time: if the lower
// version arrived last, the destination would end in the older state. The messages about one object
// form a line, the lowest version first, and only the front may send. The front leaves its line after
// its outcome is recorded. So a message that joins first and reads the database afterwards misses no
// sent version: either the database has it, or the line knows it. The zero value is ready to use, also
// concurrently.
type turns struct {
	mu  sync.Mutex
	all map[driver.Key]*line
}

type line struct {
	front   *turn
	waiting []*turn
	sent    *driver.ObjectVersion // the highest sent version since the line formed
}

// turn is a place in a line.
type turn struct {
	lines   *turns
	version driver.ObjectVersion
	front   chan struct{}         // closed when t is at the front
	sent    *driver.ObjectVersion // the line's highest sent version at that time; nil if there is none
}

// join adds a turn for each version to the lines of their objects, and then lets the fronts go.
func (l *turns) join(versions []driver.ObjectVersion) []*turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = make(map[driver.Key]*line)
	}
	all := make([]*turn, len(versions))
	for i, v := range versions {
		ln := l.all[v.Object]
		if ln == nil {
			ln = &line{}
			l.all[v.Object] = ln
		}
		all[i] = &turn{lines: l, version: v, front: make(chan struct{})}
		ln.waiting = append(ln.waiting, all[i])
	}
	for _, t := range all {
		l.advance(t.version.Object)
	}
	return all
}

// advance brings the next turn of a line to the front, if the front is free.
func (l *turns) advance(object driver.Key) {
	ln := l.all[object]
	if ln == nil || ln.front != nil {
		return
	}
	if len(ln.waiting) == 0 {
		delete(l.all, object)
		return
	}
	slices.SortStableFunc(ln.waiting, func(a, b *turn) int { return stale.Compare(&a.version, &b.version) })
	ln.front, ln.waiting = ln.waiting[0], ln.waiting[1:]
	ln.front.sent = ln.sent
	close(ln.front.front)
}

// wait blocks until t is at the front, and returns true; or until the given time or the end of ctx.
func (t *turn) wait(ctx context.Context, until time.Time) bool {
	select {
	case <-t.front: // a turn at the front is never late
		return true
	default:
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-t.front:
		return ctx.Err() == nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// leave takes t out of its line. sent says that its message was sent. A nil t does nothing.
func (t *turn) leave(sent bool) {
	if t == nil {
		return
	}
	l := t.lines
	l.mu.Lock()
	defer l.mu.Unlock()
	ln := l.all[t.version.Object]
	if ln == nil {
		return
	}
	if sent && (ln.sent == nil || stale.Compare(ln.sent, &t.version) < 0) {
		ln.sent = &t.version
	}
	if ln.front == t {
		ln.front = nil
	}
	ln.waiting = slices.DeleteFunc(ln.waiting, func(w *turn) bool { return w == t })
	l.advance(t.version.Object)
}

// newer returns the highest version among applied, which may be nil, and the versions sent before t,
// if it is higher than t's own version; otherwise nil. t must be at the front.
func (t *turn) newer(applied *driver.ObjectVersion) *driver.ObjectVersion {
	highest := cmp.Or(applied, t.sent)
	if applied != nil && t.sent != nil && stale.Compare(applied, t.sent) < 0 {
		highest = t.sent
	}
	if highest == nil || stale.Compare(&t.version, highest) >= 0 {
		return nil
	}
	return highest
}

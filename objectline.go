package hookonce

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// objectLines keep this process from sending two messages about one object at the
// same time: where the lower version arrived last, its destination would end in the
// older state. Those of one object stand in a line, the lowest version first, and
// whoever is at the front may send. Whoever was there has recorded its outcome
// before it leaves: what reads the database after it joined, and listens to its
// line, has missed nothing that was sent. The zero value is ready to use.
type objectLines struct {
	mu  sync.Mutex
	all map[driver.Key]*objectLine
}

type objectLine struct {
	front   *turn
	waiting []*turn
	sent    *driver.ObjectVersion // the highest one, since the line formed
}

// turn is a place in a line.
type turn struct {
	lines   *objectLines
	version driver.ObjectVersion
	front   chan struct{}         // closed when it is at the front
	sent    *driver.ObjectVersion // by then; nil if nothing was
}

// join puts all of versions in line before any of them comes to the front.
func (l *objectLines) join(versions []driver.ObjectVersion) []*turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = make(map[driver.Key]*objectLine)
	}
	turns := make([]*turn, len(versions))
	for i, v := range versions {
		line := l.all[v.Object]
		if line == nil {
			line = &objectLine{}
			l.all[v.Object] = line
		}
		turns[i] = &turn{lines: l, version: v, front: make(chan struct{})}
		line.waiting = append(line.waiting, turns[i])
	}
	for _, t := range turns {
		l.advance(t.version.Object)
	}
	return turns
}

// advance brings the next one to the front of a line where nobody is.
func (l *objectLines) advance(object driver.Key) {
	line := l.all[object]
	if line == nil || line.front != nil {
		return
	}
	if len(line.waiting) == 0 {
		delete(l.all, object)
		return
	}
	slices.SortStableFunc(line.waiting, func(a, b *turn) int { return compareVersions(&a.version, &b.version) })
	line.front, line.waiting = line.waiting[0], line.waiting[1:]
	line.front.sent = line.sent
	close(line.front.front)
}

// wait waits until t is at the front, or until a time, or ctx ends.
func (t *turn) wait(ctx context.Context, until time.Time) bool {
	select {
	case <-t.front: // who need not wait cannot be late
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

// leave leaves the line, wherever t stands in it, and tells whether it was sent. On
// a nil t it does nothing.
func (t *turn) leave(sent bool) {
	if t == nil {
		return
	}
	l := t.lines
	l.mu.Lock()
	defer l.mu.Unlock()
	line := l.all[t.version.Object]
	if line == nil {
		return
	}
	if sent && (line.sent == nil || compareVersions(line.sent, &t.version) < 0) {
		line.sent = &t.version
	}
	if line.front == t {
		line.front = nil
	}
	line.waiting = slices.DeleteFunc(line.waiting, func(w *turn) bool { return w == t })
	l.advance(t.version.Object)
}

// newer returns the higher one of applied, which may be nil, and what was sent
// before t, if that is higher than t's own version; else nil. t is at the front.
func (t *turn) newer(applied *driver.ObjectVersion) *driver.ObjectVersion {
	highest := cmp.Or(applied, t.sent)
	if applied != nil && t.sent != nil && compareVersions(applied, t.sent) < 0 {
		highest = t.sent
	}
	if highest == nil || compareVersions(&t.version, highest) >= 0 {
		return nil
	}
	return highest
}

func compareVersions(a, b *driver.ObjectVersion) int { return bytes.Compare(a.Version, b.Version) }

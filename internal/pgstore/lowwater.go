package pgstore

import (
	"sync"
	"time"
)

// lowWater remembers, for each queue of due rows, a lower bound for the due times of its rows that the
// process may take. Statements begin to read the queue's index there. At the front stand due events of types that
// only other processes handle. While a transaction is open anywhere in the database, the entries of all
// rows stand there, too, that were finished since. A statement that begins at the front reads every one
// of them.
//
// Only delays depend on the marks. A row can appear before its mark: its transaction committed
// later than commitTime after it began, or another process gave up its lock on it. A look at the whole
// queue finds such a row, and follows within a second, or later if it is expensive: whole looks
// take at most a fiftieth of the time, and one follows within a minute.
//
// The zero value is ready. All methods may be called concurrently.
type lowWater struct {
	mu    sync.Mutex
	marks map[queue]*mark
}

// queue names what one kind of statement reads: the rows of a source or of a destination.
type queue struct{ kind, name string }

type mark struct {
	types   string    // the mark holds for events of these types
	from    time.Time // by the database's clock: no row is due before it; zero: not known
	whole   time.Time // by the clock of the process: when to look at the whole queue again
	lowered int       // counts calls of lower
}

const (
	// commitTime is how long after the begin of its transaction a new row usually becomes visible.
	commitTime = 500 * time.Millisecond
	// wholeLookShare is how much longer than a look at a whole queue the process waits for the next.
	wholeLookShare = 50
	minWholeLook   = time.Second
	maxWholeLook   = time.Minute
)

// look is one statement that reads a queue.
type look struct {
	low     *lowWater // nil: it leaves no mark
	mark    *mark
	lowered int
	began   time.Time
	from    *time.Time // where it begins; nil for the whole queue
}

// begin returns a look at a queue, for rows of the types only. In tests with a clock of their own, at
// is not zero; such a look reads the whole queue and leaves no mark.
func (l *lowWater) begin(q queue, types string, at time.Time) look {
	if !at.IsZero() {
		return look{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.marks[q]
	if m == nil || m.types != types {
		m = &mark{types: types}
		if l.marks == nil {
			l.marks = make(map[queue]*mark)
		}
		l.marks[q] = m
	}
	k := look{low: l, mark: m, lowered: m.lowered, began: time.Now()}
	if from := m.from; !from.IsZero() && k.began.Before(m.whole) {
		k.from = &from
	}
	return k
}

// beginAll returns looks of one kind, by name, and where each begins.
func (l *lowWater) beginAll(kind string, names []string) (map[string]look, []*time.Time) {
	looks, from := make(map[string]look, len(names)), make([]*time.Time, len(names))
	for i, name := range names {
		looks[name] = l.begin(queue{kind, name}, "", time.Time{})
		from[i] = looks[name].from
	}
	return looks, from
}

// end records that the statement ran at now by the database's clock, and left no unlocked row that was
// due before the time until. A zero now stands for a statement without a row, which changes no mark.
// Transactions that began shortly before now may not have committed yet.
func (k look) end(until, now time.Time) {
	if k.low == nil {
		return
	}
	k.low.mu.Lock()
	defer k.low.mu.Unlock()
	if k.from == nil {
		k.mark.whole = k.began.Add(min(max(wholeLookShare*time.Since(k.began), minWholeLook), maxWholeLook))
	}
	if now.IsZero() || k.lowered != k.mark.lowered {
		return
	}
	k.mark.from = now.Add(-commitTime)
	if until.Before(k.mark.from) {
		k.mark.from = until
	}
}

// lower says that rows of the name may be due again that were due at a time. Zero stands for any time.
func (l *lowWater) lower(name string, to time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for q, m := range l.marks {
		if q.name != name {
			continue
		}
		m.lowered++
		if to.Before(m.from) {
			m.from = to
		}
	}
}

// forget says that any row may be due.
func (l *lowWater) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.marks)
}

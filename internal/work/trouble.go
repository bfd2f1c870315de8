package work

import (
	"errors"
	"sync"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	// firstSourceRest is how long a source rests after the database refused one of its runs for a reason of its own. Each
	// further rest is twice as long.
	firstSourceRest   = time.Second
	longestSourceRest = time.Minute
	// alonePeriod is how long events run one by one after the latest refusal.
	alonePeriod = time.Minute
	maxRefused  = 1000 // events that are remembered for a source
)

// isRefusal reports whether the database itself refused a run. A lost connection says nothing of its events.
func isRefusal(err error) bool {
	// ErrSchema may come from a trigger of the database's owner.
	return (errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrLockTimeout) || errors.Is(err, driver.ErrSchema) || errors.Is(err, driver.ErrBadRow)) &&
		!errors.Is(err, driver.ErrAway) && !errors.Is(err, driver.ErrCommitUnknown) && !errors.Is(err, driver.ErrSerialization)
}

// troubles remembers sources whose runs the database refuses because it is full, broken or too slow. It cannot tell
// which event is the reason, if any is: a source rests, and then its events run one by one. The zero value is ready to use,
// also concurrently.
type troubles struct {
	mu      sync.Mutex
	sources map[string]*trouble
}

type trouble struct {
	rest    time.Duration
	until   time.Time
	latest  time.Time          // of the refusals
	marked  int                // runs whose outcome was recorded since the first refusal
	refused map[driver.Key]int // events that were refused alone, with marked at that time
}

// of reports whether a source rests, and whether its events run one by one.
func (t *troubles) of(source string) (rests, alone bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sources[source]
	if s == nil {
		return false, false
	}
	now := time.Now()
	return now.Before(s.until), now.Before(s.latest.Add(alonePeriod))
}

// refuse says that the database refused a run. It returns how long the source rests. isFault reports that the run's only
// event is the reason: the database has refused it before, and has recorded the outcome of another one since.
func (t *troubles) refuse(events []driver.TakenEvent) (rest time.Duration, isFault bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	source := events[0].Source
	s := t.sources[source]
	if s == nil {
		s = &trouble{refused: make(map[driver.Key]int)}
		if t.sources == nil {
			t.sources = make(map[string]*trouble)
		}
		t.sources[source] = s
	}
	if len(events) == 1 {
		before, known := s.refused[events[0].Key]
		if known && s.marked > before {
			return 0, true
		}
		if len(s.refused) == maxRefused {
			clear(s.refused)
		}
		s.refused[events[0].Key] = s.marked
	}
	now := time.Now()
	s.latest = now
	if !now.Before(s.until) { // runs that were refused together count once
		s.rest = min(max(firstSourceRest, 2*s.rest), longestSourceRest)
		s.until = now.Add(s.rest)
	}
	return s.rest, false
}

// recorded says that the outcome of events was recorded.
func (t *troubles) recorded(events []driver.TakenEvent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sources[events[0].Source]
	if s == nil {
		return
	}
	s.marked++
	s.rest, s.until = 0, time.Time{}
	for i := range events {
		delete(s.refused, events[i].Key)
	}
	if len(s.refused) == 0 && time.Since(s.latest) > alonePeriod {
		delete(t.sources, events[0].Source)
	}
}

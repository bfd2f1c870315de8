package relay

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	firstRefusalRest   = 10 * time.Second
	longestRefusalRest = 10 * time.Minute
	maxRefusals        = 1000 // messages that are remembered for a destination
)

// refusals remembers messages whose rows the database refuses to change, so that the relay neither sends them again at
// once nor stops at them. The zero value is ready to use, also concurrently.
type refusals struct {
	mu       sync.Mutex
	messages map[string]refusal // by id
}

type refusal struct {
	times int // in a row
	until time.Time
}

// add lets a message rest, longer each time, and returns for how long. If too many rest, it forgets the one that is due first.
func (r *refusals) add(id string, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	for other, m := range r.messages {
		if now.After(m.until.Add(longestRefusalRest)) {
			delete(r.messages, other)
		}
	}
	m, known := r.messages[id]
	switch {
	case known:
	case len(r.messages) == maxRefusals:
		first := slices.MinFunc(slices.Collect(maps.Keys(r.messages)), func(a, b string) int { return r.messages[a].until.Compare(r.messages[b].until) })
		delete(r.messages, first)
	case r.messages == nil:
		r.messages = make(map[string]refusal)
	}
	rest := min(firstRefusalRest<<min(m.times, 10), longestRefusalRest)
	r.messages[id] = refusal{m.times + 1, now.Add(rest)}
	return rest
}

// resting returns the ids of the messages that rest.
func (r *refusals) resting(now time.Time) (ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, m := range r.messages {
		if now.Before(m.until) {
			ids = append(ids, id)
		}
	}
	return ids
}

// stepOver lets refused messages rest.
func (r *relay) stepOver(messages []driver.RefusedMessage) {
	for _, m := range messages {
		r.refused(m.ID, m.Err)
	}
}

// refused lets a message rest after the database refused to change its row.
func (r *relay) refused(id string, err error) {
	rest := r.refusals.add(id, time.Now())
	r.log.Error("the database refuses to change the row of a message; look for a trigger or a damaged row: hookonce doctor",
		slog.String("message_id", id), slog.String("again_in", rest.String()), slog.Any("error", err))
}

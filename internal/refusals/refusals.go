// Package refusals remembers rows that the database refuses to change, such as a trigger of its owner does.
package refusals

import (
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	firstRest   = 10 * time.Second
	longestRest = 10 * time.Minute
	most        = 1000 // rows that are remembered
)

// Rows remembers refused rows, so that a process neither tries them again at once nor stops at them. The zero value is ready to use,
// also concurrently.
type Rows[K comparable] struct {
	mu   sync.Mutex
	rows map[K]refusal
}

type refusal struct {
	times int // in a row
	until time.Time
}

// Add lets a row rest, longer each time, and returns for how long. If too many rest, it forgets the one that is due first.
func (r *Rows[K]) Add(row K, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	for other, m := range r.rows {
		if now.After(m.until.Add(longestRest)) {
			delete(r.rows, other)
		}
	}
	m, known := r.rows[row]
	switch {
	case known:
	case len(r.rows) == most:
		first := slices.MinFunc(slices.Collect(maps.Keys(r.rows)), func(a, b K) int { return r.rows[a].until.Compare(r.rows[b].until) })
		delete(r.rows, first)
	case r.rows == nil:
		r.rows = make(map[K]refusal)
	}
	rest := min(firstRest<<min(m.times, 10), longestRest)
	r.rows[row] = refusal{m.times + 1, now.Add(rest)}
	return rest
}

// Resting returns the rows that rest.
func (r *Rows[K]) Resting(now time.Time) (rows []K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for row, m := range r.rows {
		if now.Before(m.until) {
			rows = append(rows, row)
		}
	}
	return rows
}

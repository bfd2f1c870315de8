package hookadmin

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// countsAge is how old counts may be. Pages that many people keep open share one count.
const countsAge = 3 * time.Second

// counts keeps the last counts of open and failed work.
type counts struct {
	store driver.Store
	turn  chan struct{} // a mutex whose waiting a context can end
	stats *driver.Stats // nil: none
	at    time.Time
}

func newCounts(store driver.Store) *counts {
	return &counts{store: store, turn: make(chan struct{}, 1)}
}

// read returns counts that are at most countsAge old. The caller must not change them.
func (c *counts) read(ctx context.Context) (*driver.Stats, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for another count: %w", context.Cause(ctx))
	}
	if c.stats != nil && time.Since(c.at) < countsAge {
		return c.stats, nil
	}
	c.stats = nil
	stats, err := c.store.Stats(ctx)
	if err != nil {
		return nil, err
	}
	c.stats, c.at = stats, time.Now()
	return stats, nil
}

// forget makes the next read count again: this program changed something.
func (c *counts) forget(ctx context.Context) {
	select {
	case c.turn <- struct{}{}:
		c.stats = nil
		<-c.turn
	case <-ctx.Done(): // the counts are old soon anyway
	}
}

func (h *handler) stats(r *http.Request) (*driver.Stats, error) {
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	stats, err := h.counts.read(ctx)
	if err != nil {
		return nil, fmt.Errorf("counting: %w", err)
	}
	return stats, nil
}

// number is a count and its key in JSON.
type number struct {
	key string
	n   int64
}

// atLimit returns the keys of the numbers that reached driver.CountLimit, and so stand for that many or
// more.
func atLimit(numbers ...number) []string {
	keys := []string{}
	for _, of := range numbers {
		if of.n >= driver.CountLimit {
			keys = append(keys, of.key)
		}
	}
	return keys
}

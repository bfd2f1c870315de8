package hookadmin

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	// countsAge is how old counts may be. Pages that many people keep open share one count.
	countsAge = 3 * time.Second
	// countsPatience is how long the overview waits for counts: a database that has just started reads
	// their rows from the disk. Then it shows counts of at most countsLate before, or none.
	countsPatience = 150 * time.Millisecond
	countsLate     = time.Minute
)

// counts keeps the last counts of open and failed work.
type counts struct {
	store driver.Store

	mu      sync.Mutex
	last    *driver.Stats // nil: none
	at      time.Time     // of last
	running *count        // nil: none
}

// count is a run of Stats, for all callers that wait for it.
type count struct {
	done  chan struct{} // closed when the rest is set
	stats *driver.Stats
	err   error
}

func newCounts(store driver.Store) *counts { return &counts{store: store} }

// read returns counts that are at most countsAge old. The caller must not change them.
func (c *counts) read(ctx context.Context) (*driver.Stats, error) {
	stats, running := c.begin()
	if stats != nil {
		return stats, nil
	}
	select {
	case <-running.done:
		return running.stats, running.err
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for a count: %w", context.Cause(ctx))
	}
}

// soon returns counts as read does. If that takes long, it returns older ones, or nil if there are none yet.
func (c *counts) soon(ctx context.Context) (*driver.Stats, error) {
	patience, cancel := context.WithTimeout(ctx, countsPatience)
	defer cancel()
	stats, err := c.read(patience)
	if err == nil || patience.Err() == nil || ctx.Err() != nil {
		return stats, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.at) > countsLate {
		return nil, nil
	}
	return c.last, nil
}

// begin returns fresh counts, or a run that makes some.
func (c *counts) begin() (*driver.Stats, *count) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last != nil && time.Since(c.at) < countsAge {
		return c.last, nil
	}
	if c.running == nil {
		c.running = &count{done: make(chan struct{})}
		go c.run(c.running)
	}
	return nil, c.running
}

// run counts, also for callers that come while it does, so it does not end with the first of them.
func (c *counts) run(of *count) {
	ctx, cancel := context.WithTimeout(context.Background(), queryTimeout)
	defer cancel()
	of.stats, of.err = c.store.Stats(ctx)
	close(of.done)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running != of {
		return // something changed meanwhile
	}
	c.running = nil
	if of.err == nil {
		c.last, c.at = of.stats, time.Now()
	}
}

// forget makes the next read count again: this program changed something.
func (c *counts) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last, c.running = nil, nil
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

package claims

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/hookonce/hookonce/driver"
)

// maxCounted bounds the events with counts that wait to be written.
const maxCounted = 65_536

// counts sums up repeated deliveries per event and writes the sums in groups: a storm of duplicates
// must not become a storm of writes. A crash loses the unwritten counts, about one second of them,
// and never an event.
type counts struct {
	store   Store
	log     *slog.Logger
	counted func(e driver.CountedEvent, n int) // see Options.Counted; may be nil

	mu      sync.Mutex
	pending map[driver.Key]*driver.DeliveryCount
	dropped int
}

func newCounts(store Store, log *slog.Logger, counted func(driver.CountedEvent, int)) *counts {
	return &counts{store: store, log: log, counted: counted, pending: make(map[driver.Key]*driver.DeliveryCount)}
}

func (c *counts) add(claim *driver.Claim, result *Result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	repeat := result.RepeatOf != ""
	if repeat {
		if n := c.of(result.RepeatOfKey); n != nil {
			n.Repeats++
		}
	}
	if !result.Duplicate || repeat && claim.BodyGuard == driver.BodyRefuse {
		return // a refused repeat has no event of its own to count on
	}
	if n := c.of(claim.Key); n != nil {
		n.Duplicates++
		if result.OtherBody {
			n.OtherBodies++
		}
	}
}

// of returns the count of key, or nil if too many wait already.
func (c *counts) of(key driver.Key) *driver.DeliveryCount {
	n := c.pending[key]
	if n == nil {
		if len(c.pending) >= maxCounted {
			c.dropped++
			return nil
		}
		n = &driver.DeliveryCount{Key: key}
		c.pending[key] = n
	}
	return n
}

// flush writes the counts. It keeps counts that certainly were not written for the next call, and
// drops those with an unknown outcome rather than count them twice.
func (c *counts) flush(ctx context.Context) error {
	c.mu.Lock()
	pending, dropped := c.pending, c.dropped
	c.pending, c.dropped = make(map[driver.Key]*driver.DeliveryCount), 0
	c.mu.Unlock()
	if dropped > 0 {
		c.log.Warn("delivery counts dropped: too many events were repeated at once", slog.Int("dropped", dropped))
	}
	sums := make([]driver.DeliveryCount, 0, len(pending))
	for _, n := range pending {
		sums = append(sums, *n)
	}
	slices.SortFunc(sums, func(a, b driver.DeliveryCount) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	for len(sums) > 0 {
		chunk := sums[:min(len(sums), MaxBatch)]
		p := &driver.CountDeliveriesParams{Counts: chunk}
		if c.counted != nil {
			p.Counted = func(e driver.CountedEvent) { c.counted(e, pending[e.Key].Duplicates) }
		}
		err := c.store.CountDeliveries(ctx, p)
		if errors.Is(err, driver.ErrCommitUnknown) {
			sums = sums[len(chunk):]
		}
		if err != nil {
			c.restore(sums)
			return err
		}
		sums = sums[len(chunk):]
	}
	if len(pending) > 0 {
		c.log.Debug("delivery counts written", slog.Int("events", len(pending)))
	}
	return nil
}

// restore adds unwritten sums to the deliveries counted meanwhile.
func (c *counts) restore(sums []driver.DeliveryCount) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, old := range sums {
		if n := c.of(old.Key); n != nil {
			n.Duplicates += old.Duplicates
			n.OtherBodies += old.OtherBodies
			n.Repeats += old.Repeats
		}
	}
}

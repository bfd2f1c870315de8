package hookonce

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/hookonce/hookonce/driver"
)

// maxCounted bounds the events whose counts wait to be written.
const maxCounted = 65_536

// deliveryCounts gathers how often events were delivered again, and writes the
// sums in groups: a storm of duplicates must not become a storm of writes. A
// crash loses what was not written, which is at most about a second of counts
// and never an event.
type deliveryCounts struct {
	store driver.Store
	log   *slog.Logger

	mu      sync.Mutex
	pending map[driver.Key]*driver.DeliveryCount
	dropped int
}

func newDeliveryCounts(store driver.Store, log *slog.Logger) *deliveryCounts {
	return &deliveryCounts{store: store, log: log, pending: make(map[driver.Key]*driver.DeliveryCount)}
}

func (c *deliveryCounts) add(claim *driver.Claim, result *claimResult) {
	c.mu.Lock()
	defer c.mu.Unlock()
	repeat := result.RepeatOf != ""
	if repeat {
		if n := c.of(result.RepeatOfKey); n != nil {
			n.Repeats++
		}
	}
	if result.Claimed || repeat && claim.BodyGuard == driver.BodyRefuse {
		return // a refused repeat has no event of its own to count on
	}
	if n := c.of(claim.Key); n != nil {
		n.Duplicates++
		if result.OtherBody {
			n.OtherBodies++
		}
	}
}

// of returns the count of key, or nil where too many wait already.
func (c *deliveryCounts) of(key driver.Key) *driver.DeliveryCount {
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

// flush writes what was counted. Counts that certainly were not written are
// kept for the next time; those whose outcome is unknown are let go rather
// than counted twice.
func (c *deliveryCounts) flush(ctx context.Context) error {
	c.mu.Lock()
	pending, dropped := c.pending, c.dropped
	c.pending, c.dropped = make(map[driver.Key]*driver.DeliveryCount), 0
	c.mu.Unlock()
	if dropped > 0 {
		c.log.Warn("delivery counts dropped: too many events were delivered again at once", slog.Int("dropped", dropped))
	}
	counts := make([]driver.DeliveryCount, 0, len(pending))
	for _, n := range pending {
		counts = append(counts, *n)
	}
	slices.SortFunc(counts, func(a, b driver.DeliveryCount) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	for len(counts) > 0 {
		chunk := counts[:min(len(counts), maxBatchClaims)]
		err := c.store.CountDeliveries(ctx, &driver.CountDeliveriesParams{Counts: chunk})
		if errors.Is(err, driver.ErrCommitUnknown) {
			counts = counts[len(chunk):]
		}
		if err != nil {
			c.restore(counts)
			return err
		}
		counts = counts[len(chunk):]
	}
	if len(pending) > 0 {
		c.log.Debug("delivery counts written", slog.Int("events", len(pending)))
	}
	return nil
}

// restore adds counts that were not written to what was counted meanwhile.
func (c *deliveryCounts) restore(counts []driver.DeliveryCount) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, old := range counts {
		if n := c.of(old.Key); n != nil {
			n.Duplicates += old.Duplicates
			n.OtherBodies += old.OtherBodies
			n.Repeats += old.Repeats
		}
	}
}

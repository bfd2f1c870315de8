package claims

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// Bounds of the counts that wait to be written. Beyond them a delivery is still counted, without its
// address or its body; only maxCounted loses counts.
const (
	maxCounted = 65_536  // events
	maxNoted   = 65_536  // deliveries of all events together, about 6 MiB
	maxOther   = 4 << 20 // bytes of other bodies and their headers
)

// counts sums up repeated deliveries per event and writes the sums in groups: a storm of duplicates
// must not become a storm of writes. A crash loses the unwritten counts, about one second of them,
// and never an event.
type counts struct {
	store   Store
	log     *slog.Logger
	counted func(e driver.CountedEvent, n int) // see Options.Counted; may be nil

	writing chan struct{} // holds a token while a flush writes

	mu      sync.Mutex
	pending map[driver.Key]*driver.DeliveryCount
	noted   int // deliveries in pending
	other   int // bytes of other bodies in pending
	dropped int
}

func newCounts(store Store, log *slog.Logger, counted func(driver.CountedEvent, int)) *counts {
	return &counts{
		store: store, log: log, counted: counted, writing: make(chan struct{}, 1), pending: make(map[driver.Key]*driver.DeliveryCount),
	}
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
		c.note(n, driver.Delivery{At: time.Now(), Remote: claim.Remote, Gateway: claim.Gateway, SameBody: !result.OtherBody})
		if result.OtherBody {
			n.OtherBodies++
			c.keepOther(n, claim)
		}
	}
}

// note adds a delivery to n. Beyond a bound it takes the place of the oldest one of its event.
func (c *counts) note(n *driver.DeliveryCount, d driver.Delivery) {
	switch {
	case len(n.Recent) < driver.MaxRecent && c.noted < maxNoted:
		n.Recent = append(n.Recent, d)
		c.noted++
	case len(n.Recent) > 0:
		copy(n.Recent, n.Recent[1:])
		n.Recent[len(n.Recent)-1] = d
	}
}

// keepOther keeps the first other body of n. It copies the beginning, so that a large request does
// not stay in memory.
func (c *counts) keepOther(n *driver.DeliveryCount, claim *driver.Claim) {
	if n.Other != nil {
		return
	}
	o := &driver.OtherBody{At: time.Now(), Headers: claim.Headers, Size: int64(len(claim.Body)), SHA256: claim.BodyHash}
	if len(o.Headers) > driver.MaxOtherHeaders {
		o.Headers = []byte("{}")
	}
	o.Body = claim.Body[:min(len(claim.Body), driver.MaxOtherBody)]
	if size := otherSize(o); c.other+size <= maxOther {
		o.Body = bytes.Clone(o.Body)
		n.Other = o
		c.other += size
	}
}

func otherSize(o *driver.OtherBody) int { return len(o.Headers) + len(o.Body) }

// idle reports whether all counts are written.
func (c *counts) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pending) == 0 && len(c.writing) == 0
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
// drops those with an unknown outcome rather than count them twice. A concurrent call waits.
func (c *counts) flush(ctx context.Context) error {
	select {
	case c.writing <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-c.writing }()
	c.mu.Lock()
	pending, dropped := c.pending, c.dropped
	c.pending, c.noted, c.other, c.dropped = make(map[driver.Key]*driver.DeliveryCount), 0, 0, 0
	c.mu.Unlock()
	if dropped > 0 {
		c.log.Warn("delivery counts dropped: too many events were repeated at once", slog.Int("dropped", dropped))
	}
	sums := make([]driver.DeliveryCount, 0, len(pending))
	for _, n := range pending {
		sums = append(sums, *n)
	}
	slices.SortFunc(sums, func(a, b driver.DeliveryCount) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	for size := MaxBatch; len(sums) > 0; {
		chunk := sums[:min(len(sums), size)]
		p := &driver.CountDeliveriesParams{Counts: chunk, Clock: time.Now()}
		if c.counted != nil {
			p.Counted = func(e driver.CountedEvent) { c.counted(e, pending[e.Key].Duplicates) }
		}
		err := c.store.CountDeliveries(ctx, p)
		switch isRow := errors.Is(err, driver.ErrBadRow); {
		case isRow && len(chunk) > 1: // one row must not keep the others from being counted
			size = len(chunk) / 2
			continue
		case isRow:
			c.log.Error("the database refuses the counts of an event, which are lost; look for a trigger: hookonce doctor",
				slog.String("key", fmt.Sprintf("%x", chunk[0].Key)), slog.Any("error", err))
		case errors.Is(err, driver.ErrCommitUnknown):
			c.restore(sums[len(chunk):])
			return err
		case err != nil:
			c.restore(sums)
			return err
		}
		size, sums = MaxBatch, sums[len(chunk):]
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
		n := c.of(old.Key)
		if n == nil {
			continue
		}
		n.Duplicates += old.Duplicates
		n.OtherBodies += old.OtherBodies
		n.Repeats += old.Repeats
		newer := n.Recent
		c.noted -= len(newer)
		n.Recent = nil
		for _, d := range slices.Concat(old.Recent, newer) {
			c.note(n, d)
		}
		if old.Other == nil {
			continue
		}
		if n.Other != nil {
			c.other -= otherSize(n.Other)
		}
		n.Other = old.Other
		c.other += otherSize(old.Other)
	}
}

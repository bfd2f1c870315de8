package feed

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	// writeEvery is the pace of a watched process; a row is written at most that late.
	writeEvery = 500 * time.Millisecond
	// askEvery is how often a process asks whether somebody looks: at every second tick.
	askEvery = 2*writeEvery - writeEvery/2
	// maxGroup is how many rows are written at once: 500 a second.
	maxGroup = 250
	// maxRoutine is how many of them may tell of success. The others are left for trouble.
	maxRoutine = 200
	// callTimeout bounds one call of the store.
	callTimeout = 5 * time.Second
)

// Writer is the part of driver.Store that takes rows.
type Writer interface {
	FeedWatched(ctx context.Context) (time.Duration, error)
	CollectFeed(ctx context.Context) ([]driver.FeedRow, error)
	AddFeed(ctx context.Context, p *driver.AddFeedParams) (time.Duration, error)
}

// Collector holds the rows of a process until Run writes them. Without a viewer it holds those since Run
// asked last: a viewer that comes sees what happened since. Without Run it holds none. Its methods may be
// called concurrently.
type Collector struct {
	store   Writer
	log     *slog.Logger
	gateway string
	watched atomic.Bool
	running atomic.Bool
	full    atomic.Bool // of rows for which no viewer is known
	missed  atomic.Int64

	mu      sync.Mutex
	rows    []Row
	routine int           // how many of them tell of success
	equal   map[equal]int // the rows that others may be equal to, by their place in rows
	dropped int

	until time.Time // the watch ends

	// Of the goroutine of Run.
	asked  time.Time
	failed bool
}

// equal is the part of a delivery that makes it equal to another one.
type equal struct {
	kind                                                driver.FeedKind
	source, eventID, eventType, outcome, reason, remote string
	status                                              int
}

// NewCollector returns a Collector without rows. gateway is the name of this host.
func NewCollector(store Writer, log *slog.Logger, gateway string) *Collector {
	return &Collector{store: store, log: log, gateway: gateway}
}

// Holds reports whether Add keeps rows. A caller that asks first saves making a row.
func (c *Collector) Holds() bool { return c.watched.Load() || c.running.Load() && !c.full.Load() }

// Miss counts a row that was not made, because Holds says no, if a new viewer must know of it.
func (c *Collector) Miss() {
	if c.full.Load() {
		c.missed.Add(1)
	}
}

// Add keeps r until it is written, or Run knows that no one looks. Equal deliveries become one row with a count.
// Rows beyond the bounds are counted, and the last row of the group says how many they were. Add does
// not wait for the store.
func (c *Collector) Add(r Row) {
	if !c.Holds() {
		c.Miss()
		return
	}
	r.Gateway = c.gateway
	c.add(r)
}

func (c *Collector) add(r Row) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.Holds() { // any more
		return
	}
	key, repeats := r.repeats()
	if repeats {
		if i, found := c.equal[key]; found {
			c.rows[i].Count = max(c.rows[i].Count, 1) + 1
			return
		}
	}
	if len(c.rows) >= maxGroup || r.isRoutine() && c.routine >= maxRoutine {
		c.dropped++
		c.full.Store(!c.watched.Load()) // a busy process without a viewer makes no more of them until Run asks
		return
	}
	if r.isRoutine() {
		c.routine++
	}
	if repeats {
		if c.equal == nil {
			c.equal = make(map[equal]int)
		}
		c.equal[key] = len(c.rows)
	}
	c.rows = append(c.rows, r)
}

// repeats reports whether other rows may be equal to r: a flood of duplicates or refusals becomes a
// few rows.
func (r *Row) repeats() (equal, bool) {
	if r.Kind != driver.FeedDelivery && r.Kind != driver.FeedRefused || r.EventID != "" && r.Outcome != "duplicate" {
		return equal{}, false
	}
	return equal{r.Kind, r.Source, r.EventID, r.Type, r.Outcome, r.Reason, r.Remote, r.Status}, true
}

func (r *Row) isRoutine() bool {
	switch r.Outcome {
	case "ok", "duplicate", "handshake", "sent", "done":
		return true
	}
	return false
}

// Run asks whether somebody looks, and writes rows, until ctx ends. Then it writes the last rows.
func (c *Collector) Run(ctx context.Context) {
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	c.running.Store(true)
	c.step(ctx)
	for {
		select {
		case <-tick.C:
			c.step(ctx)
		case <-ctx.Done():
			c.running.Store(false)
			c.step(context.WithoutCancel(ctx))
			c.watch(0)
			return
		}
	}
}

// step writes the rows, or asks whether somebody looks. A call that fails because running ends is no fault of the
// database: the last step tries again.
func (c *Collector) step(running context.Context) {
	now := time.Now()
	ctx, cancel := context.WithTimeout(running, callTimeout)
	defer cancel()
	collectErr := c.collect(ctx)
	if now.Sub(c.asked) < askEvery && collectErr == nil && !c.due() {
		return
	}
	known := c.watched.Load()
	rows, routine := c.take()
	left, err := c.write(ctx, rows, known, now)
	if err != nil && !known {
		c.watch(0)
	} else if err != nil {
		c.restore(rows, routine, errors.Is(err, driver.ErrCommitUnknown) || errors.Is(err, driver.ErrBadRow))
		c.mu.Lock()
		left := c.until.Sub(now)
		c.mu.Unlock()
		c.watch(left)
	} else {
		c.asked = now
		c.watch(left)
	}
	err = cmp.Or(err, collectErr)
	if failed := err != nil; failed != c.failed && (!failed || running.Err() == nil) {
		c.failed = failed
		if failed {
			c.log.Warn("the live feed stands still: the database failed; retrying", slog.Any("error", err))
		} else {
			c.log.Info("the live feed goes on")
		}
	}
}

// collect adds the rows of SQL consumers, if somebody looks. They name no gateway: none did the work.
func (c *Collector) collect(ctx context.Context) error {
	if !c.watched.Load() {
		return nil
	}
	rows, err := c.store.CollectFeed(ctx)
	for i := range rows {
		c.add(restore(&rows[i]))
	}
	return err
}

// due reports whether rows wait for a viewer who is known.
func (c *Collector) due() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.watched.Load() && len(c.rows) > 0
}

// write writes rows; without rows it only asks. It returns for how long somebody looks. If that was not known,
// it leaves out rows from before the viewer came.
func (c *Collector) write(ctx context.Context, rows []Row, known bool, now time.Time) (time.Duration, error) {
	if len(rows) == 0 || !known {
		left, err := c.store.FeedWatched(ctx)
		came := now.Add(left - watchFor)
		rows = slices.DeleteFunc(rows, func(r Row) bool { return r.At.Before(came) })
		if err != nil || left == 0 || len(rows) == 0 {
			return left, err
		}
	}
	p := &driver.AddFeedParams{Rows: make([]driver.FeedRow, len(rows))}
	for i := range rows {
		p.Rows[i] = rows[i].store()
	}
	return c.store.AddFeed(ctx, p)
}

// take returns the rows, and how many of them tell of success. The last one says how many were left
// out.
func (c *Collector) take() (rows []Row, routine int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	rows, routine = c.rows, c.routine
	c.rows, c.routine, c.equal = nil, 0, nil
	c.full.Store(false)
	c.dropped += int(c.missed.Swap(0))
	if n := len(rows); n > 0 {
		rows[n-1].Dropped += c.dropped
		c.dropped = 0
	}
	return rows, routine
}

// restore puts rows that were not written before those that came meanwhile, or drops them.
func (c *Collector) restore(rows []Row, routine int, drop bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if drop {
		for i := range rows {
			c.dropped += 1 + rows[i].Dropped
		}
		return
	}
	// Equal rows that come later are rows of their own.
	c.rows, c.routine, c.equal = append(rows, c.rows...), routine+c.routine, nil
}

// Begin tells of a viewer of this process, which began at that time and is known to the store. It has no
// effect without Run.
func (c *Collector) Begin(came time.Time) {
	if !c.running.Load() || c.watched.Load() {
		return
	}
	c.mu.Lock()
	c.rows, c.equal = slices.DeleteFunc(c.rows, func(r Row) bool { return r.At.Before(came) }), nil
	c.mu.Unlock()
	c.watch(watchFor)
}

// watch says that somebody looks for so long.
func (c *Collector) watch(left time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.until = time.Now().Add(left)
	if watched := left > 0; c.watched.Swap(watched) && !watched {
		c.rows, c.routine, c.equal, c.dropped = nil, 0, nil, 0
	}
}

package hookonce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/send"
)

// Inbox receives webhooks, keeps them, and sends on what they owe. It is an
// http.Handler for /webhooks/{source}; Run does the work behind it. All methods
// may be called concurrently.
type Inbox struct {
	cfg    Config // with defaults; of what Reload changes, setup has the current
	store  driver.Store
	log    *slog.Logger
	sender *send.Sender

	setup    atomic.Pointer[setup]
	reloadMu sync.Mutex
	running  *runningRelays // guarded by reloadMu; nil unless Run runs
	ran      bool           // guarded by reloadMu

	claims     *claimQueue
	counts     *deliveryCounts
	unverified *addressLimiter
	refusals   *refusalLog
	remarkable *bucket // lines about claims

	bodyBytes atomic.Int64 // held by all bodies from their first byte to their answer
	draining  atomic.Bool
	skew      atomic.Int64 // this machine's clock minus the database's, ns
}

// New checks cfg and returns an Inbox on store. All faults of cfg are reported
// at once. Nothing runs until Run is called, but deliveries are claimed already.
func New(store driver.Store, cfg *Config) (*Inbox, error) {
	if store == nil {
		return nil, errors.New("hookonce: New needs a store")
	}
	in := &Inbox{store: store}
	if cfg != nil {
		in.cfg = *cfg
	}
	in.cfg.setDefaults()
	in.log = in.cfg.Logger
	in.sender = send.New(nil)
	first, err := in.newSetup(&in.cfg, nil)
	if err := errors.Join(in.cfg.check(), err); err != nil {
		return nil, fmt.Errorf("hookonce: %w", err)
	}
	in.setup.Store(first)
	in.counts = newDeliveryCounts(store, in.log)
	in.unverified = newAddressLimiter(in.cfg.UnverifiedRate)
	in.refusals = newRefusalLog(in.log)
	in.remarkable = newBucket(refusalRate)
	in.claims = &claimQueue{
		store:    store,
		log:      in.log,
		counts:   in.counts,
		claimed:  in.wakeRelays,
		reopened: in.wakeAllRelays,
		maxUnits: in.cfg.Queue,
		flushers: store.ClaimConcurrency(),
		claiming: make(map[driver.Key]bool),
	}
	return in, nil
}

func (c *Config) setDefaults() {
	setDefault(&c.DedupeWindow, DefaultDedupeWindow)
	setDefault(&c.Retention, DefaultRetention)
	setDefault(&c.UnverifiedRate, DefaultUnverifiedRate)
	setDefault(&c.Queue, DefaultQueue)
	setDefault(&c.BodyBytes, DefaultBodyBytes)
	setDefault(&c.QuarantineRows, DefaultQuarantineRows)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// check checks what setup does not.
func (c *Config) check() error {
	var faults []error
	if c.DedupeWindow < 0 || c.Retention < 0 || c.Queue < 0 || c.BodyBytes < 0 || c.QuarantineRows < 0 {
		faults = append(faults, errors.New("dedupe window, retention, queue, body bytes and quarantine rows must not be negative"))
	}
	if err := c.UnverifiedRate.check(); err != nil {
		faults = append(faults, fmt.Errorf("unverified %w", err))
	}
	return errors.Join(faults...)
}

// Reload puts the sources, destinations and routes of cfg in the place of the
// present ones; the rest of cfg is not looked at. If there is any fault in
// them, Reload returns all faults and changes nothing. Deliveries that are being
// received end under the settings they began with. Destinations that stay the
// same go on undisturbed; one that was changed or removed finishes what it is
// sending, and the messages of one that was removed wait until it is back.
func (in *Inbox) Reload(cfg *Config) error {
	in.reloadMu.Lock()
	defer in.reloadMu.Unlock()
	before := in.setup.Load()
	after, err := in.newSetup(cfg, before)
	if err != nil {
		return fmt.Errorf("hookonce: %w", err)
	}
	in.setup.Store(after)
	if in.running != nil {
		in.running.change(before.relays, after.relays)
	}
	return nil
}

func (in *Inbox) wakeRelays(messages []driver.NewMessage) {
	relays := in.setup.Load().relays
	for _, m := range messages {
		if r := relays[m.Destination]; r != nil {
			r.wake()
		}
	}
}

func (in *Inbox) wakeAllRelays() {
	for _, r := range in.setup.Load().relays {
		r.wake()
	}
}

// Run sends messages and does the upkeep until ctx ends; then it stops taking
// work, finishes what it is sending or gives it back, writes what it has
// counted, and returns nil. It does not stop deliveries: call Drain first.
// It can be called once; a second call is an error.
func (in *Inbox) Run(ctx context.Context) error {
	in.reloadMu.Lock()
	if in.ran {
		in.reloadMu.Unlock()
		return errors.New("hookonce: Run was called before: make a new Inbox")
	}
	in.ran = true
	relays := newRunningRelays(ctx)
	relays.change(nil, in.setup.Load().relays)
	in.running = relays
	in.reloadMu.Unlock()

	var wg sync.WaitGroup
	wg.Go(func() { in.maintain(ctx) })
	wg.Go(func() { in.pruneAgain(ctx) })
	wg.Wait()

	in.reloadMu.Lock()
	in.running = nil // no relay is started from now on
	in.reloadMu.Unlock()
	relays.wait()
	in.sender.CloseIdle()
	return nil
}

// Drain makes the Inbox answer new deliveries with 503, and returns when those
// that were queued are answered.
func (in *Inbox) Drain() {
	in.draining.Store(true)
	in.claims.close()
}

// ErrDraining is what Ready returns once Drain was called.
var ErrDraining = errors.New("hookonce: draining")

// Ready returns nil when deliveries can be claimed: the database answers and
// is no further from this machine's clock than the smallest tolerance allows,
// and Drain was not called.
func (in *Inbox) Ready(ctx context.Context) error {
	if in.draining.Load() {
		return ErrDraining
	}
	skew, limit, err := in.Clock(ctx)
	if err == nil && limit > 0 && skew.Abs() > limit {
		err = fmt.Errorf("hookonce: this machine's clock is %s from the database's: set both by NTP", skew.Round(time.Millisecond))
	}
	return err
}

// readClock compares this machine's clock with the database's.
func (in *Inbox) readClock(ctx context.Context) error {
	before := time.Now()
	db, err := in.store.Now(ctx)
	if err != nil {
		return err
	}
	after := time.Now()
	in.skew.Store(int64(before.Add(after.Sub(before) / 2).Sub(db)))
	return nil
}

// clockIsOff reports whether this machine's clock is so far from the
// database's that a timestamp within tolerance may look stale.
func (in *Inbox) clockIsOff(tolerance time.Duration) bool {
	return tolerance > 0 && time.Duration(in.skew.Load()).Abs() > tolerance/2
}

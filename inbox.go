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
	cfg     Config // with defaults
	store   driver.Store
	log     *slog.Logger
	sources map[string]*source
	relays  map[string]*relay // by destination

	sender     *send.Sender
	claims     *claimQueue
	counts     *deliveryCounts
	unverified *addressLimiter
	refusals   *refusalLog

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
	in := &Inbox{store: store, sources: make(map[string]*source), relays: make(map[string]*relay)}
	if cfg != nil {
		in.cfg = *cfg
	}
	in.cfg.setDefaults()
	in.log = in.cfg.Logger
	in.sender = send.New(nil)
	if err := in.configure(); err != nil {
		return nil, fmt.Errorf("hookonce: %w", err)
	}
	in.counts = newDeliveryCounts(store, in.log)
	in.unverified = newAddressLimiter(in.cfg.UnverifiedRate)
	in.refusals = newRefusalLog(in.log)
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

// configure makes sources, destinations and routes ready.
func (in *Inbox) configure() error {
	var faults []error
	if in.cfg.DedupeWindow < 0 || in.cfg.Retention < 0 || in.cfg.Queue < 0 || in.cfg.BodyBytes < 0 || in.cfg.QuarantineRows < 0 {
		faults = append(faults, errors.New("dedupe window, retention, queue, body bytes and quarantine rows must not be negative"))
	}
	if err := in.cfg.UnverifiedRate.check(); err != nil {
		faults = append(faults, fmt.Errorf("unverified %w", err))
	}
	for _, s := range in.cfg.Sources {
		if in.sources[s.Name] != nil {
			faults = append(faults, fmt.Errorf("source %q: there are two of that name", s.Name))
			continue
		}
		src, err := newSource(s)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		in.sources[s.Name] = src
	}
	destinations := make(map[string]*destination)
	for _, d := range in.cfg.Destinations {
		dest, err := newDestination(d)
		switch {
		case err != nil:
			faults = append(faults, err)
		case destinations[d.Name] != nil:
			faults = append(faults, fmt.Errorf("destination %q: there are two of that name", d.Name))
		default:
			destinations[d.Name] = dest
			in.relays[d.Name] = newRelay(in.store, in.log, dest, in.sender)
		}
	}
	return errors.Join(append(faults, in.configureRoutes(destinations)...)...)
}

func (in *Inbox) configureRoutes(destinations map[string]*destination) []error {
	var faults []error
	seen := make(map[string]bool)
	for _, r := range in.cfg.Routes {
		if seen[r.Name] {
			faults = append(faults, fmt.Errorf("route %q: there are two of that name", r.Name))
			continue
		}
		seen[r.Name] = true
		ready, err := newRoute(r, in.sources, destinations)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		for name, src := range in.sources {
			if ready.takesFrom(name) {
				src.routes = append(src.routes, ready)
			}
		}
	}
	return faults
}

func (in *Inbox) wakeRelays(messages []driver.NewMessage) {
	for _, m := range messages {
		if r := in.relays[m.Destination]; r != nil {
			r.wake()
		}
	}
}

func (in *Inbox) wakeAllRelays() {
	for _, r := range in.relays {
		r.wake()
	}
}

// Run sends messages and does the upkeep until ctx ends; then it stops taking
// work, finishes what it is sending or gives it back, writes what it has
// counted, and returns nil. It does not stop deliveries: call Drain first.
// It must be called once.
func (in *Inbox) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, r := range in.relays {
		wg.Go(func() { r.run(ctx) })
	}
	wg.Go(func() { in.maintain(ctx) })
	wg.Go(func() { in.pruneAgain(ctx) })
	wg.Wait()
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
	if err := in.readClock(ctx); err != nil {
		return fmt.Errorf("hookonce: the database does not answer: %w", err)
	}
	for _, src := range in.sources {
		if in.clockIsOff(src.tolerance) {
			return fmt.Errorf("hookonce: this machine's clock is %s from the database's: set both by NTP",
				time.Duration(in.skew.Load()).Round(time.Millisecond))
		}
	}
	return nil
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

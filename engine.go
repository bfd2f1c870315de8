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
	"github.com/hookonce/hookonce/internal/keyfetch"
	"github.com/hookonce/hookonce/internal/send"
)

// Engine is what of an Inbox does not depend on the type of its transactions: it
// receives webhooks, keeps them, and sends on what they owe. It is an http.Handler
// for /webhooks/{source}; Run does the work behind it. All methods may be called
// concurrently.
type Engine struct {
	cfg      Config // with defaults; of what Reload changes, setup has the current
	store    driver.Store
	handlers handlers // nil for a gateway
	log      *slog.Logger
	sender   *send.Sender
	fetcher  *keyfetch.Fetcher

	setup    atomic.Pointer[setup]
	reloadMu sync.Mutex
	running  *runningRelays // guarded by reloadMu; nil unless Run runs
	ran      bool           // guarded by reloadMu

	claims        *claimQueue
	counts        *deliveryCounts
	unverified    *addressLimiter
	fetches       *addressLimiter // of keys that were never seen
	learned       *learnedSecrets
	confirmations confirmations
	refusals      *refusalLog
	remarkable    *bucket // lines about claims
	observers     *observers
	objects       objectLines // of all relays

	bodyBytes atomic.Int64 // held by all bodies from their first byte to their answer
	draining  atomic.Bool
	skew      atomic.Int64 // this machine's clock minus the database's, ns
	fits      atomic.Bool  // the schema was seen to fit
}

// NewEngine returns an Engine without handlers, which is what a gateway is. All
// faults of cfg are reported at once. Nothing runs until Run is called, but
// deliveries are claimed already.
func NewEngine(store driver.Store, cfg *Config) (*Engine, error) {
	if store == nil {
		return nil, errNoStore
	}
	return newEngine(store, cfg, nil)
}

var errNoStore = errors.New("hookonce: New needs a store")

// handlers is what of an Inbox depends on the type of its transactions.
type handlers interface {
	// prepare is called once, when all settings are known.
	prepare(in *Engine) error
	// handles reports whether there is a handler.
	handles(source, eventType string) bool
	// sources are those that have handlers.
	sources() []string
	// wake says that there may be events of the source to work on.
	wake(source string)
	// run works until ctx ends, and then finishes what is under way.
	run(ctx context.Context)
	// inline claims one event and works on it, in one transaction.
	inline(ctx context.Context, src *source, claim *driver.Claim) inlineResult
	// drain waits for inline work that is under way.
	drain()
}

func (in *Engine) handles(source, eventType string) bool {
	return in.handlers != nil && in.handlers.handles(source, eventType)
}

func newEngine(store driver.Store, cfg *Config, h handlers) (*Engine, error) {
	in := &Engine{store: store, handlers: h}
	if cfg != nil {
		in.cfg = *cfg
	}
	in.cfg.setDefaults()
	in.log = in.cfg.Logger
	in.learned = newLearnedSecrets(store)
	in.sender = send.New(nil)
	in.fetcher = keyfetch.New(nil)
	in.observers = newObservers(in.cfg.Observer, in.log)
	first, err := in.newSetup(&in.cfg, nil)
	if h != nil {
		err = errors.Join(err, h.prepare(in))
	}
	if err := errors.Join(in.cfg.check(), err); err != nil {
		return nil, fmt.Errorf("hookonce: %w", err)
	}
	in.setup.Store(first)
	in.counts = newDeliveryCounts(store, in.log)
	in.unverified = newAddressLimiter(in.cfg.UnverifiedRate)
	in.fetches = newAddressLimiter(fetchRate)
	in.refusals = newRefusalLog(in.log)
	in.remarkable = newBucket(refusalRate)
	in.claims = &claimQueue{
		store:    store,
		log:      in.log,
		counts:   in.counts,
		claimed:  in.wakeClaimed,
		reopened: in.wakeEverybody,
		maxUnits: in.cfg.Queue,
		flushers: store.ClaimConcurrency(),
		claiming: make(map[driver.Key]bool),
		observed: in.observers,
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
func (in *Engine) Reload(cfg *Config) error {
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

// wakeClaimed wakes who works on what was claimed.
func (in *Engine) wakeClaimed(claims []*driver.Claim) {
	relays := in.setup.Load().relays
	for _, c := range claims {
		for i := range c.Messages {
			if r := relays[c.Messages[i].Destination]; r != nil {
				r.wake()
			}
		}
		if c.Work == driver.WorkQueued && in.handlers != nil {
			in.handlers.wake(c.Source)
		}
	}
}

// wakeEverybody is for what became due again.
func (in *Engine) wakeEverybody() {
	for _, r := range in.setup.Load().relays {
		r.wake()
	}
	if in.handlers != nil {
		for _, source := range in.handlers.sources() {
			in.handlers.wake(source)
		}
	}
}

// Run runs handlers, sends messages and does the upkeep until ctx ends; then it
// stops taking work, finishes what is under way or gives it back, writes what it
// has counted, and returns nil. It does not stop deliveries: call Drain first.
// It can be called once; a second call is an error.
func (in *Engine) Run(ctx context.Context) error {
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
	if in.handlers != nil {
		wg.Go(func() { in.handlers.run(ctx) })
	}
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
func (in *Engine) Drain() {
	in.draining.Store(true)
	in.claims.close()
	if in.handlers != nil {
		in.handlers.drain()
	}
}

// ErrDraining is what Ready returns once Drain was called.
var ErrDraining = errors.New("hookonce: draining")

// Ready returns nil when deliveries can be claimed: the database answers, has the
// schema of this program, and is no further from this machine's clock than the smallest tolerance allows,
// and Drain was not called.
func (in *Engine) Ready(ctx context.Context) error {
	if in.draining.Load() {
		return ErrDraining
	}
	if err := in.checkSchema(ctx); err != nil {
		return err
	}
	skew, limit, err := in.Clock(ctx)
	if err == nil && limit > 0 && skew.Abs() > limit {
		err = fmt.Errorf("hookonce: this machine's clock is %s from the database's: set both by NTP", skew.Round(time.Millisecond))
	}
	return err
}

// checkSchema reports a schema that is not this program's. One that fits is not
// looked at again.
func (in *Engine) checkSchema(ctx context.Context) error {
	if in.fits.Load() {
		return nil
	}
	applied, err := in.store.Applied(ctx)
	if err != nil {
		return err
	}
	if want := len(in.store.Migrations()); len(applied) != want {
		return fmt.Errorf("hookonce: %w: it has %d steps, and this program %d: call hookmigrate.Up, or run \"hookonce migrate up\"",
			driver.ErrSchema, len(applied), want)
	}
	in.fits.Store(true)
	return nil
}

// readClock compares this machine's clock with the database's.
func (in *Engine) readClock(ctx context.Context) error {
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
func (in *Engine) clockIsOff(tolerance time.Duration) bool {
	return tolerance > 0 && time.Duration(in.skew.Load()).Abs() > tolerance/2
}

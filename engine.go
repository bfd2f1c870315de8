package hookonce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/claims"
	"github.com/hookonce/hookonce/internal/deadnews"
	"github.com/hookonce/hookonce/internal/keyfetch"
	"github.com/hookonce/hookonce/internal/operate"
	"github.com/hookonce/hookonce/internal/relay"
	"github.com/hookonce/hookonce/internal/send"
	"github.com/hookonce/hookonce/internal/tell"
	"github.com/hookonce/hookonce/internal/wire"
	"github.com/hookonce/hookonce/internal/work"
	"github.com/hookonce/hookonce/provider"
)

// Engine is the part of an Inbox that does not depend on the transaction type: it receives
// webhooks, stores their events, and sends messages. It is an http.Handler for /webhooks/{source};
// Run does the work in the background. All methods may be called concurrently.
type Engine struct {
	cfg      Config // with defaults; its sources, destinations and routes are in setup
	store    driver.Store
	log      *slog.Logger
	worker   worker // nil for a gateway
	handlers handlerSet

	setup    atomic.Pointer[setup]
	reloadMu sync.Mutex
	ran      atomic.Bool
	draining atomic.Bool

	claims        *claims.Queue
	bodies        *wire.Memory // of all bodies, from their first byte to their answer
	clients       *clients
	fetcher       *keyfetch.Fetcher
	learned       *learnedSecrets
	confirmations confirmations
	lines         lineSweep

	relays   *relay.Group
	sender   *send.Sender
	operator *operate.Operator
	tell     *tell.Teller
	health   *health
	pruner   *pruner
}

// worker is the part of an Inbox that depends on the transaction type: a *work.Workers.
type worker interface {
	Handles(source, eventType string) bool
	Wake(source string)
	Run(ctx context.Context)
	Inline(ctx context.Context, src *work.Source, claim *driver.Claim) work.InlineResult
	Drain()
}

// Inbox is an Engine that runs handlers in transactions of type T.
type Inbox[T any] struct {
	*Engine
	db driver.Driver[T]
}

// New checks cfg and returns an Inbox on db, with the handlers of mux; a nil mux has none. The
// error reports all faults of cfg at once. Nothing runs until Run is called, but deliveries are
// claimed from the start.
func New[T any](db driver.Driver[T], mux *Mux[T], cfg *Config) (*Inbox[T], error) {
	if db == nil {
		return nil, errNoStore
	}
	handlers, set := mux.seal(), mux.set()
	limits := db.WorkLimits()
	own := cfg.withDefaults()
	own.setWorkDefaults(limits)
	in, err := newEngine(db, own, set, errors.Join(own.checkWork(limits, set.sources), checkHandlers(db, set.sources)))
	if err != nil {
		return nil, err
	}
	handlers.rules = func(source string) *provider.Extractor {
		if src := in.setup.Load().sources[source]; src != nil {
			return src.extractor
		}
		return nil
	}
	in.worker = work.New(db, handlers, work.Options{
		AllowUnsafe: own.AllowUnsafe,
		Workers:     own.Workers, Batch: own.Batch, HandlerTimeout: own.HandlerTimeout, Retry: driver.Retry(own.Retry), Log: in.log,
		Source:   func(name string) *work.Source { return in.setup.Load().workSource(name) },
		Wake:     in.relays.Wake,
		Reopened: in.wakeAll,
		Observe:  in.tell.Handled,
		Refused:  func(source string) { in.tell.RowRefused(source, "") },
		Lost:     in.tell.Lost,
		Trace:    in.tell.TracesHandlers(),
	})
	return &Inbox[T]{in, db}, nil
}

// checkHandlers asks the store whether it can run handlers. It waits for a busy or silent database
// for a short time only: the first run of a handler asks again.
func checkHandlers[T any](db driver.Driver[T], handled []string) error {
	if len(handled) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return db.CheckHandlers(ctx)
}

// NewEngine returns an Engine without handlers, as a gateway needs. The error reports all faults
// of cfg at once. Nothing runs until Run is called, but deliveries are claimed from the start.
func NewEngine(store driver.Store, cfg *Config) (*Engine, error) {
	if store == nil {
		return nil, errNoStore
	}
	return newEngine(store, cfg.withDefaults(), handlerSet{}, nil)
}

var errNoStore = errors.New("hookonce: New needs a store")

// newEngine returns an Engine for cfg, which has its defaults. faults are joined with the faults of cfg.
func newEngine(store driver.Store, cfg Config, handlers handlerSet, faults error) (*Engine, error) {
	in := &Engine{
		cfg: cfg, store: store, log: cfg.Logger, handlers: handlers,
		bodies:  wire.NewMemory(cfg.BodyBytes),
		clients: newClients(&cfg),
		fetcher: keyfetch.New(nil),
		learned: newLearnedSecrets(store),
	}
	in.confirmations = confirmations{log: cfg.Logger, fetch: func(ctx context.Context, url string) error { return in.fetcher.Confirm(ctx, url) }}
	host, _ := os.Hostname()
	host = tell.Text(host)
	in.tell = tell.New(store, &tell.Options{
		Log: cfg.Logger, Observer: cfg.Observer, Tracer: cfg.Tracer, Gateway: host,
		Client: in.clients.proxies.Client,
	})
	in.health = newHealth(store, cfg.Logger, cfg.AllowUnsafe, in.tell.Unavailable)
	in.sender = send.New(&send.Options{Barred: in.tell.Barred})
	in.pruner = &pruner{
		store: store, log: cfg.Logger, cfg: &in.cfg, setup: &in.setup, clock: &in.health.clock, tell: in.tell, reloaded: make(chan struct{}, 1),
	}
	found := cfg.check()
	first := newSetup(&cfg, nil, &cfg, &in.handlers, in.learned, found)
	if err := errors.Join(found.err(), faults); err != nil {
		return nil, fmt.Errorf("hookonce: %w", err)
	}
	found.log(in.log)
	in.setup.Store(first)
	relayed := relay.Options{
		HTTP: in.sender, Log: in.log, Observe: in.tell.Attempt, Trace: in.tell.TracesAttempts(),
		MayBeStale: func(m *driver.Message) bool { return in.setup.Load().mayBeStale(m) },
		ObjectOf:   func(m *driver.Message) (driver.ObjectVersion, bool) { return in.setup.Load().objectOf(m, in.log) },
		OrderOf:    func(m *driver.Message) *driver.Order { return in.setup.Load().orderOf(m, in.log) },
		Ordered:    in.mayHaveLines,
		Refused:    func(destination string) { in.tell.RowRefused("", destination) },
	}
	in.relays = relay.NewGroup(store, relayed)
	in.relays.Set(first.relayed())
	in.claims = claims.New(store, claims.Options{
		MaxUnits: cfg.Queue, AllowUnsafe: cfg.AllowUnsafe, Log: in.log, Claimed: in.claimed, Reopened: in.wakeAll, Reserve: in.reserve,
		Counted: in.tell.Copies,
		Observe: func(size int, took time.Duration, err error) {
			in.health.claiming.note(err)
			in.tell.Batch(size, took, err)
		},
	})
	in.operator = operate.New(store, &operate.Options{
		Log: in.log, Tell: in.tell, Owner: fmt.Sprintf("%s/%d", host, os.Getpid()),
		Decide: func(p *driver.ReplayParams, detail *driver.EventDetail) error {
			return in.setup.Load().decideNow(in.log, handlers.sources, p, detail)
		},
		Conditional: func(source string) bool { return in.setup.Load().conditional(source) },
		Wake:        in.wakeAll, Relays: in.relays,
		Knows:   func(destination string) bool { return in.setup.Load().destinations[destination] != nil },
		Watches: func() []deadnews.Watch { return in.setup.Load().watches(cfg.OnDead, handlers.sources) },
		Engine: operate.Engine{
			Sources:      func() []operate.SourceStatus { return in.setup.Load().sourceStatus(&in.cfg) },
			Destinations: func() []operate.DestinationStatus { return in.setup.Load().destinationStatus() },
			Routes:       func() []operate.RouteStatus { return in.setup.Load().routeStatus() },
			CanLearn: func(source string) bool {
				src := in.setup.Load().sources[source]
				return src != nil && src.canLearn()
			},
			Clock: func(ctx context.Context) (skew, limit time.Duration, err error) {
				skew, err = in.health.skew(ctx)
				return skew, in.setup.Load().maxSkew(), err
			},
			RetryQuarantined: in.requeue,
			FreshCounts:      in.claims.FreshCounts, Weaknesses: in.health.weaknesses, CheckDurability: in.health.checkDurability, Outage: in.health.outage.status,
		},
	})
	return in, nil
}

// Operator returns what hookadmin and the gateway need besides this API. It is not for other programs,
// and may change with any release.
func (in *Engine) Operator() *operate.Operator { return in.operator }

func (in *Engine) handles(source, eventType string) bool {
	return in.worker != nil && in.worker.Handles(source, eventType)
}

// Reload replaces the sources, destinations and routes by those of cfg; it ignores the rest of cfg. If they
// have faults, or would leave an Engine that has sources without any, it returns an error and changes
// nothing. Deliveries of a removed source are answered 503 for ten minutes, and then 404. A changed or
// removed destination finishes its sends; messages of a removed one wait until it is back.
func (in *Engine) Reload(cfg *Config) error {
	in.reloadMu.Lock()
	defer in.reloadMu.Unlock()
	before := in.setup.Load()
	found := &findings{}
	after := newSetup(cfg, before, &in.cfg, &in.handlers, in.learned, found)
	err := found.err()
	var taken []string
	if err == nil {
		taken, err = after.replace(before, time.Now())
	}
	if err != nil {
		return fmt.Errorf("hookonce: %w", err)
	}
	found.log(in.log)
	in.setup.Store(after)
	in.relays.Set(after.relayed())
	before.retire(after)
	if len(taken) > 0 {
		in.log.Warn("sources vanished by the reload; their deliveries are answered 503 for a while, then 404",
			slog.Any("sources", taken), slog.String("for", vanishedFor.String()))
	}
	select {
	case in.pruner.reloaded <- struct{}{}:
	default: // an earlier one was not received yet
	}
	return nil
}

// claimed counts new claims, and wakes their relays and workers.
func (in *Engine) claimed(claims []*driver.Claim) {
	in.tell.Claimed(claims...)
	in.wakeClaimed(claims)
}

// wakeClaimed wakes the relays and workers of new claims.
func (in *Engine) wakeClaimed(claims []*driver.Claim) {
	for _, c := range claims {
		for i := range c.Messages {
			if m := &c.Messages[i]; m.LeaseFor == 0 { // the others are on their way
				in.relays.Wake(m.Destination)
			}
		}
		if c.Work == driver.WorkQueued && c.Undecided == "" && in.worker != nil {
			in.worker.Wake(c.Source)
		}
	}
}

// reserve returns the room of a relay for a message that is about to be claimed, or nil.
func (in *Engine) reserve(m *driver.Message) claims.Reservation {
	if r := in.relays.Reserve(m); r != nil {
		return r
	}
	return nil
}

// wakeAll wakes every relay and worker, after events or messages became due again.
func (in *Engine) wakeAll() {
	in.relays.WakeAll()
	for _, source := range in.handlers.sources {
		in.worker.Wake(source)
	}
}

// Run runs handlers, sends messages, works on jobs, looks at providers' lists (Reconcile.Every) and does the upkeep
// until ctx ends. Then it takes no more
// work, finishes the work in progress or gives it back, and returns nil. It does not stop deliveries: call
// Drain first. If the schema is not this program's (driver.ErrSchema), or the database could lose
// acknowledged events (an UnsafeError) or lacks what hookonce needs (a *driver.ServerError), Run returns at
// once and may be called again. Any other second call is an error.
func (in *Engine) Run(ctx context.Context) error {
	if in.ran.Swap(true) {
		return errors.New("hookonce: Run was called before: make a new Inbox")
	}
	if err := in.health.startSafely(ctx); err != nil {
		in.ran.Store(false)
		return err
	}
	var wg sync.WaitGroup
	wg.Go(func() { in.relays.Run(ctx) })
	wg.Go(func() { in.maintain(ctx) })
	wg.Go(func() { in.pruner.run(ctx, in.worker != nil) })
	wg.Go(func() { in.operator.Run(ctx) })
	wg.Go(func() { in.newLooks().Run(ctx) })
	if in.worker != nil {
		wg.Go(func() { in.worker.Run(ctx) })
	} else {
		wg.Go(func() { work.Sweep(ctx, in.store, in.log, in.tell.Lost) })
	}
	feeding, endFeed := context.WithCancel(context.WithoutCancel(ctx))
	var fed sync.WaitGroup
	fed.Go(func() { in.tell.Run(feeding) })
	wg.Wait()
	endFeed()
	in.writeLast(ctx)
	fed.Wait()
	in.sender.CloseIdle()
	in.setup.Load().retire(nil)
	return nil
}

// Drain makes the Inbox answer new deliveries with 503, and returns when the Inline handlers in
// progress have ended and the deliveries in the queue are answered.
func (in *Engine) Drain() {
	in.draining.Store(true)
	if in.worker != nil {
		// Before the queue closes: meanwhile it claims deliveries that were already being received.
		in.worker.Drain()
	}
	in.claims.Close()
}

// errDraining is the error of Ready after Drain was called.
var errDraining = errors.New("hookonce: draining")

// Ready returns nil when deliveries can be claimed: the database answers, has the schema of this
// program and loses no confirmed commit, its clock and this machine's differ by less than half of the
// smallest tolerance of the sources, a test claim succeeded on this server, the latest claims did
// not all fail, and Drain was not called.
func (in *Engine) Ready(ctx context.Context) error {
	if in.draining.Load() {
		return errDraining
	}
	return in.health.check(ctx, in.setup.Load().maxSkew())
}

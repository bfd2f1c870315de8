package hookonce

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/claims"
	"github.com/hookonce/hookonce/internal/reconcile"
	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/observe"
	"github.com/hookonce/hookonce/provider"
)

const (
	// maxReconcileSkew is how far this machine's clock may be off.
	maxReconcileSkew = time.Hour
	// maxAhead is how far ahead of this machine's clock the time of an event can be.
	maxAhead = 24 * time.Hour
	// maxFound bounds the keys of missing events in memory, to 4 MiB.
	maxFound = 1 << 17
	// lookOverlap is how much of the time before its last look a look repeats: the provider's clock may be off.
	lookOverlap = maxReconcileSkew
	// maxClaimTries is how often an event is claimed that the database does not store, or that another session has locked.
	maxClaimTries = 3
)

var (
	// ErrReconcileKey says that the provider's API refuses Reconcile.Key.
	ErrReconcileKey = reconcile.ErrKey
	// ErrSince says that Engine.Reconcile was asked to look too far back, or ahead.
	ErrSince = errors.New("since is out of bounds")
)

// Reconciled is the result of Engine.Reconcile. If the list holds an event twice, Missing and
// Claimed count it once; Seen and Known may count it twice.
type Reconciled struct {
	From, Until               time.Time // bounds of the events' times
	Seen                      int       // all within these bounds
	Unmatched                 int       // of types that Reconcile.Types, or every route and handler, leaves out
	Unreadable                int       // without one clear id, time or body, or refused by the database
	Known                     int       // stored before
	Missing                   int       // never arrived; with Known, Unmatched and Unreadable it makes up Seen
	Claimed                   int       // those of Missing that were claimed; the others arrived by webhook meanwhile, or an error tells of them
	FirstMissing, LastMissing time.Time // of the oldest and newest missing event; zero if there is none
}

// Reconcile reads the events of the last time since from the API of the source's provider, and claims those that
// never arrived by webhook. They go to the routes and handlers as others do, without a signature header, and are
// marked: driver.RemoteReconcile is their first remote address. What arrived is left as it is: no dead event is
// reopened, and no delivery is counted.
//
// It leaves out events younger than Reconcile.Delay, events older than the dedupe window less a day, and events that
// no route and no handler takes. It can run beside deliveries, in several processes, and again after any error:
// an event is claimed once. The result is nil if the list was not read at all; otherwise an error comes with the
// counts so far. The error matches ErrReconcileKey if the API refuses the key, ErrSince, and driver.ErrNotStored if
// the database keeps dropping an event.
func (in *Engine) Reconcile(ctx context.Context, source string, since time.Duration) (*Reconciled, error) {
	return in.reconcile(ctx, source, since, false)
}

// PlanReconcile is Reconcile without changes: Missing counts the events to claim.
func (in *Engine) PlanReconcile(ctx context.Context, source string, since time.Duration) (*Reconciled, error) {
	return in.reconcile(ctx, source, since, true)
}

func (in *Engine) reconcile(ctx context.Context, name string, since time.Duration, plan bool) (*Reconciled, error) {
	src := in.setup.Load().sources[name]
	err := in.mayReconcile(ctx, src)
	switch {
	case err != nil:
	case since <= 0:
		err = fmt.Errorf("%w: it must be more than 0", ErrSince)
	case since >= in.windowOf(src):
		err = fmt.Errorf("%w: it must be less than the dedupe window (%s), because the identities of older events are gone", ErrSince, say.Setting(in.windowOf(src)))
	}
	if err != nil {
		return nil, fmt.Errorf("hookonce: reconcile source %q: %w", name, err)
	}
	return in.look(ctx, src, in.health.now().Add(-since), plan, nil)
}

// look reads the events since from, if they are in the dedupe window less a day, and claims missing ones unless it plans.
// After each page it calls step, which may be nil, with the counts so far.
func (in *Engine) look(ctx context.Context, src *source, from time.Time, plan bool, step func(Reconciled) error) (*Reconciled, error) {
	now := in.health.now()
	if oldest := now.Add(windowMargin - in.windowOf(src)); from.Before(oldest) {
		from = oldest
	}
	l := &reconciling{in: in, src: src, plan: plan, step: step, found: make(map[driver.Key]bool), done: Reconciled{From: from, Until: now.Add(-src.Reconcile.Delay)}}
	l.client = reconcile.New(&reconcile.Options{List: src.list, Key: src.Reconcile.Key, Params: src.Reconcile.Params, URL: src.Reconcile.URL})
	defer l.client.Close()
	err := l.pages(ctx)
	if err == nil && l.left > 0 {
		err = fmt.Errorf("%d events could not be stored, and the others were: %w", l.left, l.fault)
	}
	if err != nil {
		err = fmt.Errorf("hookonce: reconcile source %q: %w", src.Name, err)
	}
	in.tell.Reconciled(observe.Reconciled{Source: src.Name, Plan: plan, Ended: true, Err: err})
	if l.done.Claimed > 0 {
		in.log.Warn("events that never arrived by webhook were claimed: look at the webhook's settings at the provider",
			slog.String("source", src.Name), slog.Int("claimed", l.done.Claimed),
			slog.Time("first", l.done.FirstMissing), slog.Time("last", l.done.LastMissing))
	}
	if l.done.Unreadable > 0 {
		in.log.Warn("the provider's API lists events that cannot be read, or that the database refuses; they were left out",
			slog.String("source", src.Name), slog.Int("unreadable", l.done.Unreadable))
	}
	return &l.done, err
}

func (in *Engine) windowOf(s *source) time.Duration {
	return cmp.Or(s.DedupeWindow, in.cfg.DedupeWindow)
}

// lookSince makes a look of Reconcile.Every. A lease beside it keeps other processes out.
func (in *Engine) lookSince(ctx context.Context, name string, state *driver.Reconcile, step reconcile.Step) (until time.Time, unreadable int, err error) {
	src := in.setup.Load().sources[name]
	if err := in.mayReconcile(ctx, src); err != nil {
		in.tell.Reconciled(observe.Reconciled{Source: name, Ended: true, Err: err})
		return until, 0, err
	}
	// Most providers tell the second of an event: one of this second may be younger.
	began := state.BeganAt.Truncate(time.Second)
	from := state.DoneUntil.Add(-lookOverlap)
	if state.DoneUntil.After(state.Now) || from.Before(began) { // the clock was ahead, or this is an early look
		from = began
	}
	if oldest := state.Now.Add(windowMargin - in.windowOf(src)); state.DoneUntil.Before(oldest) {
		in.log.Warn("the provider's list was not looked at for long: events of that time are too old to be claimed",
			slog.String("source", name), slog.Time("from", state.DoneUntil), slog.Time("until", oldest))
	}
	told := 0
	done, err := in.look(ctx, src, from, false, func(so Reconciled) error {
		claimed := so.Claimed - told
		if told = so.Claimed; claimed == 0 {
			return nil
		}
		return step(claimed, so.FirstMissing, so.LastMissing)
	})
	return done.Until, done.Unreadable, err
}

// newLooks returns the timer of Reconcile.Every. It forgets the state of sources without it, but a program with handlers
// leaves that to the gateway beside it.
func (in *Engine) newLooks() *reconcile.Timer {
	return &reconcile.Timer{
		Store: in.store, Log: in.log, Look: in.lookSince,
		Lists: func() []reconcile.Timed { timed, _ := in.setup.Load().looks(); return timed },
		Off: func() (any, []string) {
			now := in.setup.Load()
			_, off := now.looks()
			if in.worker != nil {
				off = nil
			}
			return now, off
		},
	}
}

// mayReconcile returns an error if src, which may be nil, cannot be reconciled now. It compares the clocks.
func (in *Engine) mayReconcile(ctx context.Context, src *source) error {
	switch {
	case src == nil:
		return errors.New("there is no such source")
	case src.Reconcile == nil:
		return errors.New("it has no setting reconcile: give it the key of the provider's API")
	case in.draining.Load():
		return errDraining
	}
	if err := errors.Join(in.health.refusal(), in.health.checkDurability(ctx)); err != nil {
		return err // Run may not have looked
	}
	skew, err := in.health.skew(ctx)
	if err == nil && skew.Abs() > maxReconcileSkew {
		err = fmt.Errorf("this machine's clock differs from the database's by %s: set both by NTP", skew.Round(time.Second))
	}
	return err
}

// reconciling is one call of Reconcile.
type reconciling struct {
	in     *Engine
	src    *source
	client *reconcile.Client
	plan   bool
	done   Reconciled
	step   func(Reconciled) error
	found  map[driver.Key]bool // missing events, up to maxFound: a list may hold an event twice
	left   int                 // missing events that were not stored
	fault  error               // of the last of them
}

func (r *reconciling) pages(ctx context.Context) error {
	for events, err := range r.client.Pages(ctx, r.done.From) {
		if err == nil && r.in.draining.Load() {
			err = errDraining
		}
		before := r.done
		if err == nil {
			err = r.page(ctx, events)
		}
		r.in.tell.Reconciled(observe.Reconciled{
			Source: r.src.Name, Plan: r.plan, Seen: r.done.Seen - before.Seen, Missing: r.done.Missing - before.Missing, Claimed: r.done.Claimed - before.Claimed,
		})
		if err == nil && r.step != nil {
			err = r.step(r.done)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// page works on one page of the list.
func (r *reconciling) page(ctx context.Context, events []reconcile.Event) error {
	var missing []driver.Claim
	size := 0
	for i := range events {
		claim, err := r.look(ctx, &events[i])
		if err != nil {
			return err
		}
		if claim == nil {
			continue
		}
		r.missed(events[i].At())
		missing = append(missing, *claim)
		if size += len(claim.Body) + len(claim.Headers); size >= claims.MaxBytes || len(missing) == claims.MaxBatch {
			if err := r.claim(ctx, missing); err != nil {
				return err
			}
			missing, size = nil, 0
		}
	}
	return r.claim(ctx, missing)
}

func (r *reconciling) missed(at time.Time) {
	r.done.Missing++
	if r.done.FirstMissing.IsZero() || at.Before(r.done.FirstMissing) {
		r.done.FirstMissing = at
	}
	if at.After(r.done.LastMissing) {
		r.done.LastMissing = at
	}
}

// look returns the claim of a missing event, and nil for any other, which it counts.
func (r *reconciling) look(ctx context.Context, e *reconcile.Event) (*driver.Claim, error) {
	switch {
	case e.At().IsZero() || e.At().After(r.done.Until.Add(r.src.Reconcile.Delay+maxAhead)): // in milliseconds, perhaps
		r.done.Seen++
		r.done.Unreadable++
		return nil, nil
	case e.At().Before(r.done.From) || e.At().After(r.done.Until):
		return nil, nil
	}
	r.done.Seen++
	if e.Body() == nil && r.src.Event == (provider.EventRules{}) {
		// The catalog's own rules find the id in the list, so that only a missing event costs a request.
		if ev := r.read(e.Header(), e.Item()); ev != nil {
			known, err := r.knows(ctx, driver.EventKey(r.src.Name, ev.IDParts...))
			if err != nil || known {
				return nil, err
			}
		}
	}
	if err := r.client.Complete(ctx, e); err != nil {
		return nil, err
	}
	ev := r.read(e.Header(), e.Body())
	if ev == nil || int64(len(e.Body())) > r.src.MaxBody {
		r.done.Unreadable++
		return nil, nil
	}
	if !matchesAny(r.src.listTypes, ev.Type) {
		r.done.Unmatched++
		return nil, nil
	}
	d := r.src.listed(e)
	claim := &r.in.claimsFor(d, []provider.Event{*ev})[0]
	claim.BodyGuard, claim.BodyHash = driver.BodyIgnore, driver.NoBodyHash
	if r.found[claim.Key] {
		r.done.Seen--
		return nil, nil
	}
	if known, err := r.knows(ctx, claim.Key); err != nil || known {
		return nil, err
	}
	if claim.Work == driver.WorkNone && len(claim.Messages) == 0 && claim.Undecided == "" {
		r.done.Unmatched++
		return nil, nil
	}
	if len(r.found) < maxFound {
		r.found[claim.Key] = true
	}
	return claim, nil
}

// read returns the only event of a body, or nil.
func (r *reconciling) read(header http.Header, body []byte) *provider.Event {
	events, malformed := r.src.extractor.Extract((&delivery{header: header, body: body}).input())
	if len(events) != 1 || len(malformed) > 0 || body == nil {
		return nil
	}
	return &events[0]
}

// knows reports whether an event is stored, and counts it.
func (r *reconciling) knows(ctx context.Context, key driver.Key) (bool, error) {
	found, err := r.in.store.EventParts(ctx, []driver.Key{key})
	if len(found) > 0 {
		r.done.Known++
	}
	return len(found) > 0, err
}

// claim claims the missing events of a page. It does not go through the queue of deliveries, so that it neither delays
// them nor counts as one. An event that arrived meanwhile stays as it is.
func (r *reconciling) claim(ctx context.Context, missing []driver.Claim) error {
	if r.plan {
		return nil
	}
	if r.src.Inline {
		var err error
		if missing, err = r.handle(ctx, missing); err != nil {
			return err
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.SortFunc(missing, func(a, b driver.Claim) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	left, err := r.tryClaim(ctx, missing)
	for try := 1; try < maxClaimTries; try++ {
		again := left
		left = nil
		for i := range again {
			if err != nil {
				return err
			}
			var one []driver.Claim
			one, err = r.tryClaim(ctx, again[i:i+1])
			left = append(left, one...)
		}
	}
	r.left += len(left)
	return err
}

// handle runs the handlers of an Inline source, each in the transaction of its claim. It returns the events that do not
// run Inline. A handler that fails is counted as for a delivery: the next look runs it again, until the event is dead.
func (r *reconciling) handle(ctx context.Context, missing []driver.Claim) (others []driver.Claim, err error) {
	for i := range missing {
		c := &missing[i]
		if !r.in.runsInline(c) {
			others = append(others, *c)
			continue
		}
		if r.in.draining.Load() {
			return nil, errDraining
		}
		inTime, stop := context.WithTimeout(ctx, r.src.AckTimeout)
		done := r.in.worker.Inline(inTime, &r.src.listWork, c)
		stop()
		r.in.health.claiming.note(done.Err)
		fault := done.Err
		if done.Failure != nil && !done.Dead {
			fault = fmt.Errorf("an Inline handler failed: %w", done.Failure)
		}
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(fault, driver.ErrBadRow):
			r.done.Missing--
			r.done.Unreadable++
		case errors.Is(fault, driver.ErrUnavailable):
			return nil, fault
		case fault != nil:
			r.left++
			r.fault = fault
		case done.Claimed:
			r.done.Claimed++
			r.in.tell.Claimed(c)
		}
	}
	return others, nil
}

// tryClaim claims events in one commit. It returns those to try again alone, and sets the fault that kept them out.
func (r *reconciling) tryClaim(ctx context.Context, missing []driver.Claim) (again []driver.Claim, err error) {
	results, err := r.in.store.Claim(ctx, &driver.ClaimParams{Claims: missing, AllowUnsafe: r.in.cfg.AllowUnsafe})
	switch {
	case errors.Is(err, driver.ErrBadRow) && len(missing) == 1:
		r.done.Missing--
		r.done.Unreadable++
		return nil, nil
	case driver.FaultOfRows(err) && !errors.Is(err, driver.ErrRefused): // that may concern all
		r.fault = err
		return missing, nil
	case err != nil:
		return nil, err
	}
	var claimed []*driver.Claim
	for i := range results {
		switch {
		case !results[i].Settled():
			again, r.fault = append(again, missing[i]), driver.ErrNotStored
		case results[i].Claimed:
			claimed = append(claimed, &missing[i])
		}
	}
	r.done.Claimed += len(claimed)
	r.in.claimed(claimed)
	return again, nil
}

package hookonce

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/claims"
	"github.com/hookonce/hookonce/internal/reconcile"
	"github.com/hookonce/hookonce/provider"
)

const (
	// windowMargin is how much younger than the dedupe window an event must be: its identity must not have been
	// pruned, also if a clock is off.
	windowMargin = 24 * time.Hour
	// maxReconcileSkew is how far this machine's clock may be off.
	maxReconcileSkew = time.Hour
	// maxFound bounds the keys of missing events in memory, to 4 MiB.
	maxFound = 1 << 17
)

// ErrReconcileKey says that the provider's API refuses Reconcile.Key.
var ErrReconcileKey = reconcile.ErrKey

// Reconciled is the result of Engine.Reconcile. If the list holds an event twice, Missing and
// Claimed count it once; Seen and Known may count it twice.
type Reconciled struct {
	// From and Until bound the times of the events.
	From, Until time.Time
	Seen        int // all within these bounds
	Unmatched   int // of types that no route and no handler takes
	Unreadable  int // without one clear id, time or body, or refused by the database
	Known       int // stored before
	Missing     int // never arrived; with Known, Unmatched and Unreadable it makes up Seen
	Claimed     int // those of Missing that were claimed; the others arrived by webhook meanwhile
	// FirstMissing and LastMissing are the times of the oldest and newest missing event; zero if there is none.
	FirstMissing, LastMissing time.Time
}

// Reconcile reads the events of the last time since from the API of the source's provider, and claims those that
// never arrived by webhook. They go to the routes and handlers as others do, without a signature header, and are
// marked: driver.RemoteReconcile is their first remote address. What arrived is left as it is: no dead event is
// reopened, and no delivery is counted.
//
// It leaves out events younger than Reconcile.Delay, events older than the dedupe window less a day, and events that
// no route and no handler takes. It can run beside deliveries, in several processes, and again after any error:
// an event is claimed once. It holds one page of the list in memory. The result is nil
// if the list was not read at all; otherwise an error comes with the counts so far. The error matches
// ErrReconcileKey if the API refuses the key.
func (in *Engine) Reconcile(ctx context.Context, source string, since time.Duration) (*Reconciled, error) {
	return in.reconcile(ctx, source, since, false)
}

// PlanReconcile is Reconcile without changes: Missing counts the events to claim.
func (in *Engine) PlanReconcile(ctx context.Context, source string, since time.Duration) (*Reconciled, error) {
	return in.reconcile(ctx, source, since, true)
}

func (in *Engine) reconcile(ctx context.Context, name string, since time.Duration, plan bool) (*Reconciled, error) {
	src := in.setup.Load().sources[name]
	fail := func(err error) error { return fmt.Errorf("hookonce: reconcile source %q: %w", name, err) }
	if err := in.mayReconcile(ctx, src, since); err != nil {
		return nil, fail(err)
	}
	now := time.Now()
	look := &reconciling{in: in, src: src, plan: plan, found: make(map[driver.Key]bool), done: Reconciled{From: now.Add(-since), Until: now.Add(-src.Reconcile.Delay)}}
	if oldest := now.Add(windowMargin - in.windowOf(src)); look.done.From.Before(oldest) {
		look.done.From = oldest
	}
	look.client = reconcile.New(&reconcile.Options{List: src.list, Key: src.Reconcile.Key, Params: src.Reconcile.Params, URL: src.Reconcile.URL})
	defer look.client.Close()
	for events, err := range look.client.Pages(ctx, look.done.From) {
		if err == nil && in.draining.Load() {
			err = errDraining
		}
		if err == nil {
			err = look.page(ctx, events)
		}
		if err != nil {
			return &look.done, fail(err)
		}
	}
	if look.done.Claimed > 0 {
		in.log.Warn("events that never arrived by webhook were claimed: look at the webhook's settings at the provider",
			slog.String("source", name), slog.Int("claimed", look.done.Claimed),
			slog.Time("first", look.done.FirstMissing), slog.Time("last", look.done.LastMissing))
	}
	return &look.done, nil
}

func (in *Engine) windowOf(s *source) time.Duration {
	return cmp.Or(s.DedupeWindow, in.cfg.DedupeWindow)
}

// mayReconcile returns an error if src, which may be nil, cannot be reconciled now.
func (in *Engine) mayReconcile(ctx context.Context, src *source, since time.Duration) error {
	switch {
	case src == nil:
		return errors.New("there is no such source")
	case src.Reconcile == nil:
		return errors.New("it has no setting reconcile: give it the key of the provider's API")
	case since <= 0:
		return errors.New("since must be more than 0")
	case since >= in.windowOf(src):
		return fmt.Errorf("since must be less than the dedupe window (%s): the identities of older events are gone", in.windowOf(src))
	case len(src.routes) == 0 && !src.works(in.handled):
		return errors.New("no route and no handler of this program takes its events")
	case in.draining.Load():
		return errDraining
	}
	if err := in.health.refusal(); err != nil {
		return err
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
	found  map[driver.Key]bool // missing events, up to maxFound: a list may hold an event twice
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
	case e.At().IsZero():
		r.done.Seen++
		r.done.Unreadable++
		return nil, nil
	case e.At().Before(r.done.From) || e.At().After(r.done.Until):
		return nil, nil
	}
	r.done.Seen++
	if e.Body() == nil && r.src.Event == (provider.EventRules{}) {
		// The catalog's own rules find the id without the body, so that only a missing event costs a request.
		if ev := r.read(e.Header(), []byte("{}")); ev != nil {
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

// claim claims the missing events of a page in one commit. It does not go through the queue of deliveries, so
// that it neither delays them nor counts as one. An event that arrived meanwhile stays as it is.
func (r *reconciling) claim(ctx context.Context, missing []driver.Claim) error {
	if r.plan || len(missing) == 0 {
		return nil
	}
	slices.SortFunc(missing, func(a, b driver.Claim) int { return strings.Compare(string(a.Key[:]), string(b.Key[:])) })
	results, err := r.in.store.Claim(ctx, &driver.ClaimParams{Claims: missing, AllowUnsafe: r.in.cfg.AllowUnsafe})
	switch {
	case driver.FaultOfRows(err) && len(missing) == 1:
		r.done.Missing--
		r.done.Unreadable++
		return nil
	case driver.FaultOfRows(err):
		for i := range missing {
			if err := r.claim(ctx, missing[i:i+1]); err != nil {
				return err
			}
		}
		return nil
	case err != nil:
		return err
	}
	var claimed []*driver.Claim
	for i := range results {
		switch {
		case !results[i].Settled():
			return driver.ErrNotStored
		case results[i].Claimed:
			claimed = append(claimed, &missing[i])
		}
	}
	r.done.Claimed += len(claimed)
	r.in.claimed(claimed)
	return nil
}

package inbox_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/observe"
	"github.com/hookonce/hookonce/provider"
)

// stripeList is the API of Stripe, as its documentation shows it: newest first, in pages of 100.
type stripeList struct {
	mu     sync.Mutex
	events []stripeEvent // newest first
	key    string        // the only key; "" is rk_test
	twice  bool          // a page begins with the last event of the page before
	before func()        // called before an answer, unless nil
}

type stripeEvent struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Type    string `json:"type"`
	Created int64  `json:"created"`
}

func (l *stripeList) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.before != nil {
		l.before()
	}
	q := r.URL.Query()
	var since int64
	if r.Header.Get("Authorization") != "Bearer "+cmp.Or(l.key, "rk_test") {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	_, _ = fmt.Sscan(q.Get("created[gte]"), &since)
	from := 0
	if after := q.Get("starting_after"); after != "" {
		if from = slices.IndexFunc(l.events, func(e stripeEvent) bool { return e.ID == after }); !l.twice {
			from++
		}
	}
	page := []stripeEvent{}
	more := false
	for _, e := range l.events[from:] {
		if more = len(page) == 100; more || e.Created < since {
			break
		}
		page = append(page, e)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "url": "/v1/events", "data": page, "has_more": more})
}

// newList returns a list of n events of the last hours, and its server.
func newList(t *testing.T, n int) (*stripeList, string) {
	t.Helper()
	list := &stripeList{}
	for i := range n {
		list.events = append(list.events, stripeEvent{
			ID: fmt.Sprintf("evt_%04d", n-i), Object: "event", Type: "invoice.paid", Created: time.Now().Add(-time.Hour).Unix() - int64(i),
		})
	}
	server := httptest.NewServer(list)
	t.Cleanup(server.Close)
	return list, server.URL
}

func reconcilable(url string) func(*hookonce.Config) {
	return func(c *hookonce.Config) {
		c.Sources = []hookonce.Source{{
			Name: "stripe", Provider: provider.Stripe, Secrets: hookonce.StaticSecrets(secret), AckTimeout: 30 * time.Second,
			DedupeWindow: 72 * time.Hour, Reconcile: &hookonce.Reconcile{Key: "rk_test", URL: url},
		}}
		sendBy(c, func(context.Context, *hookonce.Outgoing) error { return nil })
		c.Routes[0].Types = []string{"invoice.*"}
	}
}

// body returns e as a webhook holds it: the same JSON in other bytes.
func (e *stripeEvent) body() string {
	text, _ := json.MarshalIndent(e, "", "  ")
	return string(text)
}

func deliverStripe(t *testing.T, in *hookonce.Engine, e *stripeEvent) result {
	t.Helper()
	return deliver(in, signAs(t, &hookonce.Source{Name: "stripe", Provider: provider.Stripe}, secret, e.body()))
}

func TestReconcile(t *testing.T) {
	store := rig.OpenSQLite(t)
	list, url := newList(t, 250)
	list.twice = true
	now := time.Now()
	list.events = slices.Concat(
		[]stripeEvent{{ID: "evt_young", Type: "invoice.paid", Created: now.Unix()}, {ID: "evt_ms", Type: "invoice.paid", Created: now.UnixMilli()}}, list.events,
		[]stripeEvent{
			{ID: "evt_other", Type: "charge.failed", Created: now.Add(-2 * time.Hour).Unix()},
			{ID: "", Type: "invoice.paid", Created: now.Add(-2 * time.Hour).Unix()},
			{ID: "evt_old", Type: "invoice.paid", Created: now.Add(-50 * time.Hour).Unix()},
		})
	in := newEngine(t, store, func(c *hookonce.Config) {
		reconcilable(url)(c)
		c.Routes[0].Types = nil
		c.Sources[0].Reconcile.Types = []string{"invoice.*"}
	})
	withheld := 0
	for i := range list.events[2:252] {
		if i%10 == 0 {
			withheld++
		} else if got := deliverStripe(t, in, &list.events[2+i]); got != ok {
			t.Fatalf("answer %v", got)
		}
	}
	first, second := list.events[2], list.events[3] // withheld, and delivered
	plan, err := in.PlanReconcile(t.Context(), "stripe", 71*time.Hour)
	if err != nil || plan.Missing != withheld || plan.Claimed != 0 || plan.Unmatched != 1 || plan.Unreadable != 2 || plan.FirstMissing.After(plan.LastMissing) {
		t.Fatalf("plan %+v, error %v; want %d missing", plan, err, withheld)
	}
	if page, err := store.Events(t.Context(), &driver.EventFilter{Limit: driver.MaxLimit}); err != nil || slices.ContainsFunc(page.Events, func(e driver.Event) bool { return e.EventID == first.ID }) {
		t.Fatalf("a plan claimed an event, or error %v", err)
	}
	asked := 0
	list.before = func() { // an event is listed while the pages are read
		if asked++; asked == 2 {
			list.events = slices.Insert(list.events, 0, stripeEvent{ID: "evt_later", Type: "invoice.paid", Created: now.Add(-time.Hour).Unix()})
		}
	}
	done, err := in.Reconcile(t.Context(), "stripe", 71*time.Hour)
	if err != nil || done.Claimed != withheld || done.Missing != withheld {
		t.Fatalf("done %+v, error %v; want %d claimed", done, err, withheld)
	}
	again, err := in.Reconcile(t.Context(), "stripe", 71*time.Hour)
	if err != nil || again.Missing != 1 || again.Claimed != 1 {
		t.Errorf("again %+v, error %v; want the event that was listed later", again, err)
	}
	event, err := store.Event(t.Context(), "stripe", first.ID)
	if err != nil || event.Deliveries.FirstRemote != driver.RemoteReconcile || len(event.Messages) != 1 || strings.Contains(string(event.Headers), "Signature") {
		t.Fatalf("event %+v, error %v; want the mark and a message", event, err)
	}
	if got := deliverStripe(t, in, &first); got != duplicate {
		t.Errorf("the late webhook was answered %v, want a duplicate", got)
	}
	if err := in.Operator().FreshCounts(t.Context()); err != nil {
		t.Fatal(err)
	}
	event, err = store.Event(t.Context(), "stripe", first.ID)
	if err != nil || event.Deliveries.Count != 2 || event.Deliveries.OtherBodies != 0 {
		t.Errorf("%+v, error %v; want the claim and one delivery with the same body", event.Deliveries, err)
	}
	event, err = store.Event(t.Context(), "stripe", second.ID)
	if err != nil || event.Deliveries.Count != 1 || !event.Deliveries.LastAt.Equal(event.ReceivedAt) {
		t.Errorf("%+v, error %v; want the one delivery of an event that arrived, with its time, from which the window counts", event.Deliveries, err)
	}
	for _, id := range []string{"evt_young", "evt_old", "evt_other"} {
		if _, err := store.Event(t.Context(), "stripe", id); !errors.Is(err, driver.ErrNotFound) {
			t.Errorf("%s: error %v, want ErrNotFound", id, err)
		}
	}
}

// 64 deliveries arrive while two engines reconcile: each event is claimed once.
func TestReconcileMeanwhile(t *testing.T) {
	store := rig.OpenSQLite(t)
	list, url := newList(t, 100)
	engines := []*hookonce.Engine{newEngine(t, store, reconcilable(url)), newEngine(t, store, reconcilable(url))}
	var claimed atomic.Int64
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range 64 {
		wg.Go(func() {
			<-start
			if deliverStripe(t, engines[i%2], &list.events[i%4]) == ok {
				claimed.Add(1)
			}
		})
	}
	for _, in := range engines {
		wg.Go(func() {
			<-start
			done, err := in.Reconcile(t.Context(), "stripe", time.Hour*48)
			if err != nil {
				t.Error(err)
				return
			}
			claimed.Add(int64(done.Claimed))
		})
	}
	close(start)
	wg.Wait()
	if claimed.Load() != 100 {
		t.Errorf("%d claims of 100 events", claimed.Load())
	}
}

// droppingStore is a real store that does not store an event, a number of times.
type droppingStore struct {
	driver.Store
	id    string
	how   error // nil: the result stays unsettled
	times int
}

func (s *droppingStore) Claim(ctx context.Context, p *driver.ClaimParams) ([]driver.ClaimResult, error) {
	i := slices.IndexFunc(p.Claims, func(c driver.Claim) bool { return c.EventID == s.id })
	if i < 0 || s.times == 0 {
		return s.Store.Claim(ctx, p)
	}
	s.times--
	if s.how != nil {
		return nil, s.how
	}
	others := *p
	others.Claims = slices.Delete(slices.Clone(p.Claims), i, i+1)
	results, err := s.Store.Claim(ctx, &others)
	return slices.Insert(results, i, driver.ClaimResult{}), err
}

// An event that the database does not store is tried again, keeps no other one out, and is told of in the end.
func TestReconcileNotStored(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		how                 error
		times               int
		claimed, unreadable int
		want                error
	}{
		"unsettled once":       {nil, 1, 20, 0, nil},
		"unsettled for ever":   {nil, 99, 19, 0, driver.ErrNotStored},
		"dropped twice":        {driver.ErrNotStored, 2, 20, 0, nil},
		"dropped for ever":     {driver.ErrNotStored, 99, 19, 0, driver.ErrNotStored},
		"locked for ever":      {driver.ErrLockTimeout, 99, 19, 0, driver.ErrLockTimeout},
		"refused for ever":     {driver.ErrBadRow, 99, 19, 1, nil},
		"the database is gone": {driver.ErrUnavailable, 99, 0, 0, driver.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list, url := newList(t, 20)
			store := &droppingStore{Store: rig.OpenSQLite(t), id: list.events[7].ID, how: test.how, times: test.times}
			done, err := newEngine(t, store, reconcilable(url)).Reconcile(t.Context(), "stripe", time.Hour*48)
			if !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
				t.Errorf("error %v, want %v", err, test.want)
			}
			if done.Claimed != test.claimed || done.Unreadable != test.unreadable || done.Missing != 20-test.unreadable {
				t.Errorf("done %+v, want %d claimed and %d unreadable", done, test.claimed, test.unreadable)
			}
		})
	}
}

func TestReconcileRefuses(t *testing.T) {
	_, url := newList(t, 1)
	in := newEngine(t, rig.OpenSQLite(t), reconcilable(url))
	if _, err := in.Reconcile(t.Context(), "stripe", 300*24*time.Hour); err == nil || !strings.Contains(err.Error(), "dedupe window") {
		t.Errorf("error %v, want one about the window", err)
	}
	if _, err := in.Reconcile(t.Context(), "nobody", time.Hour); err == nil {
		t.Error("an unknown source was reconciled")
	}
	expired := newEngine(t, rig.OpenSQLite(t), func(c *hookonce.Config) {
		reconcilable(url)(c)
		c.Sources[0].Reconcile.Key = "rk_expired"
	})
	if _, err := expired.Reconcile(t.Context(), "stripe", time.Hour); !errors.Is(err, hookonce.ErrReconcileKey) || strings.Contains(err.Error(), "rk_") {
		t.Errorf("error %v, want ErrReconcileKey without the key", err)
	}
	for want, change := range map[string]func(*hookonce.Source){
		"reconcile.key":          func(s *hookonce.Source) { s.Reconcile.Key = " " },
		"reconcile.url":          func(s *hookonce.Source) { s.Reconcile.URL = "http://example.com" },
		"reconcile.params.hook":  func(s *hookonce.Source) { s.Provider = provider.GitHub },
		"reconcile.delay":        func(s *hookonce.Source) { s.Reconcile.Delay = 25 * time.Hour },
		"less a day":             func(s *hookonce.Source) { s.DedupeWindow = 24 * time.Hour },
		"no list of events":      func(s *hookonce.Source) { s.Provider = provider.Shopify },
		"reconcile.params.stray": func(s *hookonce.Source) { s.Reconcile.Params = map[string]string{"stray": "x"} },
		"no route":               nil,
	} {
		cfg := &hookonce.Config{}
		reconcilable(url)(cfg)
		if change == nil {
			cfg.Routes = nil
		} else {
			change(&cfg.Sources[0])
		}
		if _, err := hookonce.NewEngine(rig.OpenSQLite(t), cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// The list of GitHub's deliveries holds no bodies: one is fetched only for a missing event.
func TestReconcileGitHub(t *testing.T) {
	details := 0
	at := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/deliveries") {
			_, _ = fmt.Fprintf(w, `[{"id": 3, "guid": "g-2", "delivered_at": %q, "redelivery": true, "event": "push"},
				{"id": 2, "guid": "g-2", "delivered_at": %q, "event": "push"}, {"id": 1, "guid": "g-1", "delivered_at": %q, "event": "push"}]`, at, at, at)
			return
		}
		details++
		_, _ = io.WriteString(w, `{"id": 2, "request": {"headers": {}, "payload": {"n":1}}}`)
	}))
	t.Cleanup(api.Close)
	store := rig.OpenSQLite(t)
	in := newEngine(t, store, func(c *hookonce.Config) {
		sendBy(c, func(context.Context, *hookonce.Outgoing) error { return nil })
		c.Sources[0].ReplayGuard = true // which would take the equal body for a duplicate
		c.Sources[0].Reconcile = &hookonce.Reconcile{Key: "k", URL: api.URL, Params: map[string]string{"owner": "o", "repo": "r", "hook": "7"}}
	})
	if got := deliver(in, delivery("g-1", `{"n":1}`)); got != ok {
		t.Fatalf("answer %v", got)
	}
	done, err := in.Reconcile(t.Context(), "gh", 24*time.Hour)
	if err != nil || done.Known != 1 || done.Claimed != 1 || details > 2 {
		t.Fatalf("done %+v with %d details, error %v", done, details, err)
	}
	event, err := store.Event(t.Context(), "gh", "g-2")
	if err != nil || event.Type != "push" || string(event.Body) != `{"n":1}` || event.Deliveries.RepeatOf != "" {
		t.Errorf("event %+v, error %v", event, err)
	}
}

// lookNow makes the next look of a source due, as if the time had passed.
func lookNow(t *testing.T, store driver.Store, source string) {
	t.Helper()
	eventually.True(t, "the next look is due", func() bool {
		all, err := store.Reconciles(t.Context(), []string{source})
		if err != nil {
			t.Fatal(err)
		}
		if len(all) == 0 || !all[0].LeasedUntil.IsZero() {
			return false // a look runs
		}
		held, err := store.StepReconcile(t.Context(), &driver.ReconcileStep{
			Source: source, Fence: all[0].Fence, Lease: time.Minute, End: &driver.ReconcileEnd{Next: time.Microsecond, Error: all[0].Error},
		})
		return err == nil && held
	})
}

// stateOf waits until the state of the list is as wanted.
func stateOf(t *testing.T, store driver.Store, what string, wanted func(*driver.Reconcile) bool) {
	t.Helper()
	eventually.True(t, what, func() bool {
		all, err := store.Reconciles(t.Context(), []string{"stripe"})
		return err == nil && len(all) == 1 && !all[0].EndedAt.IsZero() && wanted(&all[0])
	})
}

// Two engines look from time to time. They look at events from their start on, and at no earlier ones.
func TestReconcileEvery(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	list, url := newList(t, 3) // from before the start
	var claimed, failed atomic.Int64
	every := func(c *hookonce.Config) {
		reconcilable(url)(c)
		c.Sources[0].Reconcile.Every, c.Sources[0].Reconcile.Delay = time.Hour, time.Nanosecond
		c.Observer = &observe.Observer{Reconciled: func(r observe.Reconciled) {
			claimed.Add(int64(r.Claimed))
			if r.Err != nil {
				failed.Add(1)
			}
		}}
	}
	engines := []*hookonce.Engine{newEngine(t, store, every), newEngine(t, store, every)}
	for _, in := range engines {
		run(t, in)
	}
	stateOf(t, store, "the first look ends", func(r *driver.Reconcile) bool { return r.Error == "" })
	list.mu.Lock()
	now := time.Now().Unix() + 1
	for i := range 5 {
		list.events = slices.Insert(list.events, 0, stripeEvent{ID: fmt.Sprint("evt_new_", i), Type: "invoice.paid", Created: now})
	}
	list.mu.Unlock()
	eventually.True(t, "the new events are claimed", func() bool {
		lookNow(t, store, "stripe")
		return claimed.Load() > 0
	})
	stateOf(t, store, "the state tells of them", func(r *driver.Reconcile) bool {
		return r.Missed == 5 && r.FirstMissing.Unix() == now && r.LastMissing.Unix() == now && !r.FoundAt.IsZero()
	})
	for _, e := range list.events {
		_, err := store.Event(t.Context(), "stripe", e.ID)
		if isNew := strings.HasPrefix(e.ID, "evt_new"); isNew != (err == nil) {
			t.Errorf("event %s: error %v", e.ID, err)
		}
	}
	if claimed.Load() != 5 {
		t.Errorf("%d events claimed, want 5", claimed.Load())
	}

	// An expired key stops nothing, and is told.
	list.mu.Lock()
	list.key = "rk_other"
	list.mu.Unlock()
	lookNow(t, store, "stripe")
	stateOf(t, store, "the expired key is told", func(r *driver.Reconcile) bool {
		return strings.Contains(r.Error, "refuses the key") && !strings.Contains(r.Error, "rk_") && r.Missed == 5
	})
	if got := deliverStripe(t, engines[0], &stripeEvent{ID: "evt_last", Type: "invoice.paid", Created: now}); got != ok || failed.Load() == 0 {
		t.Errorf("answer %v, %d failures told", got, failed.Load())
	}

	// Switched off, it forgets.
	off := &hookonce.Config{}
	reconcilable(url)(off)
	for _, in := range engines {
		if err := in.Reload(off); err != nil {
			t.Fatal(err)
		}
	}
	eventually.True(t, "the state is gone", func() bool {
		all, err := store.Reconciles(t.Context(), []string{"stripe"})
		return err == nil && len(all) == 0
	})
}

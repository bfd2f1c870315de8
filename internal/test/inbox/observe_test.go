package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/observe"
)

// observed records all calls of an Observer.
type observed struct {
	mu         sync.Mutex
	deliveries []observe.Delivery
	claims     []observe.Claim
	attempts   []observe.Attempt
	operated   []observe.Operated
	pruned     []observe.Pruned
	barred     []string
}

// record returns a function that appends its argument to a list of o.
func record[T any](o *observed, to *[]T) func(T) {
	return func(one T) {
		o.mu.Lock()
		defer o.mu.Unlock()
		*to = append(*to, one)
	}
}

func (o *observed) observer() *observe.Observer {
	return &observe.Observer{
		Delivery: record(o, &o.deliveries), Claim: record(o, &o.claims), Attempt: record(o, &o.attempts),
		Operated: record(o, &o.operated), Pruned: record(o, &o.pruned), Barred: record(o, &o.barred),
	}
}

// take empties a list of o and returns its entries, after clean has removed the times.
func take[T any](o *observed, from *[]T, clean func(*T)) []T {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := *from
	*from = nil
	for i := range all {
		clean(&all[i])
	}
	return all
}

func (o *observed) takeDeliveries(t *testing.T) []observe.Delivery {
	return take(o, &o.deliveries, func(d *observe.Delivery) {
		if d.Took <= 0 {
			t.Errorf("%+v has no duration", *d)
		}
		d.Took = 0
	})
}

func TestDeliveriesAreObserved(t *testing.T) {
	t.Parallel()
	type seen = observe.Delivery
	one := func(changes ...func(*http.Request)) *http.Request { return delivery("1", "{}", changes...) }
	source := func(change func(*hookonce.Source)) func(*hookonce.Config) {
		return func(c *hookonce.Config) { change(&c.Sources[0]) }
	}
	for name, tt := range map[string]struct {
		change  func(*hookonce.Config)
		before  *http.Request // delivered first, without a check; may be nil
		request *http.Request
		want    observe.Delivery // of gh, unless the source is unknown
	}{
		"ok":       {routed, nil, one(), seen{Status: 200, Outcome: "ok", Events: 1}},
		"unrouted": {nil, nil, one(), seen{Status: 200, Outcome: "ok", Events: 1, Unrouted: 1}},
		"consumed by SQL": {
			source(func(s *hookonce.Source) { s.Consume = hookonce.ConsumeSQL }),
			nil, one(),
			seen{Status: 200, Outcome: "ok", Events: 1},
		},
		"configured answer": {
			source(func(s *hookonce.Source) { s.Ack = &hookonce.Ack{Status: 202} }),
			nil, one(),
			seen{Status: 202, Outcome: "ok", Events: 1, Unrouted: 1},
		},
		"duplicate":    {nil, one(), one(), seen{Status: 200, Outcome: "duplicate", Events: 1}},
		"another body": {nil, one(), delivery("1", `{"other":1}`), seen{Status: 200, Outcome: "duplicate", Events: 1, OtherBodies: 1}},
		"batch": {
			items, nil, delivery("b", `{"items":[{"id":1},{"id":1},{"id":{}},{"id":2}]}`),
			seen{Status: 200, Outcome: "ok", Events: 3, Unrouted: 2},
		},
		"empty batch": {items, nil, delivery("b", `{"items":[]}`), seen{Status: 200, Outcome: "ok"}},
		"malformed":   {items, nil, delivery("b", `{}`), seen{Status: 400, Outcome: "malformed"}},
		"quarantined": {
			func(c *hookonce.Config) { items(c); c.Sources[0].Malformed = hookonce.MalformedQuarantine },
			nil, delivery("b", `{}`),
			seen{Status: 200, Outcome: "malformed"},
		},
		"undecided": {
			func(c *hookonce.Config) {
				routed(c)
				c.Routes[0].Where = func(*hookonce.Event) (bool, error) { return false, hookonce.ErrUndecided }
			},
			nil, one(),
			seen{Status: 200, Outcome: "ok", Events: 1, Undecided: 1},
		},
		"refused by the database": {nil, nil, delivery("bad", "{}"), seen{Status: 503, Outcome: "unavailable"}},
		"database down":           {nil, nil, delivery("down", "{}"), seen{Status: 503, Outcome: "unavailable"}},
		"panic": {
			source(func(s *hookonce.Source) {
				s.Secrets = hookonce.SecretsFunc(func(context.Context, *http.Request) ([]string, error) { panic("a defect") })
			}),
			nil, one(),
			seen{Status: 503, Outcome: "unavailable"},
		},
		"forged":         {nil, nil, one(forge), seen{Status: 401, Outcome: "refused", Reason: "signature_wrong"}},
		"wrong method":   {nil, nil, one(get), seen{Status: 405, Outcome: "refused", Reason: "method"}},
		"unknown source": {nil, nil, one(to("other")), seen{Status: 404, Outcome: "refused", Reason: "unknown_source"}},
		"too large": {
			source(func(s *hookonce.Source) { s.MaxBody = 1 }),
			nil, one(),
			seen{Status: 413, Outcome: "refused", Reason: "too_large"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &observed{}
			down, bad := rig.FailFor(driver.ErrUnavailable, "down"), rig.FailFor(driver.ErrBadRow, "bad")
			store := &rig.FaultStore{Store: rig.OpenSQLite(t), Before: func(ctx context.Context, p *driver.ClaimParams) error {
				return errors.Join(down(ctx, p), bad(ctx, p))
			}}
			in := newEngine(t, store, func(c *hookonce.Config) {
				if tt.change != nil {
					tt.change(c)
				}
				c.Observer = o.observer()
			})
			if tt.before != nil {
				deliver(in, tt.before)
				o.takeDeliveries(t)
			}
			if tt.want.Status != http.StatusNotFound {
				tt.want.Source = "gh"
			}
			deliver(in, tt.request)
			if diff := cmp.Diff([]seen{tt.want}, o.takeDeliveries(t)); diff != "" {
				t.Errorf("observed (-want +got):\n%s", diff)
			}
		})
	}
}

// routed adds a route for all events.
func routed(c *hookonce.Config) { sendTo(c, "http://localhost/", hookonce.Retry{}) }

// An engine with handlers reports deliveries to an Inline handler, and those of a router that uses
// Verify, ClaimTx and Accept.
func TestDeliveriesToHandlersAreObserved(t *testing.T) {
	t.Parallel()
	l, o := onSQLite(t), &observed{}
	in := inbox(t, l, handling(func(_ context.Context, _ *sql.Tx, ev *hookonce.Event) error {
		if ev.ID == "fails" {
			return errors.New("no")
		}
		return nil
	}), func(c *hookonce.Config) {
		inline(c)
		c.Observer = o.observer()
	})
	deliver(in, delivery("1", "{}"))
	deliver(in, delivery("1", "{}"))
	deliver(in, delivery("fails", "{}"))
	for _, r := range []*http.Request{delivery("2", "{}"), delivery("2", "{}"), delivery("lost", "{}"), delivery("3", "{}", get)} {
		receiveInTx(t, l, in, r, func(_ *sql.Tx, ev *hookonce.Event) error {
			if ev.ID == "lost" {
				return errors.New("no connection")
			}
			return nil
		})
	}
	want := []observe.Delivery{
		{Source: "gh", Status: 200, Outcome: "ok", Events: 1},
		{Source: "gh", Status: 200, Outcome: "duplicate", Events: 1},
		{Source: "gh", Status: 500, Outcome: "failed"},
		{Source: "gh", Status: 200, Outcome: "ok", Events: 1},
		{Source: "gh", Status: 200, Outcome: "duplicate", Events: 1},
		{Source: "gh", Status: 503, Outcome: "unavailable"},
		{Source: "gh", Status: 405, Outcome: "refused", Reason: "method"},
	}
	got := take(o, &o.deliveries, func(d *observe.Delivery) { d.Took = 0 })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
}

func TestReopeningIsObserved(t *testing.T) {
	t.Parallel()
	store, s, o := rig.OpenSQLite(t), newSink(t, 410), &observed{}
	in := newEngine(t, store, func(c *hookonce.Config) {
		*c = *settings(s.URL)
		c.Observer = o.observer()
	})
	run(t, in)
	deliver(in, delivery("1", "{}"))
	settled(t, store, "1", driver.StateDead)
	o.takeDeliveries(t)
	for _, a := range take(o, &o.attempts, func(*observe.Attempt) {}) {
		if a.Outcome != "dead" || a.StatusCode != 410 {
			t.Errorf("the attempt is observed as %+v, want dead with status 410", a)
		}
	}
	deliver(in, delivery("1", "{}"))
	want := []observe.Delivery{{Source: "gh", Status: 200, Outcome: "reopened", Events: 1, Reopened: 1}}
	if diff := cmp.Diff(want, o.takeDeliveries(t)); diff != "" {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
}

// The observer gets every statement, also the failed ones.
func TestClaimsAreObserved(t *testing.T) {
	t.Parallel()
	o := &observed{}
	store := &rig.FaultStore{Store: rig.OpenSQLite(t), Before: rig.FailFor(driver.ErrBadRow, "1")}
	in := newEngine(t, store, func(c *hookonce.Config) {
		items(c)
		c.Observer = o.observer()
	})
	deliver(in, delivery("b", `{"items":[{"id":1},{"id":2}]}`))
	var sizes []int
	failed := 0
	for _, c := range take(o, &o.claims, func(*observe.Claim) {}) {
		sizes = append(sizes, c.Size)
		if c.Err != nil {
			failed++
		}
		if c.Err != nil && !errors.Is(c.Err, driver.ErrBadRow) {
			t.Errorf("the error of the claim is %v, want a bad row", c.Err)
		}
	}
	if diff := cmp.Diff([]int{2, 1, 1}, sizes); diff != "" || failed != 2 || len(sizes) != int(store.Calls.Load()) {
		t.Errorf("%d statements failed, want 2; sizes (-want +got):\n%s", failed, diff)
	}
}

func TestAttemptsAreObserved(t *testing.T) {
	t.Parallel()
	store, o := rig.OpenSQLite(t), &observed{}
	broken, gone := errors.New("broken"), hookonce.Permanent(errors.New("gone"))
	in := newEngine(t, store, func(c *hookonce.Config) {
		stale(c)
		sendBy(c, func(_ context.Context, m *hookonce.Outgoing) error {
			switch {
			case m.EventID == "a-2" && m.Attempt == 1:
				return broken
			case m.EventID == "b-1":
				return gone
			case m.EventID == "c-1" && m.Attempt == 1:
				panic("a defect")
			}
			return nil
		})
		c.Observer = o.observer()
	})
	run(t, in)
	wantAttempts := func(want ...observe.Attempt) {
		t.Helper()
		for i := range want {
			w := &want[i]
			w.Kind, w.Source, w.Type, w.Destination = "message", "gh", "push", "app"
		}
		// The observer gets an attempt before the store does, so all are here once the event is
		// settled.
		got := take(o, &o.attempts, func(a *observe.Attempt) {
			if (a.Took > 0) == (a.Outcome == "skipped") {
				t.Errorf("%+v: only a skipped attempt has no duration", *a)
			}
			a.Took = 0
		})
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b error) bool {
			return errors.Is(a, b) || errors.Is(b, a) || a != nil && b != nil && a.Error() == b.Error()
		})); diff != "" {
			t.Errorf("observed (-want +got):\n%s", diff)
		}
	}
	deliver(in, versioned("a", "2"))
	settled(t, store, "a-2", driver.StateDone)
	wantAttempts(
		observe.Attempt{EventID: "a-2", Attempt: 1, Outcome: "retry", Err: broken},
		observe.Attempt{EventID: "a-2", Attempt: 2, Outcome: "sent"},
	)
	deliver(in, versioned("a", "1"))
	settled(t, store, "a-1", driver.StateSkipped)
	wantAttempts(observe.Attempt{EventID: "a-1", Attempt: 1, Outcome: "skipped"})
	deliver(in, versioned("b", "1"))
	settled(t, store, "b-1", driver.StateDead)
	wantAttempts(observe.Attempt{EventID: "b-1", Attempt: 1, Outcome: "dead", Err: gone})
	deliver(in, versioned("c", "1"))
	settled(t, store, "c-1", driver.StateDone)
	wantAttempts(
		observe.Attempt{EventID: "c-1", Attempt: 1, Outcome: "retry", Err: errors.New("the Sender panicked: a defect")},
		observe.Attempt{EventID: "c-1", Attempt: 2, Outcome: "sent"},
	)
}

func TestPruningIsObserved(t *testing.T) {
	t.Parallel()
	o := &observed{}
	in := newEngine(t, rig.OpenSQLite(t), func(c *hookonce.Config) {
		c.Retention = time.Microsecond
		c.Observer = o.observer()
	})
	deliver(in, delivery("1", "{}"))
	for range 2 { // the second call finds nothing, so the observer gets nothing
		if _, err := in.Prune(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	want := []observe.Pruned{{Bodies: 1}}
	if diff := cmp.Diff(want, take(o, &o.pruned, func(*observe.Pruned) {})); diff != "" {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
}

// Only a direct Observer is called in the goroutine that answers.
func TestDirectObserver(t *testing.T) {
	t.Parallel()
	for _, direct := range []bool{false, true} {
		var within bool // the handler's goroutine
		in := newEngine(t, rig.OpenSQLite(t), func(c *hookonce.Config) {
			c.Observer = &observe.Observer{Direct: direct, Delivery: func(observe.Delivery) {
				within = strings.Contains(string(debug.Stack()), "ServeHTTP(")
			}}
		})
		if got := deliver(in, delivery("1", "{}")); got != ok || within != direct {
			t.Errorf("direct %t: delivery %+v, called in the goroutine of the request: %t", direct, got, within)
		}
	}
}

package inbox_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/operate"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

// quarantined returns the requests of the quarantine.
func quarantined(t *testing.T, store driver.Store) []driver.QuarantinedRequest {
	t.Helper()
	page, err := store.Quarantined(t.Context(), &driver.QuarantineFilter{})
	if err != nil {
		t.Fatal(err)
	}
	return page.Requests
}

// oneQuarantined returns the only request of the quarantine.
func oneQuarantined(t *testing.T, store driver.Store) *driver.QuarantinedRequest {
	t.Helper()
	all := quarantined(t, store)
	if len(all) != 1 {
		t.Fatalf("the quarantine has %d requests, want one: %+v", len(all), all)
	}
	return &all[0]
}

// wantRetried retries a request and checks the result.
func wantRetried(t *testing.T, in *hookonce.Engine, key driver.Key, want operate.RetriedRequest) {
	t.Helper()
	got, err := in.Operator().RetryQuarantined(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	want.Source = "gh"
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Errorf("retried (-want +got):\n%s", diff)
	}
}

// wantUnreadable retries a request, and checks that it stays with a reason that holds part.
func wantUnreadable(t *testing.T, in *hookonce.Engine, store driver.Store, before *driver.QuarantinedRequest, part string) {
	t.Helper()
	_, err := in.Operator().RetryQuarantined(t.Context(), before.Key)
	still, is := errors.AsType[*operate.UnreadableError](err)
	if !is || !strings.Contains(still.Reason, part) {
		t.Fatalf("retried: error %v, want one for a request that stays because of %q", err, part)
	}
	after, err := store.QuarantinedRequest(t.Context(), before.Key)
	if err != nil {
		t.Fatal(err)
	}
	want := *before
	want.Reason = still.Reason
	if diff := cmp.Diff(&want, after); diff != "" {
		t.Errorf("the request in the quarantine (-want +got):\n%s", diff)
	}
}

// idAt makes gh read the event id at location.
func idAt(location string) func(*hookonce.Config) { return rules(provider.EventRules{ID: location}) }

// rules makes gh read events by r.
func rules(r provider.EventRules) func(*hookonce.Config) {
	return func(c *hookonce.Config) { c.Sources[0].Event = r }
}

// routePushes sends pushes of gh to a destination.
func routePushes(c *hookonce.Config) {
	c.Destinations = []hookonce.Destination{{Name: "billing", URL: "https://billing.example.com/"}}
	c.Routes = []hookonce.Route{{Name: "pushes", Types: []string{"push"}, To: "billing"}}
}

// After the settings are corrected, a retry claims the request as a delivery would: same headers,
// body, routes and identity.
func TestRetryQuarantinedAfterCorrection(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	const body = `{"uid":"e1"}`
	if got := deliver(newEngine(t, store, idAt("body:id")), delivery("h", body)); got.Code != 400 {
		t.Fatalf("answer %+v, want 400", got)
	}
	kept := oneQuarantined(t, store)
	log := &rig.Log{}
	in := newEngine(t, store, func(c *hookonce.Config) {
		idAt("body:uid")(c)
		routePushes(c)
		c.Logger = log.Logger()
	})
	wantRetried(t, in, kept.Key, operate.RetriedRequest{EventIDs: []string{"e1"}, Claimed: 1})
	if left := quarantined(t, store); len(left) > 0 {
		t.Errorf("the quarantine has %+v after the retry", left)
	}
	log.WantOne(t, `msg="quarantined request retried" source=gh`)
	ev := eventState(t, store, "e1")
	if ev.Type != "push" || string(ev.Body) != body || len(ev.Messages) != 1 || ev.Messages[0].Destination != "billing" || !bytes.Contains(ev.Headers, []byte("X-Hub-Signature-256")) {
		t.Errorf("the event is %+v, want the request, routed", ev)
	}
	// The sender's next delivery has the same identity and body.
	if got := deliver(in, delivery("h", body)); got.Status != "duplicate" {
		t.Errorf("the next delivery is answered %+v, want a duplicate", got)
	}
	if _, err := in.Operator().RetryQuarantined(t.Context(), kept.Key); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("a second retry: error %v, want %v", err, driver.ErrNotFound)
	}
}

// unsettled is a store whose quarantine cannot be changed, as if the process ended after the claim.
type unsettled struct{ driver.Store }

func (unsettled) SettleQuarantined(context.Context, *driver.SettleQuarantinedParams) (bool, error) {
	return false, driver.ErrUnavailable
}

// A claim that fails leaves the request in the quarantine as it is. A retry that ends between the claim
// and the removal leaves a request whose next retry is a duplicate.
func TestRetryQuarantinedWhileTheDatabaseFails(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	deliver(newEngine(t, store, idAt("body:id")), delivery("h", `{"uid":"e1"}`))
	kept := oneQuarantined(t, store)
	for _, broken := range []driver.Store{
		&rig.FaultStore{Store: store, Before: rig.FailFor(driver.ErrUnavailable, "e1")}, unsettled{store},
	} {
		if _, err := newEngine(t, broken, idAt("body:uid")).Operator().RetryQuarantined(t.Context(), kept.Key); !errors.Is(err, driver.ErrUnavailable) {
			t.Fatalf("error %v, want %v", err, driver.ErrUnavailable)
		}
		if diff := cmp.Diff(kept, oneQuarantined(t, store)); diff != "" {
			t.Errorf("the request in the quarantine (-want +got):\n%s", diff)
		}
	}
	wantRetried(t, newEngine(t, store, idAt("body:uid")), kept.Key, operate.RetriedRequest{EventIDs: []string{"e1"}, Duplicates: 1})
	if left := quarantined(t, store); len(left) > 0 {
		t.Errorf("the quarantine has %+v after the retry", left)
	}
	if d := eventState(t, store, "e1").Deliveries; d.Count != 2 || d.OtherBodies != 0 {
		t.Errorf("the event has %+v, want two deliveries of one body", d)
	}
}

// An item is stored alone and read as an item, not as the body of a batch.
func TestRetryQuarantinedItem(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	wrong := provider.EventRules{ID: "item:id", Type: "item:kind", Batch: "body:items"}
	deliver(newEngine(t, store, rules(wrong)), delivery("b", `{"items":[{"id":1},{"uid":"e2","kind":"push"}]}`))
	kept := oneQuarantined(t, store)
	if kept.Part != driver.PartItem {
		t.Fatalf("the part is %d, want an item", kept.Part)
	}
	right := wrong
	right.ID = "item:uid"
	in := newEngine(t, store, func(c *hookonce.Config) { rules(right)(c); routePushes(c) })
	wantRetried(t, in, kept.Key, operate.RetriedRequest{EventIDs: []string{"e2"}, Claimed: 1})
	if ev := eventState(t, store, "e2"); string(ev.Body) != `{"uid":"e2","kind":"push"}` || ev.Type != "push" || len(ev.Messages) != 1 {
		t.Errorf("the event is %+v, want the item, routed", ev)
	}
}

// A request whose stored parts do not hold its event stays. An id or a type is never guessed: it may stand in other parts
// of a batch, in an element without its items, or in a secret header.
func TestRetryQuarantinedStays(t *testing.T) {
	t.Parallel()
	type r = provider.EventRules
	const changes = "body:entry[].changes"
	const ofBatch = "the rest of its batch"
	for name, tt := range map[string]struct {
		before r
		body   string // "" for an item of a batch
		after  r
		says   string
	}{
		"still unreadable":     {r{ID: "body:id"}, "{}", r{ID: "body:other"}, "body:other"},
		"secret header":        {r{ID: "body:id"}, "{}", r{ID: "header:X-Copy"}, "the value of that header"},
		"id around the item":   {r{ID: "item:none", Batch: changes}, "", r{ID: "outer:id + item:id", Batch: changes}, ofBatch},
		"other alternative":    {r{ID: "item:none", Batch: changes}, "", r{ID: "outer:id + item:n | item:id", Batch: changes}, ofBatch},
		"type of the batch":    {r{ID: "item:none", Batch: changes}, "", r{ID: "item:id", Type: "body:object", Batch: changes}, ofBatch},
		"sum of another part":  {r{ID: "item:none", Batch: changes}, "", r{ID: "item:id + sha256:body", Batch: changes}, ofBatch},
		"item read as a body":  {r{ID: "item:none", Batch: changes}, "", r{ID: "body:id"}, "event.batch"},
		"entry without a list": {r{ID: "item:id", Batch: changes}, `{"entry":[{"changes":[{"id":1}]},{"id":"no event"}]}`, r{ID: "item:id", Batch: changes}, "without its items"},
		"empty batch":          {r{ID: "item:id", Batch: "body:items"}, `{"none":[]}`, r{ID: "item:id", Batch: "body:none"}, "it holds no events"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := rig.OpenSQLite(t)
			body := tt.body
			if body == "" {
				body = `{"object":"page","entry":[{"id":1,"changes":[{"id":2,"n":3}]}]}`
			}
			deliver(newEngine(t, store, rules(tt.before)), delivery("h", body, func(r *http.Request) {
				r.URL.RawQuery = "token=canary"
				r.Header.Set("X-Copy", "/?token=canary") // it is not stored
			}))
			wantUnreadable(t, newEngine(t, store, rules(tt.after)), store, oneQuarantined(t, store), tt.says)
		})
	}
}

// A batch that could not be read at all is stored whole. Its events are claimed; an item that is
// still unreadable, or that the database refuses, is then in the quarantine by itself.
func TestRetryQuarantinedBatch(t *testing.T) {
	t.Parallel()
	store, mend := picky(t)
	in := newEngine(t, store, rules(provider.EventRules{ID: "item:id", Batch: "body:events"}))
	deliver(newEngine(t, store, items), delivery("b", `{"events":[{"id":"a"},{},{"id":"refused"},{"id":"b"},{"id":"a"}]}`))
	kept := oneQuarantined(t, store)
	wantRetried(t, in, kept.Key, operate.RetriedRequest{EventIDs: []string{"a", "b", "a"}, Claimed: 2, Duplicates: 1, Kept: 2})
	bodies := map[string]bool{}
	for _, q := range quarantined(t, store) {
		bodies[string(q.Body)] = q.Part == driver.PartItem
	}
	if want := (map[string]bool{`{}`: true, `{"id":"refused"}`: true}); !cmp.Equal(bodies, want) {
		t.Errorf("the quarantine has the items %v, want %v", bodies, want)
	}
	for _, q := range quarantined(t, store) {
		if string(q.Body) == `{"id":"refused"}` {
			wantUnreadable(t, in, store, &q, "no such encoding")
			mend()
			wantRetried(t, in, q.Key, operate.RetriedRequest{EventIDs: []string{"refused"}, Claimed: 1})
		}
	}
}

// zipped compresses the body of a delivery, which its signature covers.
func zipped(t *testing.T, body string) *http.Request {
	t.Helper()
	var buf bytes.Buffer
	zw := gzip.NewWriter(&buf)
	if _, err := io.WriteString(zw, body); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	r := delivery("z", buf.String())
	r.Header.Set("Content-Encoding", "gzip")
	return r
}

// A compressed request is stored as it was signed, and its items inflated.
func TestRetryQuarantinedGzip(t *testing.T) {
	t.Parallel()
	accepts := func(change func(*hookonce.Config)) func(*hookonce.Config) {
		return func(c *hookonce.Config) {
			change(c)
			c.Sources[0].ContentEncodings = []string{"gzip"}
		}
	}
	t.Run("request", func(t *testing.T) {
		t.Parallel()
		store := rig.OpenSQLite(t)
		deliver(newEngine(t, store, accepts(idAt("body:id"))), zipped(t, `{"uid":"e1"}`))
		in := newEngine(t, store, accepts(idAt("body:uid")))
		wantRetried(t, in, oneQuarantined(t, store).Key, operate.RetriedRequest{EventIDs: []string{"e1"}, Claimed: 1})
		if got := deliver(in, zipped(t, `{"uid":"e1"}`)); got.Status != "duplicate" {
			t.Errorf("the next delivery is answered %+v, want a duplicate", got)
		}
		if ev := eventState(t, store, "e1"); ev.Deliveries.OtherBodies != 0 || !bytes.HasPrefix(ev.Body, []byte("\x1f\x8b")) {
			t.Errorf("the event is %+v, want the compressed body, delivered twice", ev)
		}
	})
	t.Run("item", func(t *testing.T) {
		t.Parallel()
		store := rig.OpenSQLite(t)
		deliver(newEngine(t, store, accepts(items)), zipped(t, `{"items":[{"uid":"e1"}]}`))
		in := newEngine(t, store, accepts(rules(provider.EventRules{ID: "item:uid", Batch: "body:items"})))
		wantRetried(t, in, oneQuarantined(t, store).Key, operate.RetriedRequest{EventIDs: []string{"e1"}, Claimed: 1})
		if ev := eventState(t, store, "e1"); string(ev.Body) != `{"uid":"e1"}` || bytes.Contains(ev.Headers, []byte("gzip")) {
			t.Errorf("the event is %+v, want the inflated item", ev)
		}
	})
}

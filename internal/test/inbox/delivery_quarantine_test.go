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
func wantRetried(t *testing.T, in *hookonce.Engine, key driver.Key, want hookonce.RetriedRequest) {
	t.Helper()
	got, err := in.RetryQuarantined(t.Context(), key)
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
	_, err := in.RetryQuarantined(t.Context(), before.Key)
	still, is := errors.AsType[*hookonce.UnreadableError](err)
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

func idAt(location string) func(*hookonce.Config) {
	return func(c *hookonce.Config) { c.Sources[0].Event.ID = location }
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
	wantRetried(t, in, kept.Key, hookonce.RetriedRequest{EventIDs: []string{"e1"}, Claimed: 1})
	if left := quarantined(t, store); len(left) > 0 {
		t.Errorf("the quarantine has %+v after the retry", left)
	}
	if text := strings.Join(log.Lines(), ""); !strings.Contains(text, `msg="quarantined request retried" source=gh`) {
		t.Errorf("the log does not tell of the retry:\n%s", text)
	}
	ev := eventState(t, store, "e1")
	if ev.Type != "push" || string(ev.Body) != body || len(ev.Messages) != 1 || ev.Messages[0].Destination != "billing" || !bytes.Contains(ev.Headers, []byte("X-Hub-Signature-256")) {
		t.Errorf("the event is %+v, want the request, routed", ev)
	}
	// The sender's next delivery has the same identity and body.
	if got := deliver(in, delivery("h", body)); got.Status != "duplicate" {
		t.Errorf("the next delivery is answered %+v, want a duplicate", got)
	}
	if _, err := in.RetryQuarantined(t.Context(), kept.Key); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("a second retry: error %v, want %v", err, driver.ErrNotFound)
	}
}

func TestRetryQuarantinedStaysUnreadable(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	deliver(newEngine(t, store, idAt("body:id")), delivery("h", `{"uid":"e1"}`))
	wantUnreadable(t, newEngine(t, store, idAt("body:other")), store, oneQuarantined(t, store), "body:other")
}

// The event was claimed in the meantime: the retry is a duplicate delivery and counts as one.
func TestRetryQuarantinedDuplicate(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	const body = `{"uid":"e1"}`
	deliver(newEngine(t, store, idAt("body:id")), delivery("h", body))
	in := newEngine(t, store, idAt("body:uid"))
	if got := deliver(in, delivery("h", body)); got.Status != "ok" {
		t.Fatalf("answer %+v, want a new event", got)
	}
	wantRetried(t, in, oneQuarantined(t, store).Key, hookonce.RetriedRequest{EventIDs: []string{"e1"}, Duplicates: 1})
	if left := quarantined(t, store); len(left) > 0 {
		t.Errorf("the quarantine has %+v after the retry", left)
	}
	if d := eventState(t, store, "e1").Deliveries; d.Count != 2 || d.OtherBodies != 0 {
		t.Errorf("the event has %+v, want two deliveries of one body", d)
	}
}

// unsettled is a store whose quarantine cannot be changed, as if the process ended after the claim.
type unsettled struct{ driver.Store }

func (unsettled) SettleQuarantined(context.Context, *driver.SettleQuarantinedParams) (bool, error) {
	return false, driver.ErrUnavailable
}

// A retry that ends between the claim and the removal leaves a request whose next retry is a
// duplicate.
func TestRetryQuarantinedInterrupted(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	deliver(newEngine(t, store, idAt("body:id")), delivery("h", `{"uid":"e1"}`))
	kept := oneQuarantined(t, store)
	if _, err := newEngine(t, unsettled{store}, idAt("body:uid")).RetryQuarantined(t.Context(), kept.Key); !errors.Is(err, driver.ErrUnavailable) {
		t.Fatalf("error %v, want %v", err, driver.ErrUnavailable)
	}
	oneQuarantined(t, store)
	wantRetried(t, newEngine(t, store, idAt("body:uid")), kept.Key, hookonce.RetriedRequest{EventIDs: []string{"e1"}, Duplicates: 1})
}

// A claim that fails leaves the request in the quarantine as it is.
func TestRetryQuarantinedWhileTheDatabaseFails(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	deliver(newEngine(t, store, idAt("body:id")), delivery("h", `{"uid":"e1"}`))
	kept := oneQuarantined(t, store)
	broken := &rig.FaultStore{Store: store, Before: rig.FailFor(driver.ErrUnavailable, "e1")}
	if _, err := newEngine(t, broken, idAt("body:uid")).RetryQuarantined(t.Context(), kept.Key); !errors.Is(err, driver.ErrUnavailable) {
		t.Fatalf("error %v, want %v", err, driver.ErrUnavailable)
	}
	if diff := cmp.Diff(kept, oneQuarantined(t, store)); diff != "" {
		t.Errorf("the request in the quarantine (-want +got):\n%s", diff)
	}
}

func TestRetryQuarantinedOfUnknownSource(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	deliver(newEngine(t, store, idAt("body:id")), delivery("h", `{"uid":"e1"}`))
	kept := oneQuarantined(t, store)
	in := newEngine(t, store, func(c *hookonce.Config) { c.Sources[0].Name = "other" })
	if _, err := in.RetryQuarantined(t.Context(), kept.Key); !errors.Is(err, hookonce.ErrUnknownSource) {
		t.Errorf("error %v, want %v", err, hookonce.ErrUnknownSource)
	}
	if diff := cmp.Diff(kept, oneQuarantined(t, store)); diff != "" {
		t.Errorf("the request in the quarantine (-want +got):\n%s", diff)
	}
}

// batchOf makes gh send batches.
func batchOf(rules provider.EventRules) func(*hookonce.Config) {
	return func(c *hookonce.Config) { c.Sources[0].Event = rules }
}

// An item is stored alone and read as an item, not as the body of a batch.
func TestRetryQuarantinedItem(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	wrong := provider.EventRules{ID: "item:id", Type: "item:kind", Batch: "body:items"}
	deliver(newEngine(t, store, batchOf(wrong)), delivery("b", `{"items":[{"id":1},{"uid":"e2","kind":"push"}]}`))
	kept := oneQuarantined(t, store)
	if kept.Part != driver.PartItem {
		t.Fatalf("the part is %d, want an item", kept.Part)
	}
	wantUnreadable(t, newEngine(t, store, idAt("body:uid")), store, kept, "event.batch")
	right := wrong
	right.ID = "item:uid"
	in := newEngine(t, store, func(c *hookonce.Config) { batchOf(right)(c); routePushes(c) })
	wantRetried(t, in, kept.Key, hookonce.RetriedRequest{EventIDs: []string{"e2"}, Claimed: 1})
	if ev := eventState(t, store, "e2"); string(ev.Body) != `{"uid":"e2","kind":"push"}` || ev.Type != "push" || len(ev.Messages) != 1 {
		t.Errorf("the event is %+v, want the item, routed", ev)
	}
}

// An id or a type that is read from other parts of a batch, or from an element without its items, is
// never guessed from the stored part.
func TestRetryQuarantinedPartNeedsItsBatch(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string]provider.EventRules{
		"id around the item":  {ID: "outer:id + item:id", Batch: "body:entry[].changes"},
		"other alternative":   {ID: "outer:id + item:n | item:id", Batch: "body:entry[].changes"},
		"type of the batch":   {ID: "item:id", Type: "body:object", Batch: "body:entry[].changes"},
		"sum of another part": {ID: "item:id + sha256:body", Batch: "body:entry[].changes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := rig.OpenSQLite(t)
			wrong := provider.EventRules{ID: "item:none", Batch: rules.Batch}
			deliver(newEngine(t, store, batchOf(wrong)), delivery("b", `{"object":"page","entry":[{"id":1,"changes":[{"id":2,"n":3}]}]}`))
			wantUnreadable(t, newEngine(t, store, batchOf(rules)), store, oneQuarantined(t, store), "the rest of its batch")
		})
	}
	t.Run("entry", func(t *testing.T) {
		t.Parallel()
		store := rig.OpenSQLite(t)
		in := newEngine(t, store, batchOf(provider.EventRules{ID: "item:id", Batch: "body:entry[].changes"}))
		deliver(in, delivery("b", `{"entry":[{"changes":[{"id":1}]},{"id":"not an event"}]}`))
		wantUnreadable(t, in, store, oneQuarantined(t, store), "without its items")
	})
}

// The value of a secret header is not stored. An id is never made of its replacement.
func TestRetryQuarantinedNeedsASecretHeader(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	r := delivery("h", "{}")
	r.Header.Set("Authorization", "Bearer canary")
	deliver(newEngine(t, store, idAt("body:id")), r)
	in := newEngine(t, store, idAt("header:Authorization"))
	wantUnreadable(t, in, store, oneQuarantined(t, store), "the value of that header")
}

// A batch that could not be read at all is stored whole. Its events are claimed; an item that is
// still unreadable, or that the database refuses, is then in the quarantine by itself.
func TestRetryQuarantinedBatch(t *testing.T) {
	t.Parallel()
	store, exec := openWithSQL(t)
	exec(`CREATE TRIGGER picky BEFORE INSERT ON hookonce_event WHEN NEW.event_id LIKE '%refused%'
		BEGIN SELECT RAISE(ABORT, 'no such encoding'); END`)
	rules := provider.EventRules{ID: "item:id", Batch: "body:events"}
	in := newEngine(t, store, batchOf(rules))
	deliver(newEngine(t, store, items), delivery("b", `{"events":[{"id":"a"},{},{"id":"refused"},{"id":"b"},{"id":"a"}]}`))
	kept := oneQuarantined(t, store)
	wantRetried(t, in, kept.Key, hookonce.RetriedRequest{EventIDs: []string{"a", "b", "a"}, Claimed: 2, Duplicates: 1, Kept: 2})
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
			exec(`DROP TRIGGER picky`)
			wantRetried(t, in, q.Key, hookonce.RetriedRequest{EventIDs: []string{"refused"}, Claimed: 1})
		}
	}
}

// A list that holds nothing is no reason to forget a request that was kept.
func TestRetryQuarantinedEmptyBatch(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	deliver(newEngine(t, store, items), delivery("b", `{"events":[{"id":"a"}],"none":[]}`))
	in := newEngine(t, store, batchOf(provider.EventRules{ID: "item:id", Batch: "body:none"}))
	wantUnreadable(t, in, store, oneQuarantined(t, store), "it holds no events")
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
		wantRetried(t, in, oneQuarantined(t, store).Key, hookonce.RetriedRequest{EventIDs: []string{"e1"}, Claimed: 1})
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
		in := newEngine(t, store, accepts(batchOf(provider.EventRules{ID: "item:uid", Batch: "body:items"})))
		wantRetried(t, in, oneQuarantined(t, store).Key, hookonce.RetriedRequest{EventIDs: []string{"e1"}, Claimed: 1})
		if ev := eventState(t, store, "e1"); string(ev.Body) != `{"uid":"e1"}` || bytes.Contains(ev.Headers, []byte("gzip")) {
			t.Errorf("the event is %+v, want the inflated item", ev)
		}
	})
}

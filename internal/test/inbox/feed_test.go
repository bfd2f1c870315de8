package inbox_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// feedStore is a store whose live feed somebody looks at. It knows whether its process has noticed: only then the
// process collects the rows of SQL consumers.
type feedStore[T any] struct {
	driver.Driver[T]
	noticed atomic.Bool
}

func (s *feedStore[T]) CollectFeed(ctx context.Context) ([]driver.FeedRow, error) {
	s.noticed.Store(true)
	return s.Driver.CollectFeed(ctx)
}

// watched runs in while somebody looks at the live feed.
func (s *feedStore[T]) watched(t *testing.T, in runner) {
	t.Helper()
	if _, err := s.WatchFeed(t.Context(), &driver.WatchFeedParams{For: driver.MaxFeedWatch}); err != nil {
		t.Fatal(err)
	}
	run(t, in)
	rig.WaitFor(t, s.noticed.Load)
}

// wantFeed waits for the rows of the feed, as "kind event_id outcome error", in any order.
func wantFeed(t *testing.T, store driver.Store, want ...string) {
	t.Helper()
	var got []string
	rig.WaitFor(t, func() bool {
		page, err := store.ReadFeed(t.Context(), &driver.ReadFeedParams{})
		if err != nil {
			t.Fatal(err)
		}
		got = nil
		for i := range page.Rows {
			r := &page.Rows[i]
			var details struct{ Error, Reason string }
			if err := json.Unmarshal(r.Details, &details); err != nil {
				t.Fatal(err)
			}
			words := []string{r.Kind.String(), r.EventID, r.Outcome, details.Error, details.Reason}
			got = append(got, strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " "))
		}
		return len(got) >= len(want)
	})
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFeedOfHandlers shows runs of handlers, and changes by an operator.
func TestFeedOfHandlers(t *testing.T) {
	t.Parallel()
	l := onSQLite(t)
	store := &feedStore[*sql.Tx]{Driver: l.db}
	l.db = store
	mux := &hookonce.Mux[*sql.Tx]{}
	hookonce.Handle(mux, "gh", "push", func(_ context.Context, _ *sql.Tx, ev *hookonce.Event) error {
		if ev.ID == "bad" {
			return hookonce.Permanent(errors.New("gone"))
		}
		return nil
	})
	in := inbox(t, l, mux, nil)
	store.watched(t, in)
	deliver(in, delivery("1", "{}"))
	deliver(in, delivery("bad", "{}"))
	settled(t, l.db, "bad", driver.StateDead)
	rows := []string{"delivery 1 ok", "event 1 done", "delivery bad ok", "event bad dead gone"}
	wantFeed(t, l.db, rows...)
	if _, err := in.Replay(t.Context(), &hookonce.ReplayRequest{Source: "gh", EventID: "bad"}); err != nil {
		t.Fatal(err)
	}
	rows = append(rows, "event bad replayed", "event bad dead gone")
	wantFeed(t, l.db, rows...)
	if _, err := in.Discard(t.Context(), &hookonce.DeadLetters{Filter: driver.MessageFilter{Source: "gh"}}); err != nil {
		t.Fatal(err)
	}
	wantFeed(t, l.db, append(rows, "event bad discarded")...)
}

// TestFeedOfInline shows failures of an Inline handler, its dead letter, and one that is filed because its
// sender did not deliver again.
func TestFeedOfInline(t *testing.T) {
	t.Parallel()
	l := onSQLite(t)
	store := &feedStore[*sql.Tx]{Driver: l.db}
	l.db = store
	mux := &hookonce.Mux[*sql.Tx]{}
	hookonce.Handle(mux, "gh", "*", func(context.Context, *sql.Tx, *hookonce.Event) error { return errors.New("no stock") })
	in := inbox(t, l, mux, func(c *hookonce.Config) {
		c.Sources[0].Inline, c.Sources[0].DeadLetter = true, hookonce.AfterAttempts(2)
		c.Retention = time.Second // so it looks every second
	})
	_, err := l.db.CountInlineFailure(t.Context(), &driver.InlineFailure{
		Claim: driver.Claim{Key: driver.EventKey("gh", "old"), Source: "gh", EventID: "old", Type: "push", Headers: []byte("{}"), Body: []byte("{}")},
		Error: "no stock then", Limit: 5, Now: time.Now().Add(-25 * time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	store.watched(t, in)
	deliver(in, delivery("1", "{}"))
	deliver(in, delivery("1", "{}"))
	wantFeed(t, l.db, "delivery failed an Inline handler failed", "event 1 retry no stock", "delivery 1 ok", "event 1 dead no stock", "event old dead no stock then")
}

// TestFeedOfLostRuns shows the event of a run whose connection was lost.
func TestFeedOfLostRuns(t *testing.T) {
	t.Parallel()
	store, isPGX := onPGX(t).db.(*hookpgx.Store)
	if !isPGX {
		t.Fatal("the library on pgx has another store")
	}
	feed := &feedStore[pgx.Tx]{Driver: store}
	mux := &hookpgx.Mux{}
	hookonce.Handle(mux, "gh", "*", func(context.Context, pgx.Tx, *hookonce.Event) error { return nil })
	in, err := hookonce.New(feed, mux, settings(""))
	if err != nil {
		t.Fatal(err)
	}
	if got := deliver(in, delivery("1", "{}")); got != ok {
		t.Fatalf("answer %+v", got)
	}
	lost, err := store.Take(t.Context(), &driver.TakeParams{
		Source: "gh", Types: []string{"*"}, Limit: 1, HandlerTimeout: time.Minute, Retry: driver.Retry{Attempts: 5, First: time.Millisecond, Max: time.Millisecond},
	})
	if err != nil || lost == nil {
		t.Fatalf("took %v, %v", lost, err)
	}
	t.Cleanup(func() { _ = lost.Abandon(context.WithoutCancel(t.Context())) }) // gives the connection back
	if err := lost.Next(t.Context(), driver.EventKey("gh", "1"), &driver.FinishParams{}); err != nil {
		t.Fatal(err)
	}
	feed.watched(t, in) // first: the feed gets no rows from before
	if _, err := lost.Tx().Exec(t.Context(), "SELECT pg_terminate_backend(pg_backend_pid())"); err == nil {
		t.Fatal("the connection lives")
	}
	settled(t, store, "1", driver.StateDone)
	wantFeed(t, store, "event 1 retry "+driver.ErrorRunInterrupted, "event 1 done")
}

// TestFeedOfDeliveries shows each event of a batch, messages, and refused requests.
func TestFeedOfDeliveries(t *testing.T) {
	t.Parallel()
	store := &feedStore[*sql.Tx]{Driver: rig.OpenSQLite(t)}
	in := newEngine(t, store, func(c *hookonce.Config) {
		items(c)
		c.Sources[0].Malformed = hookonce.MalformedQuarantine
		c.Destinations = []hookonce.Destination{{
			Name: "app", Retry: hookonce.Retry{First: time.Millisecond, Max: time.Millisecond},
			Sender: hookonce.SenderFunc(func(_ context.Context, m *hookonce.Outgoing) error {
				if m.EventID == "2" && m.Attempt == 1 {
					return errors.New("broken")
				}
				return nil
			}),
		}}
		c.Routes = []hookonce.Route{{Name: "all", To: "app"}}
	})
	store.watched(t, in)
	deliver(in, delivery("b", `{"items":[{"id":1},{"id":1},{"id":{}},{"id":2}]}`))
	get := delivery("g", "{}")
	get.Method = http.MethodGet
	deliver(in, get)
	unknown := delivery("u", "{}")
	unknown.URL.Path = "/webhooks/other"
	deliver(in, unknown)
	wantFeed(t, store, "delivery 1 ok", "delivery 1 duplicate", "delivery malformed", "delivery 2 ok",
		"attempt 1 sent", "attempt 2 retry broken", "attempt 2 sent", "refused refused method", "refused refused unknown_source")
}

// The address of a client stands without the port: a filter by it finds all of its connections.
func TestRemotesHaveNoPort(t *testing.T) {
	t.Parallel()
	store := &feedStore[*sql.Tx]{Driver: rig.OpenSQLite(t)}
	in := newEngine(t, store, nil)
	store.watched(t, in)
	for _, port := range []string{"1", "2"} {
		r := delivery(port, "{}")
		r.RemoteAddr = "[2001:db8::7]:" + port
		deliver(in, r)
		r = delivery(port, "{}")
		r.RemoteAddr = "192.0.2.7:" + port
		r.Header.Set("X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64))
		if w := deliver(in, r); w.Code != http.StatusUnauthorized {
			t.Fatalf("answer %+v", w)
		}
	}
	rig.WaitFor(t, func() bool {
		page, err := store.Refused(t.Context(), &driver.RefusedFilter{Remote: "192.0.2.7"})
		if err != nil {
			t.Fatal(err)
		}
		return len(page.Requests) == 2
	})
	event, err := store.Event(t.Context(), "gh", "1")
	if err != nil || event.Deliveries.FirstRemote != "2001:db8::7" {
		t.Errorf("the first delivery is from %q, error %v", event.Deliveries.FirstRemote, err)
	}
	got := make(map[string]bool)
	rig.WaitFor(t, func() bool {
		clear(got)
		page, err := store.ReadFeed(t.Context(), &driver.ReadFeedParams{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range page.Rows {
			var details struct{ Remote string }
			if err := json.Unmarshal(page.Rows[i].Details, &details); err != nil {
				t.Fatal(err)
			}
			got[details.Remote] = true
		}
		return len(page.Rows) >= 3 // equal refusals may be one row
	})
	if diff := cmp.Diff(map[string]bool{"2001:db8::7": true, "192.0.2.7": true}, got); diff != "" {
		t.Errorf("clients in the feed (-want +got):\n%s", diff)
	}
}

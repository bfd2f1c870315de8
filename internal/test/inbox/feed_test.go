package inbox_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// feedStore is a store whose live feed somebody looks at. It knows whether its process has noticed: only then the
// process collects the rows of SQL consumers.
type feedStore struct {
	driver.Driver[*sql.Tx]
	noticed atomic.Bool
}

func (s *feedStore) CollectFeed(ctx context.Context) ([]driver.FeedRow, error) {
	s.noticed.Store(true)
	return s.Driver.CollectFeed(ctx)
}

// watched runs in while somebody looks at the live feed.
func (s *feedStore) watched(t *testing.T, in runner) {
	t.Helper()
	if _, err := s.WatchFeed(t.Context(), &driver.WatchFeedParams{For: driver.MaxFeedWatch}); err != nil {
		t.Fatal(err)
	}
	run(t, in)
	eventually.True(t, "the process has noticed", s.noticed.Load)
}

// wantFeed waits for the rows of the feed, as "kind event_id outcome error", in any order.
func wantFeed(t *testing.T, store driver.Store, want ...string) {
	t.Helper()
	var got []string
	eventually.True(t, "the feed has its rows", func() bool {
		page, err := store.ReadFeed(t.Context(), &driver.ReadFeedParams{})
		if err != nil {
			t.Fatal(err)
		}
		got = nil
		for i := range page.Rows {
			r := &page.Rows[i]
			var details struct{ Error, Reason, Remote string }
			if err := json.Unmarshal(r.Details, &details); err != nil {
				t.Fatal(err)
			}
			if details.Remote != "" && details.Remote != remote {
				t.Errorf("the client is %q, want %q: a filter by it finds all of its connections", details.Remote, remote)
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
	store := &feedStore{Driver: l.db}
	l.db = store
	in := inbox(t, l, handling(func(_ context.Context, _ *sql.Tx, ev *hookonce.Event) error {
		if ev.ID == "bad" {
			return hookonce.Permanent(errors.New("gone"))
		}
		return nil
	}), nil)
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
	store := &feedStore{Driver: l.db}
	l.db = store
	in := inbox(t, l, handling(func(context.Context, *sql.Tx, *hookonce.Event) error { return errNoStock }), func(c *hookonce.Config) {
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

// TestFeedOfDeliveries shows each event of a batch, messages, and refused requests.
func TestFeedOfDeliveries(t *testing.T) {
	t.Parallel()
	store := &feedStore{Driver: rig.OpenSQLite(t)}
	in := newEngine(t, store, func(c *hookonce.Config) {
		items(c)
		c.Sources[0].Malformed = hookonce.MalformedQuarantine
		sendBy(c, func(_ context.Context, m *hookonce.Outgoing) error {
			if m.EventID == "2" && m.Attempt == 1 {
				return errors.New("broken")
			}
			return nil
		})
	})
	store.watched(t, in)
	deliver(in, delivery("b", `{"items":[{"id":1},{"id":1},{"id":{}},{"id":2}]}`))
	deliver(in, delivery("g", "{}", get))
	deliver(in, delivery("u", "{}", to("other")))
	wantFeed(t, store, "delivery 1 ok", "delivery 1 duplicate", "delivery malformed", "delivery 2 ok",
		"attempt 1 sent", "attempt 2 retry broken", "attempt 2 sent", "refused refused method", "refused refused unknown_source")
}

package sqltest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
)

// wantCollected collects the rows of the live feed that the functions left, as "event_id outcome
// details".
func (w *world) wantCollected(t *testing.T, want ...string) {
	t.Helper()
	rows, err := w.store.CollectFeed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range rows {
		r := &rows[i]
		if r.Kind != driver.FeedEvent || r.Source != "shop" || r.Type == "" || time.Since(r.At).Abs() > time.Hour {
			t.Errorf("the row is %+v", r)
		}
		got = append(got, fmt.Sprintf("%s %s %s", r.EventID, r.Outcome, strings.ReplaceAll(string(r.Details), " ", "")))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows for the live feed (-want +got):\n%s", diff)
	}
}

func (w *world) watchFeed(t *testing.T) {
	t.Helper()
	if _, err := w.store.WatchFeed(t.Context(), &driver.WatchFeedParams{For: time.Minute}); err != nil {
		t.Fatal(err)
	}
}

// TestFeedOfConsumers: the outcomes of take and fail come to the live feed while somebody looks, and
// only those that were committed.
func TestFeedOfConsumers(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.put(t, "shop", "a", "b", "c", "d", "e", "f")
	s := w.connect(t)
	const all = "SELECT count(*) FROM hookonce.feed_consumed"
	take := func(id string) {
		t.Helper()
		s.run(t, "BEGIN")
		s.wantTake(t, 1, id)
		s.run(t, "COMMIT")
	}
	fail := func(id, more string) {
		t.Helper()
		s.run(t, fmt.Sprintf("SELECT hookonce.fail('shop', '%s', 'no\"order', first => '1 day', max => '1 day'%s)", id, more))
	}
	take("a")
	if n := get[int](t, w, all); n != 0 {
		t.Errorf("without a viewer %d rows were written", n)
	}

	w.watchFeed(t)
	s.run(t, "BEGIN")
	s.wantTake(t, 1, "b")
	w.wantCollected(t) // it waits for no transaction
	s.run(t, "ROLLBACK")
	take("b")
	fail("c", "")
	fail("d", ", permanent => true")
	w.wantCollected(t, `b done {"attempt":1}`, `c retry {"attempt":1,"error":"no\"order"}`, `d dead {"attempt":1,"error":"no\"order"}`)
	w.wantCollected(t) // each once

	take("e")
	w.exec(t, "UPDATE hookonce.feed_watch SET until = now() - interval '1 second'")
	fail("f", "")
	if n := get[int](t, w, all); n != 1 {
		t.Errorf("%d rows are left by the watch that has ended, want that of e", n)
	}
	w.watchFeed(t) // begins without them
	w.wantCollected(t)

	w.put(t, "shop", "g")
	take("g")
	prune := &driver.PruneParams{DedupeWindow: 48 * time.Hour, Retention: 24 * time.Hour, Now: time.Now().Add(driver.FeedKept - time.Minute)}
	for want := range 2 { // at first it is kept
		prune.Now = prune.Now.Add(time.Duration(want) * 2 * time.Minute)
		if _, err := w.store.Prune(t.Context(), prune); err != nil {
			t.Fatal(err)
		}
		if n := get[int](t, w, all); n != 1-want {
			t.Errorf("after pruning at %s there are %d rows, want %d", prune.Now, n, 1-want)
		}
	}
}

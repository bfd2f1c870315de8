package claims_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/claims"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// countDuplicate counts a duplicate of an event, from a client.
func countDuplicate(q *claims.Queue, c driver.Claim, remote string, otherBody bool) {
	c.Remote, c.Gateway = remote, "gw"
	q.Count(&c, &claims.Result{ClaimResult: driver.ClaimResult{Duplicate: true, OtherBody: otherBody}})
}

// remotes returns the clients of the deliveries of an event, the newest first.
func remotes(t *testing.T, store driver.Store, id string) []string {
	t.Helper()
	var all []string
	for _, d := range stored(t, store, id).Recent {
		all = append(all, d.Remote)
	}
	return all
}

func writeCounts(t *testing.T, q *claims.Queue) {
	t.Helper()
	if err := q.WriteCounts(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A storm of one event costs the memory and the writes of 20 deliveries.
func TestNewestDeliveriesOfAStorm(t *testing.T) {
	t.Parallel()
	store := &countingStore{Store: rig.OpenSQLite(t)}
	q := newQueue(t, store, nil)
	deliver(t, q, event("1", "a"))
	const n = 10_000
	for i := range n {
		countDuplicate(q, event("1", "a"), fmt.Sprint(i), false)
	}
	writeCounts(t, q)
	var want []string
	for i := range driver.MaxRecent {
		want = append(want, fmt.Sprint(n-1-i))
	}
	if diff := cmp.Diff(want, remotes(t, store, "1")); diff != "" {
		t.Errorf("newest deliveries (-want +got):\n%s", diff)
	}
	if got := stored(t, store, "1"); got.Duplicates != n || got.Recent[0].Gateway != "gw" || !got.Recent[0].SameBody {
		t.Errorf("got %d duplicates, and the newest delivery %+v", got.Duplicates, got.Recent[0])
	}
}

// noteStore keeps the counts that it gets.
type noteStore struct {
	driver.Store
	got []driver.DeliveryCount
}

func (s *noteStore) CountDeliveries(_ context.Context, p *driver.CountDeliveriesParams) error {
	s.got = append(s.got, p.Counts...)
	return p.Check()
}

// Duplicates of many events are bounded together, and every one is counted.
func TestDeliveriesOfManyEvents(t *testing.T) {
	t.Parallel()
	store := &noteStore{Store: rig.OpenSQLite(t)}
	q := newQueue(t, store, nil)
	const events, each, bound = 5000, 20, 65_536
	for round := range each {
		for i := range events {
			countDuplicate(q, event(fmt.Sprint(i), "a"), fmt.Sprint(round), false)
		}
	}
	writeCounts(t, q)
	noted, counted := 0, 0
	for i := range store.got {
		c := &store.got[i]
		noted += len(c.Recent)
		counted += c.Duplicates
		if last := c.Recent[len(c.Recent)-1].Remote; last != fmt.Sprint(each-1) {
			t.Fatalf("the newest delivery of an event is %s, want that of the last round", last)
		}
	}
	if noted != bound || counted != events*each {
		t.Errorf("%d deliveries noted and %d counted, want %d and %d", noted, counted, bound, events*each)
	}
	store.got = nil
	countDuplicate(q, event("1", "a"), "again", false)
	writeCounts(t, q)
	if len(store.got) != 1 || len(store.got[0].Recent) != 1 {
		t.Errorf("after the write, %+v", store.got)
	}
}

func TestOtherBodyIsTheFirst(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	q := newQueue(t, store, nil)
	large := strings.Repeat("b", driver.MaxOtherBody+1)
	first, second := event("1", large), event("1", "c")
	first.Headers = []byte(`{"A":["1"]}`)
	deliver(t, q, event("1", "a"), first, second)
	writeCounts(t, q)
	deliver(t, q, event("1", "d"))
	writeCounts(t, q)
	got := stored(t, store, "1")
	if got.OtherBody == nil {
		t.Fatal("no other body was kept")
	}
	got.OtherBody.At = time.Time{}
	want := &driver.OtherBody{Headers: first.Headers, Body: []byte(large[:driver.MaxOtherBody]), Size: int64(len(large)), SHA256: first.BodyHash}
	if diff := cmp.Diff(want, got.OtherBody); diff != "" {
		t.Errorf("other body (-want +got):\n%.1000s", diff)
	}
	same := []bool{false, false, false, true}
	for i, d := range got.Recent {
		if d.SameBody != same[i] {
			t.Errorf("delivery %d has the same body: %v", i, d.SameBody)
		}
	}
	if got.Deliveries.OtherBodies != 3 {
		t.Errorf("got %d other bodies, want 3", got.Deliveries.OtherBodies)
	}
}

// The other bodies that wait are bounded by their bytes.
func TestOtherBodiesOfManyEvents(t *testing.T) {
	t.Parallel()
	store := &noteStore{Store: rig.OpenSQLite(t)}
	q := newQueue(t, store, nil)
	const bound = 4 << 20
	for range 2 {
		store.got = nil
		for i := range 2 * bound / driver.MaxOtherBody {
			c := event(fmt.Sprint(i), string(bytes.Repeat([]byte("b"), driver.MaxOtherBody)))
			c.Headers = bytes.Repeat([]byte("h"), driver.MaxOtherHeaders+1)
			countDuplicate(q, c, "", true)
		}
		writeCounts(t, q)
		bytes, counted := 0, 0
		for i := range store.got {
			counted += store.got[i].OtherBodies
			if o := store.got[i].Other; o != nil {
				bytes += len(o.Body)
				if string(o.Headers) != "{}" {
					t.Fatalf("headers of %d bytes were kept, want none", len(o.Headers))
				}
			}
		}
		if bytes > bound || bytes < bound-2*driver.MaxOtherBody || counted != 2*bound/driver.MaxOtherBody {
			t.Errorf("kept %d bytes of %d other bodies, want at most %d bytes", bytes, counted, bound)
		}
	}
}

// Deliveries that were certainly not written stay before those of the next time, and the first other
// body stays the first.
func TestEvidenceAfterAFailure(t *testing.T) {
	t.Parallel()
	store := &countingStore{Store: rig.OpenSQLite(t), fault: driver.ErrUnavailable}
	q := newQueue(t, store, nil)
	deliver(t, q, event("1", "a"))
	for i := range 15 {
		countDuplicate(q, event("1", "first"), fmt.Sprint(i), true)
	}
	if err := q.WriteCounts(t.Context()); !errors.Is(err, driver.ErrUnavailable) {
		t.Fatalf("error %v, want %v", err, driver.ErrUnavailable)
	}
	store.fault = nil
	for i := range 10 {
		countDuplicate(q, event("1", "second"), fmt.Sprint(15+i), true)
	}
	writeCounts(t, q)
	var want []string
	for i := range driver.MaxRecent {
		want = append(want, fmt.Sprint(24-i))
	}
	got := stored(t, store, "1")
	if diff := cmp.Diff(want, remotes(t, store, "1")); diff != "" {
		t.Errorf("newest deliveries (-want +got):\n%s", diff)
	}
	if got.Duplicates != 25 || string(got.OtherBody.Body) != "first" {
		t.Errorf("got %d duplicates and the other body %q, want 25 and the first one", got.Duplicates, got.OtherBody.Body)
	}
}

// A reader that comes after a duplicate was answered sees it counted, also while another write is on
// its way.
func TestFreshCounts(t *testing.T) {
	t.Parallel()
	store := &gatedStore{Store: rig.OpenSQLite(t), begun: make(chan struct{}), gate: make(chan struct{})}
	q := newQueue(t, store, nil)
	if err := q.FreshCounts(t.Context()); err != nil {
		t.Fatalf("without counts: %v", err)
	}
	deliver(t, q, event("1", "a"), event("1", "a"))
	upkeep := make(chan error, 1)
	go func() { upkeep <- q.WriteCounts(t.Context()) }()
	<-store.begun
	deliver(t, q, event("1", "a"))
	readers := make(chan error, 8)
	for range cap(readers) {
		go func() { readers <- q.FreshCounts(t.Context()) }()
	}
	select {
	case err := <-readers:
		t.Fatalf("a reader did not wait for the counts: %v", err)
	case store.gate <- struct{}{}:
	}
	if err := <-upkeep; err != nil {
		t.Fatal(err)
	}
	<-store.begun
	store.gate <- struct{}{}
	for range cap(readers) {
		if err := <-readers; err != nil {
			t.Error(err)
		}
	}
	wantDeliveries(t, store, "1", driver.Deliveries{Count: 3})
}

// gatedStore is a real store whose writes of counts wait at a gate.
type gatedStore struct {
	driver.Store
	begun, gate chan struct{}
	at          []time.Time
}

func (s *gatedStore) CountDeliveries(ctx context.Context, p *driver.CountDeliveriesParams) error {
	s.at = append(s.at, time.Now())
	s.begun <- struct{}{}
	<-s.gate
	return s.Store.CountDeliveries(ctx, p)
}

// Writes for readers begin at least 100 ms apart.
func TestFreshCountsAreBounded(t *testing.T) {
	t.Parallel()
	store := &gatedStore{Store: rig.OpenSQLite(t), begun: make(chan struct{}, 100), gate: make(chan struct{}, 100)}
	close(store.gate)
	q := newQueue(t, store, nil)
	for range 4 {
		deliver(t, q, event("1", "a"), event("1", "a"))
		if err := q.FreshCounts(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for i := range slices.Backward(store.at[1:]) {
		if apart := store.at[i+1].Sub(store.at[i]); apart < 100*time.Millisecond {
			t.Errorf("writes %d and %d began %v apart, want at least 100ms", i, i+1, apart)
		}
	}
}

// A reader does not wait for a database that does not answer, and a failed write is its error.
func TestFreshCountsFail(t *testing.T) {
	t.Parallel()
	store := &countingStore{Store: rig.OpenSQLite(t), fault: driver.ErrUnavailable}
	q := newQueue(t, store, nil)
	deliver(t, q, event("1", "a"), event("1", "a"))
	if err := q.FreshCounts(t.Context()); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("error %v, want %v", err, driver.ErrUnavailable)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := q.FreshCounts(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	q.Close()
	if err := q.FreshCounts(t.Context()); !errors.Is(err, claims.ErrClosed) {
		t.Errorf("error %v, want %v", err, claims.ErrClosed)
	}
}

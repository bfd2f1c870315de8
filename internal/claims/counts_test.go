package claims_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/claims"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// countingStore is a real store that notes the sizes of its writes of counts. While fault is set,
// each of them fails; with written, after its commit.
type countingStore struct {
	driver.Store
	fault   error
	written bool
	sizes   []int
}

func (s *countingStore) CountDeliveries(ctx context.Context, p *driver.CountDeliveriesParams) error {
	s.sizes = append(s.sizes, len(p.Counts))
	if s.fault != nil && !s.written {
		return s.fault
	}
	if err := s.Store.CountDeliveries(ctx, p); err != nil {
		return err
	}
	return s.fault
}

// wantDeliveries compares the deliveries of an event, without their times.
func wantDeliveries(t *testing.T, store driver.Store, id string, want driver.Deliveries) {
	t.Helper()
	opts := cmpopts.IgnoreFields(driver.Deliveries{}, "FirstAt", "LastAt")
	if diff := cmp.Diff(want, stored(t, store, id).Deliveries, opts); diff != "" {
		t.Errorf("deliveries of %s (-want +got):\n%s", id, diff)
	}
}

// deliver claims events one by one, which the store compares by their bodies too.
func deliver(t *testing.T, q *claims.Queue, all ...driver.Claim) {
	t.Helper()
	for _, c := range all {
		c.BodyGuard = driver.BodyWatch
		if err := q.Claim(t.Context(), claims.NewUnit([]driver.Claim{c}, false, time.Now().Add(time.Minute))); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDeliveriesAreCounted(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	store := rig.OpenSQLite(t)
	q := newQueue(t, store, func(o *claims.Options) {
		o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	deliver(t, q, event("1", "a"), event("1", "a"), event("1", "b"))
	deliver(t, q, event("2", "a")) // the body of 1 under another id
	one := event("1", "a")
	q.Count(&one, &claims.Result{ClaimResult: driver.ClaimResult{Duplicate: true}}) // a duplicate that was claimed outside the queue
	wantDeliveries(t, store, "1", driver.Deliveries{Count: 1})
	if err := q.WriteCounts(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantDeliveries(t, store, "1", driver.Deliveries{Count: 4, OtherBodies: 1, Repeats: 1})
	wantDeliveries(t, store, "2", driver.Deliveries{Count: 1, RepeatOf: "1"})
	if want := `"delivery counts written" events=1`; strings.Count(log.String(), want) != 1 {
		t.Errorf("the log lacks %q:\n%s", want, &log)
	}
}

// Counts that certainly were not written are added to those of the next time. Counts with an unknown
// outcome are dropped rather than counted twice.
func TestCountsAfterAFailure(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fault   error
		written bool
		want    int64
	}{
		"not written":          {driver.ErrUnavailable, false, 4},
		"unknown, and written": {driver.ErrCommitUnknown, true, 4},
		"unknown, and lost":    {driver.ErrCommitUnknown, false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &countingStore{Store: rig.OpenSQLite(t)}
			q := newQueue(t, store, nil)
			deliver(t, q, event("1", "a"), event("1", "a"), event("1", "a"))
			store.fault, store.written = tt.fault, tt.written
			if err := q.WriteCounts(t.Context()); !errors.Is(err, tt.fault) {
				t.Errorf("error %v, want %v", err, tt.fault)
			}
			store.fault = nil
			deliver(t, q, event("1", "a"))
			for range 2 { // the second time there is nothing to write
				if err := q.WriteCounts(t.Context()); err != nil {
					t.Error(err)
				}
			}
			wantDeliveries(t, store, "1", driver.Deliveries{Count: tt.want})
		})
	}
}

// A row that the database refuses costs the counts of its event alone.
func TestRefusedCounts(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	q := newQueue(t, store, nil)
	for _, id := range []string{"1", "2", "3", "4", "5"} {
		deliver(t, q, event(id, "a"+id), event(id, "a"+id))
	}
	refused := event("3", "").Key
	if _, err := store.Writer().ExecContext(t.Context(), fmt.Sprintf(`CREATE TRIGGER refuse BEFORE INSERT ON hookonce_delivery_count
		WHEN NEW.key = x'%x' BEGIN SELECT RAISE(ABORT, 'not this one'); END`, refused)); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time there is nothing to write
		if err := q.WriteCounts(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for id, want := range map[string]int64{"1": 2, "2": 2, "3": 1, "4": 2, "5": 2} {
		wantDeliveries(t, store, id, driver.Deliveries{Count: want})
	}
}

func TestCountsAreWrittenInChunks(t *testing.T) {
	t.Parallel()
	store := &countingStore{Store: rig.OpenSQLite(t)}
	q := newQueue(t, store, nil)
	for i := range claims.MaxBatch + 1 {
		c := event(fmt.Sprint(i), "{}")
		q.Count(&c, &claims.Result{ClaimResult: driver.ClaimResult{Duplicate: true}})
	}
	if err := q.WriteCounts(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{claims.MaxBatch, 1}, store.sizes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

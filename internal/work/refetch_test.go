package work_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/guard"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/work"
)

// insertCurrent is a handler whose effect is the id of the event with the refetched state.
func insertCurrent(ctx context.Context, tx *sql.Tx, ev *work.Event) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES (?)", ev.EventID+" "+string(ev.Current))
	return err
}

// refetchBy sets Refetch.
func refetchBy(f func(ctx context.Context, ev *work.Event) ([]byte, error)) func(*work.Options, *work.Source) {
	return func(_ *work.Options, src *work.Source) { src.Refetch = f }
}

func TestRefetch(t *testing.T) {
	t.Parallel()
	db := openDatabase(t)
	claimInTurn(t, db, "good", "gone", "panics", "slow", "fails once")
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	run(t, newWorkers(db, func(ctx context.Context, tx *sql.Tx, ev *work.Event) error {
		if ev.EventID == "fails once" && ev.Attempts == 0 {
			return errInjected
		}
		return insertCurrent(ctx, tx, ev)
	}, func(_ *work.Options, src *work.Source) {
		src.RefetchTimeout = 3 * time.Second
		src.Refetch = func(_ context.Context, ev *work.Event) ([]byte, error) {
			switch {
			case ev.EventID == "gone":
				return nil, guard.Permanent(errors.New("404"))
			case ev.EventID == "panics" && ev.Attempts == 0:
				panic("boom")
			case ev.EventID == "slow" && ev.Attempts == 0:
				<-release // it does not look at its context
			}
			return []byte("paid"), nil
		}
	}))
	wantOutcome(t, db, "good", done)
	wantOutcome(t, db, "gone", outcome{State: driver.StateDead, Attempts: 1, LastError: "getting the current state: 404"})
	for _, id := range []string{"panics", "slow", "fails once"} {
		wantOutcome(t, db, id, outcome{State: driver.StateDone, Attempts: 2})
	}
	for id, want := range map[string]string{
		"panics": "getting the current state: Refetch panicked: boom",
		"slow":   "getting the current state: Refetch did not return within 3s: context deadline exceeded",
	} {
		if tries := eventOf(t, db, id).Tries; len(tries) != 1 || tries[0].Error != want {
			t.Errorf("%s: attempts %+v, want one that failed with %q", id, tries, want)
		}
	}
	wantEffects(t, db, "good paid", "panics paid", "slow paid", "fails once paid")
}

// No transaction is open while Refetch works: SQLite has one writer, and another write succeeds
// meanwhile.
func TestRefetchHoldsNoTransaction(t *testing.T) {
	t.Parallel()
	db := openDatabase(t)
	claimInTurn(t, db, "1")
	w := newWorkers(db, insertCurrent, refetchBy(func(ctx context.Context, ev *work.Event) ([]byte, error) {
		_, err := db.Claim(ctx, &driver.ClaimParams{Claims: []driver.Claim{newClaim("during "+ev.EventID, "{}")}})
		return []byte("paid"), err
	}))
	stop := run(t, w)
	wantOutcome(t, db, "1", done)
	eventually.True(t, "the event claimed meanwhile is done", func() bool { return eventOf(t, db, "during 1").State == driver.StateDone })
	stop()

	w = newWorkers(db, insertCurrent, refetchBy(func(ctx context.Context, _ *work.Event) ([]byte, error) {
		_, err := db.Claim(ctx, &driver.ClaimParams{Claims: []driver.Claim{newClaim("during inline", "{}")}})
		return []byte("paid"), err
	}))
	if got := inline(t, w, newClaim("inline", "{}")); got.Err != nil || got.Failure != nil || !got.Claimed {
		t.Errorf("inline: %+v, want it claimed", got)
	}
}

// Events whose state was refetched and that fail together run alone with the same state.
func TestRefetchedBatchFails(t *testing.T) {
	t.Parallel()
	db := openDatabase(t)
	claimInTurn(t, db, "1", "bad", "2")
	var fetched, bad atomic.Int64
	run(t, newWorkers(db, func(ctx context.Context, tx *sql.Tx, ev *work.Event) error {
		if ev.EventID == "bad" && bad.Add(1) == 1 { // in the batch
			return errInjected
		}
		return insertCurrent(ctx, tx, ev)
	}, refetchBy(func(context.Context, *work.Event) ([]byte, error) {
		fetched.Add(1)
		return []byte("paid"), nil
	})))
	for _, id := range []string{"1", "bad", "2"} {
		wantOutcome(t, db, id, done)
	}
	wantEffects(t, db, "1 paid", "bad paid", "2 paid")
	if n := fetched.Load(); n != 3 {
		t.Errorf("Refetch was called %d times for 3 events", n)
	}
}

// An event that was tried before runs alone, so its failure spoils no fresh one.
func TestRefetchOfTriedEvents(t *testing.T) {
	t.Parallel()
	db := openDatabase(t)
	claimAt(t, db, time.Now().Add(-2*time.Hour), newClaim("bad", "{}"))
	loseRun(t, db, 1, 3)
	lost, err := db.SweepRuns(t.Context(), &driver.SweepRunsParams{})
	if err != nil || len(lost) != 1 {
		t.Fatalf("lost runs %+v, error %v; want one", lost, err)
	}
	claimInTurn(t, db, "1", "2")
	var mu sync.Mutex
	runs := make(map[string]int)
	run(t, newWorkers(db, func(ctx context.Context, tx *sql.Tx, ev *work.Event) error {
		mu.Lock()
		runs[ev.EventID]++
		mu.Unlock()
		if ev.EventID == "bad" {
			return guard.Permanent(errInjected)
		}
		return insertCurrent(ctx, tx, ev)
	}, refetchBy(func(context.Context, *work.Event) ([]byte, error) { return []byte("paid"), nil })))
	wantOutcome(t, db, "bad", outcome{State: driver.StateDead, Attempts: 2, LastError: "no stock"})
	wantOutcome(t, db, "1", done)
	wantOutcome(t, db, "2", done)
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff(map[string]int{"1": 1, "2": 1, "bad": 1}, runs); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
}

// Another worker has a turn while Refetch takes longer than the reservation. The fetched state may
// be stale then, and the event has a due time of its own: it does not run, and its failure does not
// count.
func TestRefetchOutlivesTheReservation(t *testing.T) {
	t.Parallel()
	later := time.Now().Add(time.Hour)
	for name, turn := range map[string]func(t *testing.T, db *database, ev *work.Event) error{
		"reserved by another": func(t *testing.T, db *database, _ *work.Event) error {
			_, err := db.Reserve(t.Context(), &driver.ReserveParams{
				Source: "lab", Types: []string{"*"}, Limit: 1, For: time.Hour, Now: later,
			})
			return err
		},
		"failed with another": func(t *testing.T, db *database, ev *work.Event) error {
			run, err := db.Take(t.Context(), &driver.TakeParams{Keys: []driver.Key{ev.Key}, Limit: 1, HandlerTimeout: time.Minute})
			if err != nil {
				return err
			}
			return run.Finish(t.Context(), &driver.FinishParams{Now: later, Results: []driver.WorkResult{
				{Key: ev.Key, Outcome: driver.WorkRetry, RetryIn: time.Hour, Error: "no stock"},
			}})
		},
	} {
		for _, fails := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, fails %t", name, fails), func(t *testing.T) {
				t.Parallel()
				db := openDatabase(t)
				claimInTurn(t, db, "1", "2")
				fetched := make(chan struct{})
				run(t, newWorkers(db, insertCurrent, refetchBy(func(_ context.Context, ev *work.Event) ([]byte, error) {
					if ev.EventID == "2" {
						<-fetched
						return []byte("paid"), nil
					}
					defer close(fetched)
					if err := turn(t, db, ev); err != nil {
						t.Error(err)
					}
					if fails {
						return nil, errInjected
					}
					return []byte("open"), nil
				})))
				wantOutcome(t, db, "2", done)
				want := outcome{State: driver.StatePending}
				if name == "failed with another" {
					want.Attempts, want.LastError = 1, "no stock"
				}
				compareOutcome(t, db, "1", want)
				wantEffects(t, db, "2 paid")
			})
		}
	}
}

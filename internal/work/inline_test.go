package work_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/guard"
	"github.com/hookonce/hookonce/internal/work"
)

// inline handles a delivery that has plenty of time.
func inline(t *testing.T, w *workers, c driver.Claim) work.InlineResult {
	t.Helper()
	return inlineWithin(t, w, c, time.Minute)
}

// inlineWithin handles a delivery that must be answered within d.
func inlineWithin(t *testing.T, w *workers, c driver.Claim, d time.Duration) work.InlineResult {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return w.Inline(ctx, w.src, &c)
}

// answer is the part of an InlineResult that tests compare.
type answer struct {
	Claimed, Dead, Reopened bool
	Failure, Err            string // the wanted texts are parts of the actual ones
}

func wantAnswer(t *testing.T, name string, want answer, result work.InlineResult) {
	t.Helper()
	text := func(err error, want string) string {
		switch {
		case err == nil:
			return ""
		case want != "" && strings.Contains(err.Error(), want):
			return want
		}
		return err.Error()
	}
	got := answer{result.Claimed, result.Dead, result.Reopened, text(result.Failure, want.Failure), text(result.Err, want.Err)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// unknown reports whether the store has no event of this id.
func unknown(t *testing.T, db *database, id string) bool {
	t.Helper()
	_, err := db.Event(t.Context(), "lab", id)
	if err != nil && !errors.Is(err, driver.ErrNotFound) {
		t.Fatal(err)
	}
	return err != nil
}

func TestInlineCommitsClaimAndEffects(t *testing.T) {
	t.Parallel()
	db := openDatabase(t)
	var woken, observed []string
	w := newWorkers(db, func(ctx context.Context, tx *sql.Tx, ev *work.Event) error {
		if !unknown(t, db, ev.EventID) {
			t.Error("the event is stored before its handler has returned")
		}
		return errors.Join(insert(ctx, tx, ev), db.enqueue(ctx, tx, ev, "crm"))
	}, func(o *work.Options, _ *work.Source) {
		o.Wake = func(destination string) { woken = append(woken, destination) }
		o.Observe = func(seen *work.Observed) {
			observed = append(observed, fmt.Sprint(seen.Event.EventID, " ", seen.Attempt, " ", seen.Outcome))
		}
	})
	c := newClaim("1", "{}")
	c.Messages = []driver.NewMessage{{ID: driver.MessageID(c.Key, 0, "r"), Route: "r", Destination: "app"}}
	wantAnswer(t, "first", answer{Claimed: true}, inline(t, w, c))
	wantAnswer(t, "second", answer{}, inline(t, w, c))
	compareOutcome(t, db, "1", done)
	wantEffects(t, db, "1")
	if diff := cmp.Diff([]string{"crm", "app"}, woken); diff != "" {
		t.Errorf("woken destinations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"1 1 done"}, observed); diff != "" {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
}

// A callback that ends its goroutine leaves the delivery without a result: that is no duplicate.
func TestInlineCallbackThatEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	db := openDatabase(t)
	var mended atomic.Bool
	w := newWorkers(db, insert, func(o *work.Options, _ *work.Source) {
		o.Observe = func(*work.Observed) {
			if !mended.Load() {
				runtime.Goexit()
			}
		}
	})
	wantAnswer(t, "while it ends goroutines", answer{Err: "was ended by a callback"}, inline(t, w, newClaim("1", "{}")))
	mended.Store(true)
	if got := inline(t, w, newClaim("1", "{}")); got.Err != nil || !got.Duplicate {
		t.Errorf("afterwards: %+v, want a duplicate: the first one was committed", got)
	}
	wantEffects(t, db, "1")
}

// A failure undoes the claim and is counted outside its transaction. The last one makes a dead
// letter, which the next delivery reopens.
func TestInlineFailures(t *testing.T) {
	t.Parallel()
	db := openDatabase(t)
	var mended atomic.Bool
	var observed []string
	w := newWorkers(db, func(ctx context.Context, tx *sql.Tx, ev *work.Event) error {
		if err := insert(ctx, tx, ev); err != nil || mended.Load() {
			return err
		}
		return errInjected
	}, func(o *work.Options, src *work.Source) {
		src.DeadLetterAfter, src.Reopen = 3, true
		o.Observe = func(seen *work.Observed) { observed = append(observed, fmt.Sprint(seen.Attempt, " ", seen.Outcome)) }
	})
	for range 2 {
		wantAnswer(t, "failed", answer{Claimed: true, Failure: "no stock"}, inline(t, w, newClaim("1", "{}")))
		if !unknown(t, db, "1") {
			t.Error("the event is stored although its handler failed")
		}
	}
	wantAnswer(t, "last failure", answer{Claimed: true, Dead: true, Failure: "no stock"}, inline(t, w, newClaim("1", "{}")))
	compareOutcome(t, db, "1", outcome{State: driver.StateDead, Attempts: 3, LastError: "no stock"})
	wantEffects(t, db)

	mended.Store(true)
	wantAnswer(t, "redelivery", answer{Dead: true, Reopened: true}, inline(t, w, newClaim("1", "{}")))
	compareOutcome(t, db, "1", done)
	wantEffects(t, db, "1")
	if diff := cmp.Diff([]string{"1 retry", "2 retry", "3 dead", "1 done"}, observed); diff != "" {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
}

func TestInlineFailuresOfOneDelivery(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		handle handler
		want   answer
	}{
		"permanent": {
			func(context.Context, *sql.Tx, *work.Event) error { return guard.Permanent(errInjected) },
			answer{Claimed: true, Dead: true, Failure: "no stock"},
		},
		"panic": {
			func(context.Context, *sql.Tx, *work.Event) error { panic("boom") },
			answer{Claimed: true, Failure: "the handler panicked: boom"},
		},
		"rolls back": {
			func(_ context.Context, tx *sql.Tx, _ *work.Event) error { return tx.Rollback() },
			answer{Claimed: true, Failure: "rolled the transaction back by itself"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := openDatabase(t)
			w := newWorkers(db, tt.handle, nil)
			wantAnswer(t, name, tt.want, inline(t, w, newClaim("1", "{}")))
			if unknown(t, db, "1") == tt.want.Dead {
				t.Errorf("the event is stored: %t, want %t", !tt.want.Dead, tt.want.Dead)
			}
			wantEffects(t, db)
		})
	}
}

// Copies of an event in progress wait for it in this process, and get its outcome as duplicates.
func TestInlineCopiesWait(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err           error
		first, copies answer
	}{
		"success": {nil, answer{Claimed: true}, answer{}},
		"failure": {errInjected, answer{Claimed: true, Failure: "no stock"}, answer{Claimed: true, Failure: "no stock"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := openDatabase(t)
			began, release := make(chan struct{}), make(chan struct{})
			var runs atomic.Int64
			w := newWorkers(db, func(ctx context.Context, tx *sql.Tx, ev *work.Event) error {
				if runs.Add(1) == 1 {
					close(began)
				}
				<-release
				return errors.Join(insert(ctx, tx, ev), tt.err)
			}, nil)
			const copies = 5
			results := make([]work.InlineResult, copies+1)
			var wg sync.WaitGroup
			wg.Go(func() { results[copies] = inline(t, w, newClaim("1", "{}")) })
			<-began
			for i := range copies {
				wg.Go(func() { results[i] = inline(t, w, newClaim("1", "{}")) })
			}
			// A copy whose time ends leaves the others waiting.
			wantAnswer(t, "late copy", answer{Err: "its handler is still running"}, inlineWithin(t, w, newClaim("1", "{}"), time.Millisecond))
			close(release)
			wg.Wait()
			wantAnswer(t, "first", tt.first, results[copies])
			for i := range copies {
				wantAnswer(t, "copy", tt.copies, results[i])
			}
			if n := runs.Load(); tt.err == nil && n != 1 { // after a failure, a late copy runs it again
				t.Errorf("the handler ran %d times, want once", n)
			}
		})
	}
}

// The work goes on after its caller has given up, and Drain waits for it.
func TestInlineAfterItsDeadline(t *testing.T) {
	t.Parallel()
	db := openDatabase(t)
	began, release := make(chan struct{}), make(chan struct{})
	w := newWorkers(db, func(ctx context.Context, tx *sql.Tx, ev *work.Event) error {
		close(began)
		<-release
		return insert(ctx, tx, ev)
	}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	answered, giveUp := context.WithCancel(ctx)
	first := make(chan work.InlineResult, 1)
	c := newClaim("1", "{}")
	go func() { first <- w.Inline(ctx, w.src, &c) }()
	<-began
	go func() { giveUp() }()
	wantAnswer(t, "given up", answer{Err: "its handler is still running"}, w.Inline(answered, w.src, &c))
	drained := make(chan struct{})
	go func() { w.Drain(); close(drained) }()
	select {
	case <-drained:
		t.Error("Drain returned while a handler ran")
	default:
	}
	close(release)
	<-drained
	compareOutcome(t, db, "1", done)
	wantEffects(t, db, "1")
	wantAnswer(t, "first", answer{Claimed: true}, <-first)
}

// A handler that does not return is cut off before the answer is due, and its failure is counted.
func TestInlineHandlerThatHangs(t *testing.T) {
	t.Parallel()
	db := openDatabase(t)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	w := newWorkers(db, func(_ context.Context, tx *sql.Tx, ev *work.Event) error {
		err := insert(t.Context(), tx, ev) // its context does not end it
		<-release
		return err
	}, func(o *work.Options, src *work.Source) {
		o.HandlerTimeout, src.DeadLetterAfter = 300*time.Millisecond, 1
	})
	wantAnswer(t, "hangs", answer{Claimed: true, Dead: true, Failure: "the handler did not return after its timeout of 300ms"},
		inline(t, w, newClaim("1", "{}")))
	compareOutcome(t, db, "1", outcome{State: driver.StateDead, Attempts: 1, LastError: "the handler did not return"})
	wantEffects(t, db)
	if n := db.severed.Load(); n != 1 {
		t.Errorf("%d transactions were cut off, want 1", n)
	}
}

func TestInlineWorkersAreBounded(t *testing.T) {
	t.Parallel()
	db := openDatabase(t)
	var claims atomic.Int64
	db.beforeClaim = func() error { claims.Add(1); return nil }
	began, release := make(chan struct{}), make(chan struct{})
	w := newWorkers(db, func(ctx context.Context, tx *sql.Tx, ev *work.Event) error {
		close(began)
		<-release
		return insert(ctx, tx, ev)
	}, nil)
	first := make(chan work.InlineResult, 1)
	go func() { first <- inline(t, w, newClaim("1", "{}")) }()
	<-began
	got := inlineWithin(t, w, newClaim("2", "{}"), 10*time.Millisecond)
	if got.Err == nil || got.Failure != nil || !errors.Is(got.Err, context.DeadlineExceeded) {
		t.Errorf("beyond the bound: %+v, want the end of its time", got)
	}
	close(release)
	wantAnswer(t, "first", answer{Claimed: true}, <-first)
	w.Drain()
	if n := claims.Load(); n != 1 {
		t.Errorf("%d deliveries began to be claimed, want 1: the other one has no worker", n)
	}
}

func TestInlineFaultsOfTheDatabase(t *testing.T) {
	t.Parallel()
	times := func(n int64, err error) func() error {
		var calls atomic.Int64
		return func() error {
			if calls.Add(1) <= n {
				return err
			}
			return nil
		}
	}
	for name, tt := range map[string]struct {
		change  func(db *database)
		fails   bool // the handler
		want    answer
		effects []string
	}{
		"unavailable": {
			func(db *database) { db.beforeClaim = times(1, driver.ErrUnavailable) },
			false,
			answer{Err: driver.ErrUnavailable.Error()},
			nil,
		},
		"gives up at first": {
			func(db *database) { db.beforeClaim = times(2, driver.ErrSerialization) },
			false,
			answer{Claimed: true},
			[]string{"1"},
		},
		"always gives up": {
			func(db *database) { db.beforeClaim = times(1000, driver.ErrSerialization) },
			false,
			answer{Err: driver.ErrSerialization.Error()},
			nil,
		},
		"commit unknown": {
			func(db *database) {
				db.finish = func(ctx context.Context, run driver.Run[*sql.Tx], p *driver.FinishParams) error {
					return errors.Join(run.Finish(ctx, p), driver.ErrCommitUnknown)
				}
			},
			false,
			answer{Err: driver.ErrCommitUnknown.Error()},
			[]string{"1"},
		},
		"refused at the commit": {
			func(db *database) {
				db.finish = func(context.Context, driver.Run[*sql.Tx], *driver.FinishParams) error { return driver.ErrBadRow }
			},
			false,
			answer{Claimed: true, Failure: driver.ErrBadRow.Error()},
			nil,
		},
		"failure not counted": {
			func(db *database) { db.beforeCount = times(1, driver.ErrUnavailable) },
			true,
			answer{Err: driver.ErrUnavailable.Error()},
			nil,
		},
		"panic": {
			func(db *database) { db.beforeClaim = func() error { panic("a defect of the store") } },
			false,
			answer{Err: "a defect of the store"},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := openDatabase(t)
			tt.change(db)
			w := newWorkers(db, func(ctx context.Context, tx *sql.Tx, ev *work.Event) error {
				if tt.fails {
					return errInjected
				}
				return insert(ctx, tx, ev)
			}, nil)
			wantAnswer(t, name, tt.want, inline(t, w, newClaim("1", "{}")))
			wantEffects(t, db, tt.effects...)
		})
	}
}

// A dead event that had no handler when it was claimed has dead messages only. A delivery reopens
// these.
func TestInlineReopensDeadMessages(t *testing.T) {
	t.Parallel()
	db := openDatabase(t)
	c := newClaim("1", "{}")
	c.Work = driver.WorkNone
	c.Messages = []driver.NewMessage{{ID: driver.MessageID(c.Key, 0, "r"), Route: "r", Destination: "app"}}
	claim(t, db, c)
	leased, err := db.Lease(t.Context(), &driver.LeaseParams{Destination: "app", Limit: 1, For: time.Minute, MaxAttempts: 1})
	if err != nil || len(leased.Messages) != 1 {
		t.Fatalf("leased %+v, error %v", leased, err)
	}
	dead := driver.Completion{ID: leased.Messages[0].ID, Token: leased.Messages[0].Token, Outcome: driver.MessageDead, Error: "gone"}
	if _, err := db.Complete(t.Context(), &driver.CompleteParams{Completions: []driver.Completion{dead}}); err != nil {
		t.Fatal(err)
	}
	var reopened atomic.Int64
	w := newWorkers(db, insert, func(o *work.Options, src *work.Source) {
		o.Reopened = func() { reopened.Add(1) }
	})
	wantAnswer(t, "acknowledged", answer{Dead: true}, inline(t, w, c))
	w.src.Reopen = true
	wantAnswer(t, "reopened", answer{Dead: true, Reopened: true}, inline(t, w, c))
	if n := reopened.Load(); n != 1 {
		t.Errorf("Reopened was called %d times, want once", n)
	}
	if got := eventOf(t, db, "1").State; got != driver.StateRunning {
		t.Errorf("the event is %s, want running", got)
	}
	wantEffects(t, db)
}

func TestInlineRefetch(t *testing.T) {
	t.Parallel()
	db := openDatabase(t)
	var calls atomic.Int64
	w := newWorkers(db, insertCurrent, refetchBy(func(context.Context, *work.Event) ([]byte, error) {
		if calls.Add(1) == 1 {
			return nil, errInjected
		}
		return []byte("paid"), nil
	}))
	wantAnswer(t, "failed", answer{Claimed: true, Failure: "getting the current state: no stock"}, inline(t, w, newClaim("1", "{}")))
	wantAnswer(t, "redelivery", answer{Claimed: true}, inline(t, w, newClaim("1", "{}")))
	wantEffects(t, db, "1 paid")
}

func TestInlineStaleEvent(t *testing.T) {
	t.Parallel()
	db := openDatabase(t)
	w := newWorkers(db, insert, watching(t))
	for i, version := range []int{2, 1, 2, 3} {
		wantAnswer(t, fmt.Sprint(i), answer{Claimed: true}, inline(t, w, newVersion(fmt.Sprint(i), "a", version)))
	}
	compareOutcome(t, db, "1", outcome{State: driver.StateSkipped, Note: driver.NoteStale, LastError: "version 1 is older than 2"})
	wantEffects(t, db, "0", "2", "3")
}

// tellingContext tells when someone waits for its end.
type tellingContext struct {
	context.Context
	waits func()
}

func (c tellingContext) Done() <-chan struct{} {
	c.waits()
	return c.Context.Done()
}

// A delivery of a dead event waits for a copy that leaves it dead, such as one from the provider's list, and reopens it then.
func TestInlineReopensAfterAQuietCopy(t *testing.T) {
	t.Parallel()
	db := openDatabase(t)
	var mended atomic.Bool
	w := newWorkers(db, func(ctx context.Context, tx *sql.Tx, ev *work.Event) error {
		if mended.Load() {
			return insert(ctx, tx, ev)
		}
		return errInjected
	}, func(_ *work.Options, src *work.Source) { src.Reopen, src.DeadLetterAfter = true, 1 })
	c := newClaim("1", "{}")
	wantAnswer(t, "first", answer{Claimed: true, Dead: true, Failure: "no stock"}, inline(t, w, c))
	mended.Store(true)

	began, release := make(chan struct{}), make(chan struct{})
	var once, waits sync.Once
	db.beforeClaim = func() error {
		once.Do(func() {
			close(began)
			<-release
		})
		return nil
	}
	quiet := *w.src
	quiet.Reopen = false
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	left := make(chan work.InlineResult, 1)
	go func() { left <- w.Inline(ctx, &quiet, &c) }()
	<-began
	result := w.Inline(tellingContext{ctx, func() { waits.Do(func() { close(release) }) }}, w.src, &c)
	wantAnswer(t, "quiet", answer{Dead: true}, <-left)
	wantAnswer(t, "delivery", answer{Dead: true, Reopened: true}, result)
	compareOutcome(t, db, "1", done)
	wantEffects(t, db, "1")
}

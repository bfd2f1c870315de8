package work_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/guard"
	"github.com/hookonce/hookonce/internal/stale"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/internal/work"
	"github.com/hookonce/hookonce/provider"
)

// Effects, messages and the done mark become visible together, after the handler has returned.
func TestEffectsAndMarkCommitTogether(t *testing.T) {
	t.Parallel()
	db := openDatabase(t)
	claim(t, db, newClaim("1", "the body"))
	var observed []string
	woken := make(chan string, 10)
	run(t, newWorkers(db, func(ctx context.Context, tx *sql.Tx, ev *work.Event) error {
		if string(ev.Body) != "the body" || ev.EventID != "1" {
			t.Errorf("event %s with body %q", ev.EventID, ev.Body)
		}
		if err := errors.Join(insert(ctx, tx, ev), db.enqueue(ctx, tx, ev, "crm")); err != nil {
			return err
		}
		wantEffects(t, db)
		if ev.Attempts == 0 {
			return errInjected
		}
		return nil
	}, func(o *work.Options, _ *work.Source) {
		o.Wake = func(destination string) {
			compareOutcome(t, db, "1", outcome{State: driver.StateDone, Attempts: 2})
			woken <- destination
		}
		o.Observe = func(seen *work.Observed) {
			observed = append(observed, fmt.Sprint(seen.Attempt, " ", seen.Outcome, " ", seen.Err))
			if seen.Outcome == "done" {
				woken <- "observed"
			}
		}
	}))
	for _, want := range []string{"crm", "observed"} {
		if got := <-woken; got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	}
	wantOutcome(t, db, "1", outcome{State: driver.StateDone, Attempts: 2})
	wantEffects(t, db, "1")
	if ev := eventOf(t, db, "1"); len(ev.Messages) != 1 || ev.Messages[0].Destination != "crm" {
		t.Errorf("messages %+v, want one to crm", ev.Messages)
	}
	if diff := cmp.Diff([]string{"1 retry no stock", "2 done <nil>"}, observed); diff != "" {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
}

// An event that fails in a batch rolls the batch back, and runs alone from then on. The others run
// again, each alone, and have one attempt.
func TestFailedEventOfABatchRunsAlone(t *testing.T) {
	t.Parallel()
	db := openDatabase(t)
	claimInTurn(t, db, "1", "2", "bad", "3", "4")
	var mu sync.Mutex
	var runs []string
	run(t, newWorkers(db, func(ctx context.Context, tx *sql.Tx, ev *work.Event) error {
		mu.Lock()
		runs = append(runs, ev.EventID)
		mu.Unlock()
		if err := insert(ctx, tx, ev); err != nil || ev.EventID != "bad" || ev.Attempts == 2 {
			return err
		}
		return errInjected
	}, nil))
	for _, id := range []string{"1", "2", "3", "4"} {
		wantOutcome(t, db, id, done)
	}
	wantOutcome(t, db, "bad", outcome{State: driver.StateDone, Attempts: 3})
	wantEffects(t, db, "1", "2", "3", "4", "bad")
	mu.Lock()
	defer mu.Unlock()
	// The bad event is the first to run alone: from then on it is in no batch.
	if diff := cmp.Diff([]string{"1", "2", "bad", "bad"}, runs[:4]); diff != "" {
		t.Errorf("the first runs (-want +got):\n%s", diff)
	}
	counts := make(map[string]int)
	for _, id := range runs {
		counts[id]++
	}
	if diff := cmp.Diff(map[string]int{"1": 2, "2": 2, "bad": 4, "3": 1, "4": 1}, counts); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
	if tries := eventOf(t, db, "bad").Tries; len(tries) != 2 || tries[0].Number != 1 || tries[1].Error != "no stock" {
		t.Errorf("attempts %+v, want two failures", tries)
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err  error
		want outcome
	}{
		"out of attempts": {errInjected, outcome{State: driver.StateDead, Attempts: 3, LastError: "no stock"}},
		"permanent":       {guard.Permanent(errInjected), outcome{State: driver.StateDead, Attempts: 1, LastError: "no stock"}},
		"at once":         {guard.RetryAfter(0, errInjected), outcome{State: driver.StateDead, Attempts: 3, LastError: "no stock"}},
		"later":           {guard.RetryAfter(time.Hour, errInjected), outcome{State: driver.StatePending, Attempts: 1, LastError: "no stock"}},
		"no text":         {errors.New("\xff\x00"), outcome{State: driver.StateDead, Attempts: 3, LastError: "\ufffd\ufffd"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := openDatabase(t)
			claimInTurn(t, db, "1")
			run(t, newWorkers(db, func(ctx context.Context, tx *sql.Tx, ev *work.Event) error {
				return errors.Join(insert(ctx, tx, ev), tt.err)
			}, nil))
			eventually.True(t, "the attempts are counted", func() bool { return eventOf(t, db, "1").Attempts == tt.want.Attempts })
			compareOutcome(t, db, "1", tt.want)
			wantEffects(t, db)
		})
	}
}

// A handler that ends its transaction by itself affects its own event only: the effects of a commit
// stay, and those of the handlers before it too, so their events are done.
func TestHandlerEndsItsTransaction(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		end     func(*sql.Tx) error
		bad     outcome
		effects []string
	}{
		"commit": {
			(*sql.Tx).Commit,
			outcome{State: driver.StateDead, Note: driver.NoteTxEnded, Attempts: 1, LastError: "committed the transaction by itself"},
			[]string{"1", "bad", "2"},
		},
		"roll back": {
			(*sql.Tx).Rollback,
			outcome{State: driver.StateDead, Attempts: 3, LastError: "rolled the transaction back by itself"},
			[]string{"1", "2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := openDatabase(t)
			claimInTurn(t, db, "1", "bad", "2")
			run(t, newWorkers(db, func(ctx context.Context, tx *sql.Tx, ev *work.Event) error {
				if err := insert(ctx, tx, ev); err != nil || ev.EventID != "bad" {
					return err
				}
				return tt.end(tx)
			}, nil))
			wantOutcome(t, db, "1", done)
			wantOutcome(t, db, "bad", tt.bad)
			wantOutcome(t, db, "2", done)
			wantEffects(t, db, tt.effects...)
		})
	}
}

// A handler commits with a statement and begins another transaction with the same savepoints. This is
// noticed right after it: the handlers before it have taken effect once, and those after it run later.
func TestHandlerCommitsInSQL(t *testing.T) {
	t.Parallel()
	for name, statements := range map[string][]string{
		"commit":           {"COMMIT"},
		"commit and begin": {"COMMIT", "BEGIN IMMEDIATE", "SAVEPOINT hookonce_run", "SAVEPOINT hookonce_check"},
	} {
		for _, fails := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", fails ", fails), func(t *testing.T) {
				t.Parallel()
				db := openDatabase(t)
				claimInTurn(t, db, "1", "bad", "2")
				var woken sync.Map
				run(t, newWorkers(db, func(ctx context.Context, tx *sql.Tx, ev *work.Event) error {
					if err := errors.Join(insert(ctx, tx, ev), db.enqueue(ctx, tx, ev, "about-"+ev.EventID)); err != nil || ev.EventID != "bad" {
						return err
					}
					for _, statement := range statements {
						if _, err := tx.ExecContext(ctx, statement); err != nil {
							return err
						}
					}
					if fails {
						return errInjected
					}
					return nil
				}, func(o *work.Options, _ *work.Source) {
					o.Wake = func(destination string) { woken.Store(destination, true) }
				}))
				wantOutcome(t, db, "1", done)
				wantOutcome(t, db, "bad", outcome{State: driver.StateDead, Note: driver.NoteTxEnded, Attempts: 1, LastError: "committed the transaction by itself"})
				wantOutcome(t, db, "2", done)
				wantEffects(t, db, "1", "bad", "2")
				for _, destination := range []string{"about-1", "about-bad", "about-2"} {
					eventually.True(t, "the attempts are counted", func() bool {
						_, ok := woken.Load(destination)
						return ok
					})
				}
			})
		}
	}
}

// An Inline handler that commits by itself commits its claim too. The event is dead, and its copies are
// duplicates.
func TestInlineHandlerCommits(t *testing.T) {
	t.Parallel()
	db := openDatabase(t)
	w := newWorkers(db, func(ctx context.Context, tx *sql.Tx, ev *work.Event) error {
		return errors.Join(insert(ctx, tx, ev), tx.Commit())
	}, func(_ *work.Options, src *work.Source) { src.Reopen = true })
	c := newClaim("1", "body")
	wantAnswer(t, "first", answer{Claimed: true, Dead: true, Failure: "committed the transaction by itself"}, inline(t, w, c))
	wantAnswer(t, "copy", answer{Dead: true}, inline(t, w, c))
	compareOutcome(t, db, "1", outcome{State: driver.StateDead, Note: driver.NoteTxEnded, Attempts: 1, LastError: "committed the transaction by itself"})
	wantEffects(t, db, "1")
}

// A goroutine that a handler left behind commits after the last handler of the batch. The store knows
// the event whose handler had begun last; the events before it are done.
func TestCommitFoundAtTheEnd(t *testing.T) {
	t.Parallel()
	db := openDatabase(t)
	claimInTurn(t, db, "1", "2")
	db.finish = func(ctx context.Context, run driver.Run[*sql.Tx], p *driver.FinishParams) error {
		if err := run.Tx().Commit(); err != nil && !errors.Is(err, sql.ErrTxDone) {
			t.Error(err)
		}
		return run.Finish(ctx, p)
	}
	run(t, newWorkers(db, insert, nil))
	wantOutcome(t, db, "1", done)
	wantOutcome(t, db, "2", outcome{State: driver.StateDead, Note: driver.NoteTxEnded, Attempts: 1, LastError: "committed the transaction by itself"})
	wantEffects(t, db, "1", "2")
}

func TestHandlersThatTakeTooLong(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		returns bool
		want    string
		severed int64 // one for each attempt
	}{
		"returns": {true, "the handler used up its timeout of 1s", 0},
		"hangs":   {false, "the handler did not return after its timeout of 1s", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := openDatabase(t)
			release := make(chan struct{})
			t.Cleanup(func() { close(release) })
			claimInTurn(t, db, "1")
			run(t, newWorkers(db, func(ctx context.Context, tx *sql.Tx, ev *work.Event) error {
				err := insert(t.Context(), tx, ev)
				if tt.returns {
					<-ctx.Done()
					return errors.Join(ctx.Err(), err)
				}
				<-release
				return err
			}, func(o *work.Options, _ *work.Source) { o.HandlerTimeout, o.Retry.Attempts = time.Second, 2 }))
			wantOutcome(t, db, "1", outcome{State: driver.StateDead, Attempts: 2, LastError: tt.want})
			wantEffects(t, db)
			if n := db.severed.Load(); n != tt.severed {
				t.Errorf("%d transactions were cut off, want %d", n, tt.severed)
			}
		})
	}
}

// When the database gives up in favour of other transactions, no attempt is counted. When it gives
// up every time, the handler may be the reason.
func TestDatabaseGivesUp(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		times    int64 // that it gives up
		atCommit bool  // or under the handler
		want     outcome
	}{
		"commit, at first":  {3, true, done},
		"commit, always":    {1000, true, outcome{State: driver.StateDead, Attempts: 2, LastError: driver.ErrSerialization.Error()}},
		"handler, at first": {3, false, done},
		"handler, always":   {1000, false, outcome{State: driver.StateDead, Attempts: 2, LastError: driver.ErrSerialization.Error()}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := openDatabase(t)
			claimInTurn(t, db, "1", "2")
			var calls atomic.Int64
			giveUp := func() error {
				if calls.Add(1) <= tt.times {
					return driver.ErrSerialization
				}
				return nil
			}
			if tt.atCommit {
				db.finish = func(ctx context.Context, run driver.Run[*sql.Tx], p *driver.FinishParams) error {
					if p.Results[0].Outcome != driver.WorkSucceeded {
						return run.Finish(ctx, p)
					}
					if err := giveUp(); err != nil {
						return err
					}
					return run.Finish(ctx, p)
				}
			} else {
				db.check = giveUp
			}
			run(t, newWorkers(db, insert, func(o *work.Options, _ *work.Source) { o.Retry.Attempts = 2 }))
			wantOutcome(t, db, "1", tt.want)
			wantOutcome(t, db, "2", tt.want)
			var effects []string
			if tt.want == done {
				effects = []string{"1", "2"}
			}
			wantEffects(t, db, effects...)
		})
	}
}

// A commit with an unknown outcome repeats no effect, whether it happened or not.
func TestUnknownCommit(t *testing.T) {
	t.Parallel()
	for name, committed := range map[string]bool{"committed": true, "not committed": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, log := openDatabase(t), &rig.Log{}
			claimInTurn(t, db, "1", "2")
			var calls atomic.Int64
			db.finish = func(ctx context.Context, run driver.Run[*sql.Tx], p *driver.FinishParams) error {
				if calls.Add(1) > 1 {
					return run.Finish(ctx, p)
				}
				if committed {
					if err := run.Finish(ctx, p); err != nil {
						return err
					}
				}
				return driver.ErrCommitUnknown
			}
			stop := run(t, newWorkers(db, insert, logTo(log)))
			wantOutcome(t, db, "1", done)
			wantOutcome(t, db, "2", done)
			stop()
			wantEffects(t, db, "1", "2")
			log.WantOne(t, `"a run failed; its events run again" source=lab event_id=1 events=2`)
		})
	}
}

// A row that the database refuses at the commit is the fault of one handler of the batch.
func TestRefusedAtTheCommit(t *testing.T) {
	t.Parallel()
	db := openDatabase(t)
	claimInTurn(t, db, "1", "bad", "2")
	db.finish = func(ctx context.Context, run driver.Run[*sql.Tx], p *driver.FinishParams) error {
		for _, result := range p.Results {
			if result.Key == driver.EventKey("lab", "bad") && result.Outcome == driver.WorkSucceeded {
				return driver.ErrBadRow
			}
		}
		return run.Finish(ctx, p)
	}
	run(t, newWorkers(db, insert, nil))
	wantOutcome(t, db, "1", done)
	wantOutcome(t, db, "2", done)
	wantOutcome(t, db, "bad", outcome{State: driver.StateDead, Attempts: 3, LastError: driver.ErrBadRow.Error()})
	wantEffects(t, db, "1", "2")
}

// A batch whose time is over begins no further handler, and gives the rest back.
func TestBatchTime(t *testing.T) {
	t.Parallel()
	db := openDatabase(t)
	db.batchTime = time.Nanosecond
	claimInTurn(t, db, "1", "2", "3")
	var commits atomic.Int64
	db.finish = func(ctx context.Context, run driver.Run[*sql.Tx], p *driver.FinishParams) error {
		commits.Add(1)
		return run.Finish(ctx, p)
	}
	run(t, newWorkers(db, insert, nil))
	for _, id := range []string{"1", "2", "3"} {
		wantOutcome(t, db, id, done)
	}
	if n := commits.Load(); n != 3 {
		t.Errorf("%d commits for 3 events, want one for each", n)
	}
}

// watching makes workers skip stale events of newVersion.
func watching(t *testing.T) func(*work.Options, *work.Source) {
	t.Helper()
	spec, err := provider.Lookup(provider.None)
	if err != nil {
		t.Fatal(err)
	}
	x, err := provider.CompileRules(provider.EventRules{ID: "body:id"}.Or(spec.Event))
	if err != nil {
		t.Fatal(err)
	}
	push := func(eventType string) bool { return eventType == "push" }
	rule := stale.Rule{Matches: push, Key: "body:object", Version: "body:version"}
	rules, err := stale.New("lab", []stale.Rule{rule}, spec, x, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return func(_ *work.Options, src *work.Source) { src.Stale = rules }
}

// newVersion returns a claim about a version of an object.
func newVersion(id, object string, version int) driver.Claim {
	return newClaim(id, fmt.Sprintf(`{"object":%q,"version":%d}`, object, version))
}

func TestStaleEventsAreSkipped(t *testing.T) {
	t.Parallel()
	db := openDatabase(t)
	for i, version := range []int{2, 4, 3, 4, 5, 1} { // in one batch
		claim(t, db, newVersion(fmt.Sprint(i), "a", version))
	}
	claim(t, db, newVersion("other", "b", 1))
	var mu sync.Mutex
	observed := make(map[string]string)
	stop := run(t, newWorkers(db, insert, func(o *work.Options, src *work.Source) {
		watching(t)(o, src)
		o.Observe = func(seen *work.Observed) {
			mu.Lock()
			defer mu.Unlock()
			observed[seen.Event.EventID] = seen.Outcome
		}
	}))
	skipped := func(reason string) outcome {
		return outcome{State: driver.StateSkipped, Note: driver.NoteStale, LastError: reason}
	}
	for id, want := range map[string]outcome{
		"0": done, "1": done, "2": skipped("version 3 is older than 4"), "3": done, "4": done,
		"5": skipped("version 1 is older than 5"), "other": done,
	} {
		wantOutcome(t, db, id, want)
	}
	claim(t, db, newVersion("later", "a", 4))
	wantOutcome(t, db, "later", skipped("version 4 is older than 5"))
	wantEffects(t, db, "0", "1", "3", "4", "other")
	stop()
	want := map[string]string{"0": "done", "1": "done", "2": "skipped", "3": "done", "4": "done", "5": "skipped", "other": "done", "later": "skipped"}
	if diff := cmp.Diff(want, observed); diff != "" {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
}

// A failed event is not applied, so an older one is not stale.
func TestFailureAppliesNoVersion(t *testing.T) {
	t.Parallel()
	db := openDatabase(t)
	claim(t, db, newVersion("newer", "a", 2))
	claim(t, db, newVersion("older", "a", 1))
	run(t, newWorkers(db, func(ctx context.Context, tx *sql.Tx, ev *work.Event) error {
		if ev.EventID == "newer" {
			return guard.Permanent(errInjected)
		}
		return insert(ctx, tx, ev)
	}, watching(t)))
	wantOutcome(t, db, "newer", outcome{State: driver.StateDead, Attempts: 1, LastError: "no stock"})
	wantOutcome(t, db, "older", done)
	wantEffects(t, db, "older")
}

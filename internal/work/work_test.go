package work_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/guard"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/internal/work"
)

// handler is the handler of all events of the source "lab" and the type "push".
type handler func(ctx context.Context, tx *sql.Tx, ev *work.Event) error

func (handler) Types() map[string][]string { return map[string][]string{"lab": {"push"}} }

func (handler) Handles(source, eventType string) bool { return source == "lab" && eventType == "push" }

func (h handler) Start(ctx context.Context, tx *sql.Tx, ev *work.Event) *work.Call {
	var enqueued []string
	ctx = context.WithValue(ctx, enqueuedKey{}, &enqueued)
	return &work.Call{
		Done:     guard.Call("the handler", func() error { return h(ctx, tx, ev) }),
		Enqueued: func() []string { return enqueued },
	}
}

// insert is a handler whose effect is the id of the event.
func insert(ctx context.Context, tx *sql.Tx, ev *work.Event) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES (?)", ev.EventID)
	return err
}

// workers are Workers with the settings of their source "lab".
type workers struct {
	*work.Workers[*sql.Tx]
	src *work.Source
}

// newWorkers returns workers that have three attempts at once for each event. change may change
// their options, and the settings of the source "lab".
func newWorkers(db driver.Driver[*sql.Tx], h handler, change func(o *work.Options, src *work.Source)) *workers {
	src := &work.Source{Name: "lab", AckTimeout: 30 * time.Second, RefetchTimeout: 30 * time.Second, DeadLetterAfter: 5}
	o := work.Options{
		Workers: 1, Batch: 100, HandlerTimeout: 30 * time.Second,
		Retry: driver.Retry{Attempts: 3, First: time.Microsecond, Max: time.Microsecond},
		Log:   slog.New(slog.DiscardHandler),
		Source: func(name string) *work.Source {
			if name == src.Name {
				return src
			}
			return nil
		},
		Wake: func(string) {}, Reopened: func() {}, Observe: func(*work.Observed) {}, Lost: func(*driver.LostRun) {},
	}
	if change != nil {
		change(&o, src)
	}
	return &workers{work.New(db, h, o), src}
}

// run runs w until the returned function is called, at the latest until the end of the test.
func run(t *testing.T, w *workers) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx)
	}()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	return stop
}

func newClaim(id, body string) driver.Claim {
	return driver.Claim{
		Key: driver.EventKey("lab", id), Source: "lab", EventID: id, Type: "push",
		Headers: []byte("{}"), Body: []byte(body), Work: driver.WorkQueued,
	}
}

// claim claims events that wait for a handler, all in one commit.
func claim(t *testing.T, db *database, all ...driver.Claim) {
	t.Helper()
	claimAt(t, db, time.Time{}, all...)
}

func claimAt(t *testing.T, db *database, now time.Time, all ...driver.Claim) {
	t.Helper()
	slices.SortFunc(all, func(a, b driver.Claim) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	if _, err := db.Claim(t.Context(), &driver.ClaimParams{Claims: all, Now: now}); err != nil {
		t.Fatal(err)
	}
}

// claimInTurn claims events one after the other, so that they are due in their order.
func claimInTurn(t *testing.T, db *database, ids ...string) {
	t.Helper()
	for _, id := range ids {
		claim(t, db, newClaim(id, "{}"))
	}
}

func eventOf(t *testing.T, db *database, id string) *driver.EventDetail {
	t.Helper()
	ev, err := db.Event(t.Context(), "lab", id)
	if err != nil {
		t.Fatal(err)
	}
	return ev
}

// outcome is the part of an event that tests compare.
type outcome struct {
	State, Note string
	Attempts    int
	LastError   string // the wanted one is a part of the actual one
}

var done = outcome{State: driver.StateDone, Attempts: 1}

// wantOutcome waits until an event has ended, and compares its outcome.
func wantOutcome(t *testing.T, db *database, id string, want outcome) {
	t.Helper()
	eventually.True(t, "event "+id+" has ended", func() bool {
		state := eventOf(t, db, id).State
		return state == driver.StateDone || state == driver.StateDead || state == driver.StateSkipped
	})
	compareOutcome(t, db, id, want)
}

func compareOutcome(t *testing.T, db *database, id string, want outcome) {
	t.Helper()
	ev := eventOf(t, db, id)
	got := outcome{ev.State, ev.Note, ev.Attempts, ev.LastError}
	if want.LastError != "" && strings.Contains(got.LastError, want.LastError) {
		got.LastError = want.LastError
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("event %s (-want +got):\n%s", id, diff)
	}
}

func wantEffects(t *testing.T, db *database, want ...string) {
	t.Helper()
	slices.Sort(want)
	if diff := cmp.Diff(want, db.names(t), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}

// logTo makes workers log to l.
func logTo(l *rig.Log) func(*work.Options, *work.Source) {
	return func(o *work.Options, _ *work.Source) { o.Log = l.Logger() }
}

// Workers that cannot take events try again, and log it rarely.
func TestOutage(t *testing.T) {
	t.Parallel()
	db, log := openDatabase(t), &rig.Log{}
	var takes, sweeps atomic.Int64
	db.beforeTake = func() error {
		if takes.Add(1) == 1 {
			return driver.ErrUnavailable
		}
		return nil
	}
	db.beforeSweep = func() error {
		if sweeps.Add(1) <= 2 {
			return driver.ErrSchema
		}
		return nil
	}
	claimInTurn(t, db, "1")
	stop := run(t, newWorkers(db, insert, logTo(log)))
	wantOutcome(t, db, "1", done)
	eventually.True(t, "sweeps go on", func() bool { return sweeps.Load() > 2 })
	stop()
	wantEffects(t, db, "1")
	log.WantOne(t, `"taking events failed; retrying in 1s" source=lab`)
	log.WantOne(t, "looking for events failed; retrying every second")
	log.WantOne(t, "call hookmigrate.Up")
}

// loseRun takes n due events, as a process does that is killed while the handlers work: their run
// stays on record, and its time is over.
func loseRun(t *testing.T, db *database, n, attempts int) {
	t.Helper()
	lost, err := db.Take(t.Context(), &driver.TakeParams{
		Source: "lab", Types: []string{"*"}, Limit: n, HandlerTimeout: time.Second, Now: time.Now().Add(-time.Hour),
		Retry: driver.Retry{Attempts: attempts, First: time.Millisecond, Max: time.Millisecond},
	})
	if err != nil || lost == nil || len(lost.Events()) != n {
		t.Fatalf("took %v, error %v; want %d events", lost, err, n)
	}
	lost.Sever()
}

func TestInterruptedRuns(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		ids      []string
		attempts int // of the schedule
		want     outcome
		effects  []string
		line     string
	}{
		"alone":        {[]string{"1"}, 3, outcome{State: driver.StateDone, Attempts: 2}, []string{"1"}, "; retrying"},
		"last attempt": {[]string{"1"}, 1, outcome{State: driver.StateDead, Attempts: 1, LastError: driver.ErrorRunInterrupted}, nil, "dead: "},
		// Nothing tells which event ended the process: none has an attempt counted.
		"batch": {[]string{"1", "2"}, 1, done, []string{"1", "2"}, "this event of it runs alone from now on"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, log := openDatabase(t), &rig.Log{}
			for _, id := range tt.ids {
				claimAt(t, db, time.Now().Add(-2*time.Hour), newClaim(id, "{}"))
			}
			loseRun(t, db, len(tt.ids), tt.attempts)
			run(t, newWorkers(db, insert, func(o *work.Options, src *work.Source) {
				logTo(log)(o, src)
				o.Workers, o.Retry.Attempts = 2, tt.attempts
			}))
			for _, id := range tt.ids {
				wantOutcome(t, db, id, tt.want)
			}
			wantEffects(t, db, tt.effects...)
			eventually.True(t, "the log has each line", func() bool { return strings.Count(log.Text(), tt.line) == len(tt.ids) }) // after the commit
		})
	}
}

// A handler in progress finishes when the workers stop. Events that it kept waiting are given back,
// which costs them nothing.
func TestStopGivesEventsBack(t *testing.T) {
	t.Parallel()
	db := openDatabase(t)
	claimInTurn(t, db, "1", "2")
	began, release := make(chan string, 10), make(chan struct{})
	w := newWorkers(db, func(ctx context.Context, tx *sql.Tx, ev *work.Event) error {
		began <- ev.EventID
		<-release
		return insert(ctx, tx, ev)
	}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { w.Run(ctx); close(ended) }()
	if id := <-began; id != "1" {
		t.Errorf("event %s ran first", id)
	}
	cancel()
	select {
	case <-ended:
		t.Error("Run returned while a handler ran")
	default:
	}
	close(release)
	<-ended
	compareOutcome(t, db, "1", done)
	compareOutcome(t, db, "2", outcome{State: driver.StatePending})
	wantEffects(t, db, "1")
}

// A process without handlers deals with interrupted runs of all sources. The run's own process
// decides how many attempts there are.
func TestWithoutHandlers(t *testing.T) {
	t.Parallel()
	db, log := openDatabase(t), &rig.Log{}
	claimAt(t, db, time.Now().Add(-2*time.Hour), newClaim("1", "{}"))
	loseRun(t, db, 1, 1)
	w := work.New(db, none{}, work.Options{Workers: 1, Log: slog.New(slog.NewTextHandler(log, nil)), Lost: func(*driver.LostRun) {}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { w.Run(ctx); close(ended) }()
	wantOutcome(t, db, "1", outcome{State: driver.StateDead, Attempts: 1, LastError: driver.ErrorRunInterrupted})
	eventually.True(t, "the log names the dead event", func() bool { return strings.Contains(log.Text(), "dead: "+driver.ErrorRunInterrupted) }) // after the commit
	cancel()
	<-ended
}

type none struct{ handler }

func (none) Types() map[string][]string { return nil }

// errInjected is the failure of a handler.
var errInjected = errors.New("no stock")

package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// bench is one driver under test. It embeds fixture for the methods of every store.
type bench[T any] struct {
	*fixture
	d driver.Driver[T]
	h Harness[T]
	// gone holds the runs whose processes look dead, until a sweep; at most maxGone.
	gone []driver.Run[T]
}

// second returns a bench with another driver on the same database.
func (w *bench[T]) second() *bench[T] {
	w.Helper()
	d := w.h.Second(w.T, w.d)
	return &bench[T]{fixture: &fixture{T: w.T, s: d}, d: d, h: w.h}
}

// newQueued returns a claim that waits for a handler.
func newQueued(id string, routes ...string) driver.Claim {
	c := newClaim("stripe", id, "body of "+id, routes...)
	c.Work = driver.WorkQueued
	return c
}

// queue claims events that wait for handlers, in one call.
func (w *bench[T]) queue(at time.Time, ids ...string) []driver.Claim {
	w.Helper()
	var all []driver.Claim
	for _, id := range ids {
		all = append(all, newQueued(id))
	}
	w.claimNew(at, all...)
	return all
}

// numbered returns n ids.
func numbered(n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("evt_%03d", i))
	}
	return all
}

// takeParams returns parameters to take events that were never tried, or with tried those that
// were.
func (w *bench[T]) takeParams(at time.Time, limit int, tried bool) *driver.TakeParams {
	return &driver.TakeParams{
		Source: "stripe", Types: []string{"*"}, Limit: limit, Tried: tried,
		HandlerTimeout: w.d.WorkLimits().MaxHandlerTimeout, Retry: retry(maxAttempts), Now: at,
	}
}

// takeWith takes events; the run is nil if there are none. If the test fails, the run is abandoned
// so that the driver can be closed.
func (w *bench[T]) takeWith(p *driver.TakeParams) driver.Run[T] {
	w.Helper()
	run, err := w.d.Take(w.Context(), p)
	if err != nil {
		w.Fatalf("Take: %v", err)
	}
	w.abandonOnFailure(run)
	return run
}

func (w *bench[T]) abandonOnFailure(run driver.Run[T]) {
	if run == nil {
		return
	}
	w.Cleanup(func() {
		if w.Failed() {
			ctx, cancel := context.WithTimeout(context.Background(), eventually.Bound)
			defer cancel()
			_ = run.Abandon(ctx) // the test has failed already
		}
	})
}

// takeNone fails if p takes something.
func (w *bench[T]) takeNone(what string, p *driver.TakeParams) {
	w.Helper()
	if run := w.takeWith(p); run != nil {
		w.Fatalf("%s: took %v, want nothing", what, eventIDs(run.Events()))
	}
}

// take takes exactly the given fresh events, in this order.
func (w *bench[T]) take(at time.Time, ids ...string) driver.Run[T] {
	w.Helper()
	return w.takeThese(w.takeParams(at, 100, false), ids...)
}

// takeTried is take for events that were tried before.
func (w *bench[T]) takeTried(at time.Time, ids ...string) driver.Run[T] {
	w.Helper()
	return w.takeThese(w.takeParams(at, 100, true), ids...)
}

func (w *bench[T]) takeThese(p *driver.TakeParams, ids ...string) driver.Run[T] {
	w.Helper()
	run := w.takeWith(p)
	if run == nil {
		w.Fatalf("Take(%+v) took nothing, want %v", p, ids)
	}
	if got := eventIDs(run.Events()); !slices.Equal(got, ids) {
		w.Fatalf("Take(%+v) took %v, want %v", p, got, ids)
	}
	return run
}

func eventIDs(events []driver.TakenEvent) []string {
	var all []string
	for i := range events {
		all = append(all, events[i].EventID)
	}
	return all
}

// taken returns an event in a run, as the claim c made it.
func taken(c *driver.Claim, at time.Time) driver.TakenEvent {
	return driver.TakenEvent{
		Key: c.Key, Source: c.Source, EventID: c.EventID, Type: c.Type, OccurredAt: c.OccurredAt, ReceivedAt: at,
		Headers: c.Headers, Body: c.Body,
	}
}

// effect works like a handler: it inserts a row for each event of the run, named after the event
// and its generation.
func (w *bench[T]) effect(run driver.Run[T]) {
	w.Helper()
	for _, e := range run.Events() {
		if err := w.h.Effect(w.Context(), run.Tx(), effectOf(&e)); err != nil {
			w.Fatalf("effect of %s: %v", e.EventID, err)
		}
	}
}

func effectOf(e *driver.TakenEvent) string { return fmt.Sprintf("%s#%d", e.EventID, e.Generation) }

// effects fails unless the committed effects are exactly names, each once.
func (w *bench[T]) effects(names ...string) {
	w.Helper()
	want := map[string]int{}
	for _, name := range names {
		want[name]++
	}
	same(w, "effects", want, w.h.Effects(w.T, w.d))
}

func succeeded(e *driver.TakenEvent) driver.WorkResult {
	return driver.WorkResult{Key: e.Key, Outcome: driver.WorkSucceeded, Took: 1500 * time.Microsecond}
}

// Errors and durations of attempts.
const (
	handlerError = "no such order: it's \"1\"\nö"
	retryIn      = 10 * time.Second
	handlerTook  = 123456 * time.Microsecond
)

func retried(e *driver.TakenEvent) driver.WorkResult {
	return driver.WorkResult{Key: e.Key, Outcome: driver.WorkRetry, RetryIn: retryIn, Error: handlerError, Took: handlerTook, ReservedUntil: e.DueAt}
}

func failed(e *driver.TakenEvent) driver.WorkResult {
	return driver.WorkResult{Key: e.Key, Outcome: driver.WorkFailed, Error: handlerError, Took: handlerTook, ReservedUntil: e.DueAt}
}

// committed is the outcome of a handler that committed by itself.
func committed(e *driver.TakenEvent) driver.WorkResult {
	return driver.WorkResult{Key: e.Key, Outcome: driver.WorkEnded, Error: handlerError, Took: handlerTook}
}

func stale(e *driver.TakenEvent) driver.WorkResult {
	return driver.WorkResult{Key: e.Key, Outcome: driver.WorkStale, Error: "3 is older than 4", Took: handlerTook, ReservedUntil: e.DueAt}
}

// attemptOf returns the record of a failed attempt.
func attemptOf(r driver.WorkResult, at time.Time, generation, number int) driver.Attempt {
	outcome := map[driver.WorkOutcome]string{driver.WorkRetry: "retry", driver.WorkFailed: "dead"}[r.Outcome]
	return driver.Attempt{Generation: generation, Number: number, Outcome: outcome, Error: r.Error, At: at, Took: r.Took}
}

func (w *bench[T]) finishWith(run driver.Run[T], p *driver.FinishParams) {
	w.Helper()
	if err := run.Finish(w.Context(), p); err != nil {
		w.Fatalf("Finish: %v", err)
	}
}

func (w *bench[T]) finish(at time.Time, run driver.Run[T], results ...driver.WorkResult) {
	w.Helper()
	w.finishWith(run, &driver.FinishParams{Results: results, Now: at})
}

// succeed finishes a run after all its handlers succeeded.
func (w *bench[T]) succeed(at time.Time, run driver.Run[T]) {
	w.Helper()
	w.finish(at, run, allSucceeded(run)...)
}

func allSucceeded[T any](run driver.Run[T]) []driver.WorkResult {
	var results []driver.WorkResult
	for _, e := range run.Events() {
		results = append(results, succeeded(&e))
	}
	return results
}

func (w *bench[T]) settle(at time.Time, run driver.Run[T], results ...driver.WorkResult) {
	w.Helper()
	if err := run.Settle(w.Context(), &driver.FinishParams{Results: results, Now: at}); err != nil {
		w.Fatalf("Settle: %v", err)
	}
}

// unsettled fails unless Settle finds no record of the run.
func (w *bench[T]) unsettled(what string, at time.Time, run driver.Run[T], results ...driver.WorkResult) {
	w.Helper()
	err := run.Settle(w.Context(), &driver.FinishParams{Results: results, Now: at})
	if !errors.Is(err, driver.ErrNotFound) {
		w.Errorf("%s: Settle returned the error %v, want %v", what, err, driver.ErrNotFound)
	}
}

func (w *bench[T]) abandon(run driver.Run[T]) {
	w.Helper()
	if err := run.Abandon(w.Context()); err != nil {
		w.Fatalf("Abandon: %v", err)
	}
}

// The retry schedule of the cases.
const (
	sweepFirst = 10 * time.Second
	sweepMax   = time.Minute
)

func retry(attempts int) driver.Retry {
	return driver.Retry{Attempts: attempts, First: sweepFirst, Max: sweepMax}
}

// sweepWith sweeps, then lets the processes that look dead abandon their runs. That must change
// nothing.
func (w *bench[T]) sweepWith(p *driver.SweepRunsParams) []driver.LostRun {
	w.Helper()
	lost, err := w.d.SweepRuns(w.Context(), p)
	if err != nil {
		w.Fatalf("SweepRuns: %v", err)
	}
	w.buryGone()
	slices.SortFunc(lost, func(a, b driver.LostRun) int { return slices.Compare([]string{a.EventID}, []string{b.EventID}) })
	return lost
}

func (w *bench[T]) buryGone() {
	w.Helper()
	for _, run := range w.gone {
		w.abandon(run)
	}
	w.gone = nil
}

func (w *bench[T]) sweep(at time.Time) []driver.LostRun {
	w.Helper()
	return w.sweepWith(sweepParams(at))
}

func sweepParams(at time.Time) *driver.SweepRunsParams { return &driver.SweepRunsParams{Now: at} }

// sweptNothing fails if a sweep finds something.
func (w *bench[T]) sweptNothing(what string, at time.Time) {
	w.Helper()
	if lost := w.sweep(at); len(lost) > 0 {
		w.Errorf("%s: the sweep found %+v, want nothing", what, lost)
	}
}

// interrupt runs handlers, then makes the process of the run look dead.
func (w *bench[T]) interrupt(run driver.Run[T]) {
	w.Helper()
	w.effect(run)
	w.die(run)
}

// maxGone bounds the interrupted runs of one driver. Their process only looks dead, and keeps its
// connections.
const maxGone = 4

// die makes the process of the run look dead.
func (w *bench[T]) die(run driver.Run[T]) {
	w.Helper()
	w.h.Interrupt(w.T, w.d, run)
	w.gone = append(w.gone, run)
}

// beside makes a call next to an open transaction, which must not block it. With a single writer it
// may block until its context ends.
func (w *bench[T]) beside(what string, call func(ctx context.Context) error) {
	w.Helper()
	if !w.comesThrough(what, call) && !w.singleWriter() {
		w.Errorf("%s waited for the other transaction", what)
	}
}

// behind makes a call that must wait for an open transaction, and so must fail. The call needs a time
// limit of its own, unless there is a single writer.
func (w *bench[T]) behind(what string, call func(ctx context.Context) error) {
	w.Helper()
	if w.comesThrough(what, call) {
		w.Errorf("%s did not wait for the other transaction", what)
	}
}

func (w *bench[T]) singleWriter() bool { return w.d.WorkLimits().Transactions == 1 }

// comesThrough makes a call, and reports whether it succeeded. Only with a single writer the context
// ends soon: it ends the wait for the writer. Elsewhere it would cut off a statement that the server
// has not answered yet, and the outcome would be unknown.
func (w *bench[T]) comesThrough(what string, call func(ctx context.Context) error) bool {
	w.Helper()
	limit := eventually.Bound
	if w.singleWriter() {
		limit = 300 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(w.Context(), limit)
	defer cancel()
	err := call(ctx)
	if err != nil && !errors.Is(err, driver.ErrUnavailable) && !busy(err) {
		w.Fatalf("%s: got the error %v, want none, %v or %v", what, err, driver.ErrUnavailable, driver.ErrLockTimeout)
	}
	return err == nil
}

// state returns the state of an event of the source stripe.
func (w *bench[T]) state(id string) string {
	w.Helper()
	return w.event("stripe", id).State
}

// done is the detail of an event whose handler succeeded.
func done(c *driver.Claim, at, processed time.Time) *driver.EventDetail {
	want := claimed(c, at)
	want.State, want.Note, want.ProcessedAt, want.Attempts = driver.StateDone, "", processed, 1
	return want
}

package hookonce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/send"
)

const (
	// pollInterval is the floor under the wake-ups: retries that came due,
	// leases that ran out, and messages that another process wrote.
	pollInterval = time.Second
	// leaseMargin is how much longer than its send a lease holds: the time to
	// record the outcome.
	leaseMargin = 5 * time.Second
	// drainTimeout bounds the sends that are under way when Run is to end.
	drainTimeout = 10 * time.Second
	relayTimeout = 10 * time.Second // for one statement
	warnInterval = 30 * time.Second // between two lines about a database that is down
	maxRetryMax  = 366 * 24 * time.Hour
)

// destination is a Destination made ready.
type destination struct {
	Destination
	target send.Target
	rate   *bucket
}

func newDestination(d Destination) (*destination, error) {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("destination %q: "+format, append([]any{d.Name}, args...)...))
	}
	if d.Name == "" {
		fault("it needs a name")
	}
	if err := send.CheckURL(d.URL); err != nil {
		fault("%w", err)
	}
	if d.Secret != "" {
		if _, err := send.CheckSecret(d.Secret); err != nil {
			fault("the secret: %w", err)
		}
	}
	if d.Timeout < 0 || d.Concurrency < 0 || d.Retry.Attempts < 0 || d.Retry.First < 0 || d.Retry.Max < 0 {
		fault("timeout, concurrency and retry must not be negative")
	}
	if d.Retry.Max > maxRetryMax || d.Retry.First > maxRetryMax {
		fault("retry: first and max must not be above %s", maxRetryMax)
	}
	if err := d.Rate.check(); err != nil {
		fault("%w", err)
	}
	setDefault(&d.Timeout, DefaultSendTimeout)
	setDefault(&d.Concurrency, DefaultConcurrency)
	setDefault(&d.Retry.Attempts, DefaultSendAttempts)
	setDefault(&d.Retry.First, DefaultFirstRetry)
	setDefault(&d.Retry.Max, max(DefaultMaxRetry, d.Retry.First))
	if d.Retry.Max < d.Retry.First {
		fault("retry: max must not be below first")
	}
	return &destination{
		Destination: d,
		target:      send.Target{URL: d.URL, Secret: d.Secret, Timeout: d.Timeout, AllowPrivate: d.AllowPrivate},
		rate:        newBucket(d.Rate),
	}, errors.Join(faults...)
}

// relay sends the messages of one destination. Each destination has its own,
// so that a dead one holds up nobody else.
type relay struct {
	store  driver.Store
	log    *slog.Logger
	dest   *destination
	sender *send.Sender

	circuit  *circuit
	woken    chan struct{}
	slots    chan struct{} // one for each send under way
	sending  sync.WaitGroup
	finished chan ending
}

// ending is how an attempt ended, and the log of its message.
type ending struct {
	driver.Completion
	log *slog.Logger
}

func newRelay(store driver.Store, log *slog.Logger, dest *destination, sender *send.Sender) *relay {
	return &relay{
		store:    store,
		log:      log.With(slog.String("destination", dest.Name)),
		dest:     dest,
		sender:   sender,
		circuit:  newCircuit(dest.Retry),
		woken:    make(chan struct{}, 1),
		slots:    make(chan struct{}, dest.Concurrency),
		finished: make(chan ending, dest.Concurrency),
	}
}

// wake says that there may be something to send. It never blocks.
func (r *relay) wake() {
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

// run leases and sends until ctx ends, then finishes what is under way: as long
// as that takes, or once whole, the context of all relays, has ended, for
// drainTimeout. Every lease it took is completed or, at worst, runs out.
func (r *relay) run(ctx, whole context.Context) {
	sendCtx, stopSending := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSending()
	draining := context.AfterFunc(whole, func() { time.AfterFunc(drainTimeout, stopSending) })
	defer draining()
	var completing sync.WaitGroup
	completing.Go(func() { r.completeAll(whole) })

	r.loop(ctx, sendCtx)

	r.sending.Wait()
	close(r.finished)
	completing.Wait()
}

func (r *relay) loop(ctx, sendCtx context.Context) {
	poll := time.NewTimer(0)
	defer poll.Stop()
	var warned time.Time
	for {
		next, err := r.step(ctx, sendCtx)
		if err != nil && ctx.Err() == nil && time.Since(warned) > warnInterval {
			r.log.Warn("leasing messages failed, and is tried again every second", slog.Any("error", err))
			warned = time.Now()
		}
		poll.Reset(next)
		select {
		case <-ctx.Done():
			return
		case <-r.woken:
		case <-poll.C:
		}
	}
}

// step waits for a free slot, leases as many messages as may be sent, and
// starts sending them. It returns when to come again if nothing wakes the relay:
// at once if there may be more to lease.
func (r *relay) step(ctx, sendCtx context.Context) (next time.Duration, err error) {
	select {
	case r.slots <- struct{}{}:
	case <-ctx.Done():
		return 0, nil
	}
	<-r.slots
	want, kind, wait := r.circuit.allow(cap(r.slots)-len(r.slots), time.Now())
	if want == 0 {
		return soonest(wait), nil
	}
	messages, next, err := r.leaseWithinRate(ctx, want, kind == probeUntried)
	if kind == probeUntried && len(messages) == 0 && err == nil {
		messages, next, err = r.leaseWithinRate(ctx, want, false) // all that is due was tried
	}
	stopped := ctx.Err() != nil
	if kind != noProbe && (stopped || len(messages) == 0) {
		r.circuit.dismiss()
	}
	if err != nil {
		return pollInterval, err
	}
	if stopped {
		return 0, r.giveBack(ctx, messages)
	}
	for i := range messages {
		r.slots <- struct{}{}
		r.sending.Go(func() {
			defer func() { <-r.slots }()
			if done := r.attemptSafely(sendCtx, &messages[i], kind != noProbe); done.Outcome != 0 {
				r.finished <- ending{done, r.logOf(&messages[i])}
			}
		})
	}
	return next, nil
}

// soonest returns wait, or the poll interval where that is less or wait is 0.
func soonest(wait time.Duration) time.Duration {
	if wait == 0 {
		return pollInterval
	}
	return min(wait, pollInterval)
}

// leaseWithinRate leases up to want messages, as far as the rate allows, and
// returns when to come again.
func (r *relay) leaseWithinRate(ctx context.Context, want int, untried bool) ([]driver.Message, time.Duration, error) {
	allowed, wait := r.dest.rate.takeUpTo(want, time.Now())
	if allowed == 0 {
		return nil, soonest(wait), nil // the rate is used up
	}
	leased, err := r.lease(ctx, allowed, untried)
	if err != nil {
		r.dest.rate.giveBack(allowed)
		return nil, 0, err
	}
	r.dest.rate.giveBack(allowed - len(leased.Messages))
	r.logLeased(leased)
	next := pollInterval
	if len(leased.Messages) == want || len(leased.Buried) > 0 {
		next = 0 // there may be more behind them
	}
	return leased.Messages, next, nil
}

func (r *relay) logLeased(leased *driver.Leased) {
	for i := range leased.Buried {
		r.logOf(&leased.Buried[i]).Error("dead: its attempts are used up")
	}
	expired := 0
	for i := range leased.Messages {
		if leased.Messages[i].Expired {
			expired++
		}
	}
	if expired > 0 {
		r.log.Warn("leases had run out: their messages are sent again", slog.Int("messages", expired))
	}
}

func (r *relay) logOf(m *driver.Message) *slog.Logger {
	return r.log.With(slog.String("source", m.Source), slog.String("event_id", m.EventID),
		slog.String("message_id", m.ID), slog.Int("attempt", m.Attempt))
}

// lease does not end with ctx: a lease that was committed and not heard of
// would cost its message an attempt and the time until it runs out.
func (r *relay) lease(ctx context.Context, n int, untried bool) (*driver.Leased, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), relayTimeout)
	defer cancel()
	return r.store.Lease(ctx, &driver.LeaseParams{
		Destination: r.dest.Name,
		Limit:       n,
		For:         r.dest.Timeout + leaseMargin,
		MaxAttempts: r.dest.Retry.Attempts,
		Untried:     untried,
	})
}

// giveBack releases leases that are not going to be used.
func (r *relay) giveBack(ctx context.Context, messages []driver.Message) error {
	if len(messages) == 0 {
		return nil
	}
	leases := make([]driver.MessageLease, len(messages))
	for i := range messages {
		leases[i] = driver.MessageLease{ID: messages[i].ID, Token: messages[i].Token}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), relayTimeout)
	defer cancel()
	return r.store.Release(ctx, &driver.ReleaseParams{Leases: leases})
}

// attemptSafely makes a panic a failed attempt, and tells the circuit. Without an
// outcome there is nothing to record.
func (r *relay) attemptSafely(ctx context.Context, m *driver.Message, probed bool) (done driver.Completion) {
	works := false
	defer func() {
		if v := recover(); v != nil {
			r.logOf(m).Error("panic while sending", slog.Any("error", panicError(v)))
			done = driver.Completion{ID: m.ID, Token: m.Token, Error: "an internal error occurred; the log says more"}
			r.retryOrBury(&done, m, 0)
		}
		r.tellCircuit(works, probed)
	}()
	done, works = r.attempt(ctx, m)
	return done
}

func (r *relay) tellCircuit(works, probed bool) {
	opened, closed := r.circuit.report(works, probed, time.Now())
	switch {
	case opened:
		r.log.Warn("the destination failed too often in a row: it is left alone, and tried with one message at a time",
			slog.Int("failures", circuitThreshold), slog.String("every", r.circuit.cooldown.String()))
	case closed:
		r.log.Info("the destination is back")
	}
}

// attempt sends m once and says what came of it, and whether the destination
// works.
func (r *relay) attempt(ctx context.Context, m *driver.Message) (done driver.Completion, works bool) {
	done = driver.Completion{ID: m.ID, Token: m.Token}
	log := r.logOf(m)
	if m.Expired {
		log.Debug("sending again what was being sent when its lease ran out")
	}
	header, err := parseHeader(m.Headers)
	if err != nil {
		log.Error("sending without the sender's headers", slog.Any("error", err))
	}
	began := time.Now()
	result := r.sender.Send(ctx, &r.dest.target, &send.Message{
		ID: m.ID, Source: m.Source, EventID: m.EventID, Type: m.Type,
		Attempt: m.Attempt, Generation: m.Generation, Header: header, Body: m.Body,
	})
	done.Took = time.Since(began)
	done.StatusCode = result.StatusCode
	switch {
	case result.Err == nil:
		done.Outcome = driver.MessageSent
		log.Debug("sent", slog.Int("status", result.StatusCode))
		return done, true
	case result.Permanent:
		done.Outcome, done.Error = driver.MessageDead, describeFailure(&result)
	case ctx.Err() != nil && errors.Is(result.Err, context.Canceled):
		// Cut off by our own stop: it goes out again under the same id without
		// waiting. It may have arrived, so it counts, unless that would make it
		// dead.
		if m.Attempt >= r.dest.Retry.Attempts {
			return r.takeBack(ctx, m), true
		}
		done.Outcome, done.Error = driver.MessageRetry, "interrupted: this process was stopped"
	default:
		done.Error = describeFailure(&result)
		r.retryOrBury(&done, m, result.RetryAfter)
	}
	level, msg := slog.LevelInfo, "not sent, will be tried again"
	if done.Outcome == driver.MessageDead {
		level, msg = slog.LevelError, "not sent, dead"
	}
	log.Log(ctx, level, msg, slog.Int("status", result.StatusCode), slog.Any("error", result.Err),
		slog.String("retry_in", done.RetryIn.String()))
	return done, concernsMessage(result.StatusCode)
}

// takeBack gives the lease of m back; its attempt is not counted.
func (r *relay) takeBack(ctx context.Context, m *driver.Message) (none driver.Completion) {
	if err := r.giveBack(ctx, []driver.Message{*m}); err != nil {
		r.logOf(m).Warn("an interrupted attempt was not taken back", slog.Any("error", err))
	}
	return none
}

// concernsMessage reports whether a status refuses the message, and not the way
// to the destination: then that works, and its circuit is none of its business.
func concernsMessage(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusRequestTimeout,
		http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return 400 <= status && status <= 499
}

// retryOrBury decides on a failed attempt.
func (r *relay) retryOrBury(done *driver.Completion, m *driver.Message, retryAfter time.Duration) {
	if m.Attempt >= r.dest.Retry.Attempts {
		done.Outcome = driver.MessageDead
		return
	}
	done.Outcome = driver.MessageRetry
	done.RetryIn = r.dest.Retry.backoff(m.Attempt, retryAfter)
}

// describeFailure says what happened and what the destination said to it.
func describeFailure(r *send.Result) string {
	text := r.Err.Error()
	if r.StatusCode != 0 && r.Detail != "" && r.Detail != text {
		text += ": " + r.Detail
	}
	return text
}

// completeAll records outcomes until finished is closed, all that wait in one
// statement.
func (r *relay) completeAll(ctx context.Context) {
	for first := range r.finished {
		batch := []ending{first}
		for len(batch) < cap(r.finished)+1 {
			select {
			case next, ok := <-r.finished:
				if !ok {
					r.complete(ctx, batch)
					return
				}
				batch = append(batch, next)
				continue
			default:
			}
			break
		}
		r.complete(ctx, batch)
		r.wake() // slots are free
	}
}

// complete records outcomes, and tries again while their leases may hold:
// completing twice is harmless, forgetting costs another send. Once the relay is
// to stop it tries for leaseMargin only.
func (r *relay) complete(ctx context.Context, batch []ending) {
	began := time.Now()
	for {
		held, err := r.tryComplete(context.WithoutCancel(ctx), batch)
		if err == nil {
			logFenced(batch, held)
			return
		}
		if half := len(batch) / 2; half > 0 && splits(err) {
			// One outcome must not cost the others theirs.
			r.complete(ctx, batch[:half])
			r.complete(ctx, batch[half:])
			return
		}
		took := time.Since(began)
		if took > r.dest.Timeout+leaseMargin || took > leaseMargin && ctx.Err() != nil {
			r.log.Warn("outcomes were not recorded; their messages go out again once their leases ran out",
				slog.Int("messages", len(batch)), slog.Any("error", err))
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (r *relay) tryComplete(ctx context.Context, batch []ending) ([]bool, error) {
	p := &driver.CompleteParams{}
	for i := range batch {
		p.Completions = append(p.Completions, batch[i].Completion)
	}
	ctx, cancel := context.WithTimeout(ctx, leaseMargin)
	defer cancel()
	return r.store.Complete(ctx, p)
}

// logFenced tells of outcomes that came after their lease was lost. After an
// unknown commit that may be our own first try.
func logFenced(batch []ending, held []bool) {
	for i, ok := range held {
		if !ok {
			batch[i].log.Warn("the lease was lost before the outcome was recorded")
		}
	}
}

package hookonce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/send"
)

// attempted is what came of one attempt to send.
type attempted struct {
	status     int    // of the answer; 0 without one
	err        error  // nil if it was taken
	text       string // of err, to be recorded
	permanent  bool   // no further attempt can succeed
	retryAfter time.Duration
	exactly    bool // retryAfter is when, and not the least
	cutOff     bool // by our own stop
	works      bool // the destination does, whatever it thinks of the message
}

// attemptSafely makes a panic a failed attempt, and tells the circuit and the
// Observer. Without an outcome there is nothing to record.
func (r *relay) attemptSafely(ctx context.Context, m *driver.Message, probed bool) (done driver.Completion) {
	r.underWay.Add(1)
	defer r.underWay.Add(-1)
	began := time.Now()
	var got attempted
	defer func() {
		if v := recover(); v != nil {
			got = attempted{err: panicError(v), text: "an internal error occurred; the log says more"}
			r.logOf(m).Error("panic while sending", slog.Any("error", got.err))
			done = r.judge(m, &got)
			done.Took = time.Since(began)
		}
		r.tellCircuit(got.works, probed)
		if done.Outcome != 0 {
			r.observe(m, attemptOutcomes[done.Outcome], done.Took, got.err)
		}
	}()
	got = r.attempt(ctx, m)
	took := time.Since(began)
	if got.cutOff && m.Attempt >= r.dest.Retry.Attempts {
		// Else our own stop would make the message dead.
		got.works = true
		return r.takeBack(ctx, m)
	}
	done = r.judge(m, &got)
	done.Took = took
	r.logAttempt(m, &done, got.err)
	return done
}

var attemptOutcomes = map[driver.MessageOutcome]string{
	driver.MessageSent: attemptSent, driver.MessageRetry: attemptRetry, driver.MessageDead: attemptDead,
}

func (r *relay) tellCircuit(works, probed bool) {
	opened, closed := r.circuit.report(works, probed, time.Now())
	if probed || closed {
		r.wake() // what may be sent has changed
	}
	switch {
	case opened:
		r.log.Warn("the destination failed too often in a row: it is left alone, and tried with one message at a time",
			slog.Int("failures", circuitThreshold), slog.String("every", r.circuit.cooldown.String()))
	case closed:
		r.log.Info("the destination is back")
	}
}

func (r *relay) logAttempt(m *driver.Message, done *driver.Completion, err error) {
	level, msg := slog.LevelInfo, "not sent, will be tried again"
	switch done.Outcome {
	case driver.MessageSent:
		level, msg = slog.LevelDebug, "sent"
	case driver.MessageDead:
		level, msg = slog.LevelError, "not sent, dead"
	}
	r.logOf(m).Log(context.Background(), level, msg, slog.Int("status", done.StatusCode), slog.Any("error", loggable(err)),
		slog.String("retry_in", done.RetryIn.String()))
}

// attempt sends m once.
func (r *relay) attempt(ctx context.Context, m *driver.Message) attempted {
	if m.Expired {
		r.logOf(m).Debug("sending again what was being sent when its lease ran out")
	}
	header, err := parseHeader(m.Headers)
	if err != nil {
		r.logOf(m).Error("sending without the sender's headers", slog.Any("error", err))
	}
	if r.dest.Sender != nil {
		return r.attemptBySender(ctx, m, header)
	}
	return r.attemptByHTTP(ctx, m, header)
}

func (r *relay) attemptByHTTP(ctx context.Context, m *driver.Message, header http.Header) attempted {
	result := r.in.sender.Send(ctx, &r.dest.target, &send.Message{
		ID: m.ID, Source: m.Source, EventID: m.EventID, Type: m.Type,
		Attempt: m.Attempt, Generation: m.Generation, Header: header, Body: m.Body,
	})
	if result.Err == nil {
		return attempted{status: result.StatusCode, works: true}
	}
	return attempted{
		status: result.StatusCode, err: result.Err, text: describeFailure(&result), permanent: result.Permanent,
		retryAfter: result.RetryAfter, cutOff: ctx.Err() != nil && errors.Is(result.Err, context.Canceled),
		works: concernsMessage(result.StatusCode),
	}
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

// describeFailure says what happened and what the destination said to it.
func describeFailure(r *send.Result) string {
	text := r.Err.Error()
	if r.StatusCode != 0 && r.Detail != "" && r.Detail != text {
		text += ": " + r.Detail
	}
	return text
}

// senderGrace is how long a Sender may take to return once its context has ended.
const senderGrace = time.Second

// attemptBySender calls the destination's Sender in a goroutine of its own: neither
// one that ends its goroutine nor one that does not return may keep a slot.
func (r *relay) attemptBySender(ctx context.Context, m *driver.Message, header http.Header) attempted {
	timeout := r.dest.Timeout
	sendCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	done := guarded("the Sender", func() error {
		return r.dest.Sender.Send(sendCtx, &Outgoing{
			ID: m.ID, Destination: m.Destination, Source: m.Source, EventID: m.EventID, Type: m.Type,
			Attempt: m.Attempt, Generation: m.Generation, Header: header, Body: m.Body,
		})
	})
	var err error
	select {
	case err = <-done:
	case <-sendCtx.Done():
		err = r.awaitSender(m, done)
	}
	if err == nil {
		return attempted{works: true}
	}
	if errors.Is(sendCtx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("the Sender had its time of %s: %w", timeout, err)
	}
	got := attempted{err: err, text: errorText(err), permanent: isPermanent(err)}
	got.retryAfter, got.exactly = retryAfterOf(err)
	got.cutOff, got.works = ctx.Err() != nil && !got.permanent, got.permanent
	return got
}

// awaitSender waits for a Sender whose context has ended, but not for ever.
func (r *relay) awaitSender(m *driver.Message, done <-chan error) error {
	grace := time.NewTimer(senderGrace)
	defer grace.Stop()
	select {
	case err := <-done:
		return err
	case <-grace.C:
		r.logOf(m).Error("a Sender did not return when its context had ended: the attempt has failed, and its goroutine is left behind")
		return errors.New("it did not return when its context had ended")
	}
}

// judge decides on an attempt.
func (r *relay) judge(m *driver.Message, got *attempted) driver.Completion {
	done := driver.Completion{ID: m.ID, Token: m.Token, StatusCode: got.status, Error: got.text}
	switch {
	case got.err == nil:
		done.Outcome = driver.MessageSent
	case got.permanent:
		done.Outcome = driver.MessageDead
	case got.cutOff:
		// It goes out again under the same id without waiting. It may have arrived,
		// so it counts.
		done.Outcome, done.Error = driver.MessageRetry, "interrupted: this process was stopped"
	case m.Attempt >= r.dest.Retry.Attempts:
		done.Outcome = driver.MessageDead
	case got.exactly:
		done.Outcome, done.RetryIn = driver.MessageRetry, got.retryAfter
	default:
		done.Outcome, done.RetryIn = driver.MessageRetry, r.dest.Retry.backoff(m.Attempt, got.retryAfter)
	}
	return done
}

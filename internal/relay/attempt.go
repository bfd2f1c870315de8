package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/guard"
	"github.com/hookonce/hookonce/internal/send"
	"github.com/hookonce/hookonce/internal/wire"
)

// attempted is the result of one attempt to send.
type attempted struct {
	status     int    // of the answer; 0 without one
	err        error  // nil if the destination took the message
	text       string // the recorded text of err
	permanent  bool   // no further attempt can succeed
	retryAfter time.Duration
	exactly    bool // retryAfter is the delay, not its minimum
	cutOff     bool // by the stop of this process
	works      bool // the destination works, even if it refuses this message
	again      bool // the success does not count: send it again now

	response     []byte // the beginning of the answer to a failed attempt
	responseType string
}

// attempt sends a message once, tells the circuit and the observer, and returns the outcome. It returns no
// outcome if the stop of this process cut off the last attempt: counting that one would make the
// message dead. A panic is a failed attempt.
func (r *relay) attempt(ctx context.Context, s *sending) (done driver.Completion) {
	m := s.Message
	r.active.Add(1)
	defer r.active.Add(-1)
	began := time.Now()
	header, err := wire.ParseHeader(m.Headers)
	if err != nil {
		r.logOf(m).Error("sending without the sender's headers", slog.Any("error", err))
	}
	traceparent, endSpan := r.trace(m, header, began)
	var got attempted
	defer func() {
		if v := recover(); v != nil {
			got = attempted{err: guard.Recovered(v), text: "an internal error occurred; the log says more"}
			r.logOf(m).Error("panic while sending", slog.Any("error", got.err))
			done = r.judge(m, &got)
			done.Took = time.Since(began)
		}
		r.tellCircuit(got.works, s.probed)
		o := &Observed{
			Message: m, Outcome: outcomes[done.Outcome], StatusCode: done.StatusCode, Took: done.Took, Err: got.err, Traceparent: traceparent,
		}
		endSpan(o)
		if done.Outcome != 0 {
			r.o.Observe(o)
		}
	}()
	got = r.send(ctx, s, header, traceparent, began)
	took := s.took
	if took == 0 {
		took = time.Since(began)
	}
	r.places.ahead.note(got.err == nil, took, len(m.Body))
	if got.cutOff && m.Attempt >= r.dest.Retry.Attempts {
		got.works = true // the circuit must not count it either
		return driver.Completion{}
	}
	done = r.judge(m, &got)
	done.Took = took
	r.logAttempt(m, &done, got.err, traceparent)
	return done
}

var outcomes = map[driver.MessageOutcome]string{
	driver.MessageSent: sent, driver.MessageRetry: retry, driver.MessageDead: dead,
}

func (r *relay) tellCircuit(works, probed bool) {
	opened, closed := r.dest.Circuit.report(works, probed, time.Now())
	if probed || closed {
		r.wake() // more, or other, messages may be sent now
	}
	switch {
	case opened:
		r.log.Warn("circuit opened: the destination failed too often in a row; probing it with one message at a time",
			slog.Int("failures", circuitThreshold), slog.String("every", r.dest.Circuit.cooldown.String()))
	case closed:
		r.log.Info("circuit closed: the destination works again")
	}
}

// trace starts the span of an attempt.
func (r *relay) trace(m *driver.Message, header http.Header, at time.Time) (traceparent string, end func(*Observed)) {
	if r.o.Trace == nil {
		return "", func(*Observed) {}
	}
	return r.o.Trace(m, header, at)
}

func (r *relay) logAttempt(m *driver.Message, done *driver.Completion, err error, traceparent string) {
	level, msg := slog.LevelInfo, "sending failed; retrying"
	switch done.Outcome {
	case driver.MessageSent:
		level, msg = slog.LevelDebug, "sent"
	case driver.MessageDead:
		level, msg = slog.LevelError, "sending failed: dead"
	}
	if !r.log.Enabled(context.Background(), level) {
		return // making a logger costs more than the rest of an attempt's bookkeeping
	}
	log := r.logOf(m)
	if id := send.SampledTrace(traceparent); id != "" {
		log = log.With(slog.String("trace_id", id))
	}
	log.Log(context.Background(), level, msg, slog.Int("status", done.StatusCode), slog.Any("error", guard.Loggable(err)),
		slog.String("retry_in", done.RetryIn.Round(time.Millisecond).String()))
}

// send sends s once. header is its stored header, and traceparent that of the attempt's span, or "".
func (r *relay) send(ctx context.Context, s *sending, header http.Header, traceparent string, began time.Time) attempted {
	m := s.Message
	if m.Expired {
		r.logOf(m).Debug("sending again: the lease of the last attempt expired")
	}
	if r.dest.Sender == nil {
		return r.sendByHTTP(ctx, s, header, traceparent, began)
	}
	httpHeader, err := r.o.HTTP.Header(r.dest.HTTP.Secret, outgoing(m, header, traceparent))
	if err != nil {
		return attempted{err: err, text: wire.ErrorText(err), permanent: true, works: true}
	}
	if header != nil {
		send.SetTraceparent(header, traceparent)
	}
	return r.sendBySender(ctx, m, header, httpHeader)
}

func outgoing(m *driver.Message, header http.Header, traceparent string) *send.Message {
	return &send.Message{
		ID: m.ID, Source: m.Source, EventID: m.EventID, Type: m.Type,
		Attempt: m.Attempt, Generation: m.Generation, Traceparent: traceparent, Header: header, Body: m.Body,
	}
}

func (r *relay) sendByHTTP(ctx context.Context, s *sending, header http.Header, traceparent string, began time.Time) attempted {
	m := s.Message
	out := outgoing(m, header, traceparent)
	// A success that is in doubt must not cost the only attempt, nor be in doubt again. Messages
	// about the same object must not wait for its confirmation.
	out.Fresh = m.Attempt > 1 || r.dest.Retry.Attempts == 1 || s.turn != nil || s.line != nil
	out.Answered = func() {
		s.took = time.Since(began)
		s.confirming = r.places.confirm()
	}
	result := r.o.HTTP.Send(ctx, &r.dest.HTTP, out)
	if result.Err == nil {
		return attempted{status: result.StatusCode, works: true}
	}
	if errors.Is(result.Err, send.ErrDoubt) {
		return attempted{status: result.StatusCode, err: result.Err, text: result.Err.Error(), works: true, again: true}
	}
	return attempted{
		status: result.StatusCode, err: result.Err, text: describeFailure(&result), permanent: result.Permanent,
		retryAfter: result.RetryAfter, cutOff: ctx.Err() != nil && errors.Is(result.Err, context.Canceled),
		works: refusesMessage(result.StatusCode), response: result.Response, responseType: result.ResponseType,
	}
}

// refusesMessage reports whether a status refuses this message only: then the destination works,
// and its circuit stays closed.
func refusesMessage(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusRequestTimeout,
		http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return 400 <= status && status <= 499
}

// describeFailure returns the error with the destination's answer.
func describeFailure(r *send.Result) string {
	text := r.Err.Error()
	if r.StatusCode != 0 && r.Detail != "" && r.Detail != text {
		text += ": " + r.Detail
	}
	return text
}

// senderGrace is how long a Sender may take to return after its context has ended.
const senderGrace = time.Second

// sendBySender calls the destination's Sender in its own goroutine: a Sender that ends its
// goroutine or does not return must not keep a slot.
func (r *relay) sendBySender(ctx context.Context, m *driver.Message, header, httpHeader http.Header) attempted {
	timeout := r.dest.Timeout
	sendCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	done := guard.Call("the Sender", func() error { return r.dest.Sender(sendCtx, m, header, httpHeader) })
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
		err = fmt.Errorf("the Sender used up its timeout of %s: %w", timeout, err)
	}
	got := attempted{err: err, text: wire.ErrorText(err), permanent: guard.IsPermanent(err)}
	got.retryAfter, got.exactly = guard.RetryDelay(err)
	got.cutOff, got.works = ctx.Err() != nil && !got.permanent, got.permanent
	return got
}

// awaitSender waits up to senderGrace for a Sender whose context has ended.
func (r *relay) awaitSender(m *driver.Message, done <-chan error) error {
	grace := time.NewTimer(senderGrace)
	defer grace.Stop()
	select {
	case err := <-done:
		return err
	case <-grace.C:
		r.logOf(m).Error("a Sender did not return after its context ended: the attempt failed, and its goroutine is left behind")
		return errors.New("it did not return after its context ended")
	}
}

// judge decides on the outcome of an attempt.
func (r *relay) judge(m *driver.Message, got *attempted) driver.Completion {
	done := driver.Completion{ID: m.ID, Token: m.Token, StatusCode: got.status, Error: got.text, Response: got.response, ResponseType: got.responseType}
	switch {
	case got.err == nil:
		done.Outcome = driver.MessageSent
	case got.permanent:
		done.Outcome = driver.MessageDead
	case got.cutOff:
		// The next attempt follows at once, under the same id. This one counts, because the
		// message may have arrived.
		done.Outcome, done.Error = driver.MessageRetry, "interrupted: this process was stopped"
	case m.Attempt >= r.dest.Retry.Attempts:
		done.Outcome = driver.MessageDead
	case got.again:
		done.Outcome = driver.MessageRetry
	case got.exactly:
		done.Outcome, done.RetryIn = driver.MessageRetry, got.retryAfter
	default:
		done.Outcome, done.RetryIn = driver.MessageRetry, r.dest.Retry.Backoff(m.Attempt, got.retryAfter)
	}
	return done
}

package probe

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hookonce/hookonce/internal/say"
)

const (
	oversized   = 4 << 20
	slowOnes    = 10
	whileSlow   = 5
	senders     = 10
	eventsEach  = 10
	answerLimit = 3 * time.Second
)

func planMalformed(p *probe) plan {
	e := newEvent()
	req, err := p.signed(e, variant{body: p.jsonBody(truncated)})
	if err != nil {
		return unmade(err)
	}
	if req == nil || p.refused(req) {
		return leftOut("a body that cannot be read cannot be signed as " + p.Sender.Spec.Title + " signs")
	}
	return talk(func(ctx context.Context) outcome {
		a := p.client.send(ctx, req)
		switch {
		case a.status/100 == 4:
			return pass(a.String()).ineffective(e)
		case a.accepted():
			return pass(a.String()).ineffective(e).decided()
		}
		return fail(a.String()).ineffective(e)
	})
}

func planOversized(p *probe) plan {
	if p.Sender.Spec.MaxBody >= oversized {
		return leftOut(fmt.Sprintf("%s sends bodies of up to %d MiB itself", p.Sender.Spec.Title, p.Sender.Spec.MaxBody>>20))
	}
	e := newEvent()
	req, err := p.signed(e, variant{body: p.pad})
	if err != nil {
		return unmade(err)
	}
	if req == nil {
		return leftOut("the bodies of " + p.Sender.Spec.Title + " cannot be padded")
	}
	return talk(func(ctx context.Context) outcome {
		a := p.client.send(ctx, req)
		if a.status/100 == 4 || a.String() == closed {
			return pass(a.String()).ineffective(e)
		}
		return fail(a.String())
	})
}

// pad makes a body too large.
func (p *probe) pad(body []byte) ([]byte, bool) {
	padding := strings.Repeat("x", oversized)
	switch p.Sender.ContentType() {
	case "application/x-www-form-urlencoded":
		return fmt.Appendf(nil, "%s&zz_probe=%s", body, padding), true
	case "application/json":
		return addMember(body, `"zz_probe":"`+padding+`"`)
	}
	return nil, false
}

// runSlowBody holds requests back in the middle of their bodies while it delivers others.
func runSlowBody(ctx context.Context, p *probe) outcome {
	for range slowOnes {
		req, err := p.delivery(newEvent())
		if err != nil {
			return unknown(err.Error())
		}
		x, err := p.client.open(ctx, req)
		if err != nil {
			return fail(answer{err: err}.String())
		}
		defer x.close()
		if err := x.write(max(len(req.Body)/2, 1)); err != nil {
			return fail(answer{err: err}.String())
		}
	}
	var answers []answer
	for range whileSlow {
		a := p.deliver(ctx, newEvent())
		answers = append(answers, a)
		if a.status == 0 {
			break // another one would wait as long
		}
	}
	o := fail(tally(answers))
	switch {
	case all(answers, answer.accepted):
		o.verdict = Pass
	case all(answers, func(a answer) bool { return a.status != 0 }):
		o.reason = "Valid events were answered in time, but not accepted: the sender delivers them again."
		o.remedy = "Look into the log of the receiver: a slow client must not make the events of others fail"
	}
	return o
}

// runAnswerTime delivers from parallel senders. It stops as soon as so many answers are late that the
// 99th percentile cannot be in time.
func runAnswerTime(ctx context.Context, p *probe) outcome {
	timeout := p.Sender.Spec.Retry.Timeout
	limit := limitOf(timeout)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var answers []answer
	late := 0
	var running sync.WaitGroup
	for range senders {
		running.Go(func() {
			for range eventsEach {
				a := p.timed(ctx)
				mu.Lock()
				if ctx.Err() == nil {
					answers = append(answers, a)
				}
				if late += btoi(a.took > limit); late > senders*eventsEach/100 {
					cancel()
				}
				mu.Unlock()
				if ctx.Err() != nil {
					return
				}
			}
		})
	}
	running.Wait()
	if len(answers) == 0 {
		return unknown("interrupted")
	}
	return judgeTimes(answers, limit, timeout, p.Sender.Spec.Title)
}

// limitOf returns the longest answer time that passes, for a provider that waits for timeout; 0 if that is
// unknown.
func limitOf(timeout time.Duration) time.Duration {
	if timeout > 0 {
		return min(answerLimit, timeout*8/10)
	}
	return answerLimit
}

// timed delivers a new event. An event that is not answered took all the time it was given.
func (p *probe) timed(ctx context.Context) answer {
	began := time.Now()
	a := p.deliver(ctx, newEvent())
	if a.status == 0 {
		a.took = time.Since(began)
	}
	return a
}

func judgeTimes(answers []answer, limit, timeout time.Duration, title string) outcome {
	var times []time.Duration
	for _, a := range answers {
		times = append(times, a.took)
	}
	slices.Sort(times)
	p99 := times[(len(times)*99+99)/100-1]
	saw := "p99 " + say.Brief(p99)
	bound := "at most " + say.Brief(limit)
	if timeout > 0 {
		bound = title + " gives up at " + say.Brief(timeout)
	}
	switch {
	case p99 > limit:
		return fail(saw + "; " + bound)
	case !all(answers, answer.accepted):
		o := fail(saw + "; " + tally(answers))
		o.reason = "Not every valid event was accepted under load: the sender delivers it again, which makes the load worse."
		o.remedy = "Look for the failures in the log of the receiver, and raise the limit that they hit"
		return o
	}
	return pass(saw)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

package demo

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hookonce/hookonce/internal/sample"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

const (
	playTime      = 8 * time.Second        // of all traffic, on a machine that is fast enough
	inFlight      = 64                     // volleys at the same time
	answerTimeout = 10 * time.Second       // of a patient sender
	impatience    = 2 * time.Millisecond   // of an impatient one
	firstPause    = 50 * time.Millisecond  // before the second delivery
	longestPause  = 800 * time.Millisecond // between two deliveries
)

// counts are the senders' counts of one receiver.
type counts struct {
	sent       atomic.Int64 // deliveries that reached the receiver, forged ones included
	duplicates atomic.Int64 // authentic ones, answered as duplicates
	refused    atomic.Int64 // forged ones, answered 401
	finished   atomic.Int64 // planned deliveries that got their answer
}

// traffic plays a plan to one receiver.
type traffic struct {
	counts
	plan    *plan
	senders map[provider.Name]*sender
	address func() string // of the receiver; it changes when the receiver is restarted
	client  *http.Client
	fail    context.CancelCauseFunc // ends the play
}

func newTraffic(p *plan, senders map[provider.Name]*sender, address func() string) *traffic {
	return &traffic{plan: p, senders: senders, address: address, client: sample.NewClient(0, 2*inFlight, nil)}
}

// moment is something that happens when the traffic has come that far.
type moment struct {
	percent int
	happen  func()
}

// play sends every delivery until it is answered as its sender wants: 2xx, and 401 for a forged one.
func (t *traffic) play(ctx context.Context, moments []moment) error {
	defer t.client.CloseIdleConnections()
	ctx, t.fail = context.WithCancelCause(ctx)
	defer t.fail(nil)
	slots := make(chan struct{}, inFlight)
	var running sync.WaitGroup
	began := time.Now()
	for i, v := range t.plan.volleys {
		pause := time.Until(began.Add(playTime * time.Duration(i) / time.Duration(len(t.plan.volleys))))
		for len(moments) > 0 && 100*i >= moments[0].percent*len(t.plan.volleys) {
			running.Go(moments[0].happen)
			moments = moments[1:]
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		running.Go(func() {
			t.shoot(ctx, v)
			<-slots
		})
	}
	running.Wait()
	return context.Cause(ctx)
}

// shoot sends the deliveries of a volley at the same time, and waits for their answers.
func (t *traffic) shoot(ctx context.Context, v volley) {
	var all sync.WaitGroup
	for i := range v {
		all.Go(func() { t.deliver(ctx, &v[i]) })
	}
	all.Wait()
	t.finished.Add(int64(len(v)))
}

// deliver sends one delivery again and again, as providers do, until it is answered.
func (t *traffic) deliver(ctx context.Context, d *delivery) {
	timeout, pause := answerTimeout, firstPause
	if d.impatient {
		timeout = impatience
	}
	for ctx.Err() == nil {
		req, err := t.senders[d.source].sign(d.event, d.forged)
		if err != nil {
			t.fail(err)
			return
		}
		status, answer := t.post(ctx, d, req, timeout)
		switch {
		case status == http.StatusUnauthorized && d.forged != authentic:
			t.refused.Add(1)
			return
		case status/100 == 2:
			if d.forged == authentic && answer == "duplicate" {
				t.duplicates.Add(1)
			}
			return
		}
		if d.impatient && timeout == impatience { // the same event again, at once
			timeout = answerTimeout
			continue
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, longestPause)
	}
}

// post sends one request. It returns the status, 0 without an answer, and the member status of the answer.
func (t *traffic) post(ctx context.Context, d *delivery, signed *verify.Request, timeout time.Duration) (code int, status string) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	target := &url.URL{Scheme: "http", Host: t.address(), Path: "/webhooks/" + string(d.source)}
	req, err := sample.HTTPRequest(ctx, signed, target, "hookonce-demo")
	if err != nil {
		t.fail(err)
		return 0, ""
	}
	got, err := sample.Send(t.client, req)
	var network *net.OpError
	if !errors.As(err, &network) || network.Op != "dial" {
		t.sent.Add(1)
	}
	var answer struct{ Status any } // a problem has a number here
	if err == nil {
		_ = json.Unmarshal(got.Body, &answer)
	}
	status, _ = answer.Status.(string)
	return got.Status, status
}

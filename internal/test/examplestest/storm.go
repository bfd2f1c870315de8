package examplestest

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const (
	senders      = 8
	stormTimeout = 2 * time.Minute
	resendEvery  = 20 * time.Millisecond
)

// Storm is a time in which a provider delivers much, and the program does badly.
type Storm struct {
	// Requests are the deliveries, in any order. Each is sent until it has been
	// answered 2xx Copies times: twice in the same moment, and then later.
	Requests []*http.Request
	Copies   int // at least 2
	// Kills is how often the program is killed with SIGKILL, and started again, while
	// new events come in. A kill waits until something was received from Busy, which
	// tells that the program is in the middle of it; nil does not wait.
	Kills int
	Busy  <-chan struct{}
}

// queue returns what is to be sent, in that order.
func (s *Storm) queue() []*http.Request {
	requests := slices.Clone(s.Requests)
	var queue []*http.Request
	for copies := range s.Copies - 1 {
		rand.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
		for _, r := range requests {
			queue = append(queue, r)
			if copies == 0 {
				queue = append(queue, r)
			}
		}
	}
	return queue
}

// Run delivers what the storm has, as a provider does: whatever is not answered
// 2xx is sent again. An answer of 4xx fails the test.
func (s *Storm) Run(t testing.TB, p *Program) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stormTimeout)
	defer cancel()
	queue := s.queue()
	transport := &http.Transport{MaxIdleConnsPerHost: senders}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
	var next, answered atomic.Int64
	progress := make(chan struct{}, 1)
	var wg sync.WaitGroup
	for range senders {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(queue) || !deliver(ctx, t, p, client, queue[i]) {
					return
				}
				answered.Add(1)
				select {
				case progress <- struct{}{}:
				default:
				}
			}
		})
	}
	for kill := range s.Kills {
		due := int64(2 * len(s.Requests) * (kill + 1) / (s.Kills + 1))
		s.await(ctx, t, progress, func() bool { return answered.Load() >= due })
		if s.Busy != nil {
			s.await(ctx, t, s.Busy, nil)
		}
		p.Crash(t)
	}
	wg.Wait()
	if n := answered.Load(); n != int64(len(queue)) {
		t.Fatalf("%d of %d deliveries were answered", n, len(queue))
	}
}

// await receives from c until done says so; once, if done is nil.
func (s *Storm) await(ctx context.Context, t testing.TB, c <-chan struct{}, done func() bool) {
	t.Helper()
	for done == nil || !done() {
		select {
		case <-c:
			if done == nil {
				return
			}
		case <-ctx.Done():
			t.Fatalf("the storm did not get so far as to the next kill within %s", stormTimeout)
		}
	}
}

// deliver sends a request until it is answered 2xx, and reports whether it was.
func deliver(ctx context.Context, t testing.TB, p *Program, client *http.Client, r *http.Request) bool {
	pause := time.NewTicker(resendEvery)
	defer pause.Stop()
	for {
		status, answer, err := post(ctx, p, client, r)
		switch {
		case err == nil && status/100 == 2:
			return true
		case err == nil && status/100 != 5:
			t.Errorf("a delivery was answered %d %s", status, answer)
			return false
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			t.Errorf("a delivery was not answered within %s; last: %d %s, %v", stormTimeout, status, answer, err)
			return false
		}
	}
}

// post sends a copy of a request to where the program serves now. An error may
// mean that it was killed.
func post(ctx context.Context, p *Program, client *http.Client, r *http.Request) (status int, answer string, err error) {
	again := r.Clone(ctx)
	if again.Body, err = r.GetBody(); err != nil {
		return 0, "", err
	}
	now, err := url.Parse(p.URL())
	if err != nil {
		return 0, "", err
	}
	again.URL.Host, again.Host = now.Host, ""
	resp, err := client.Do(again)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<12))
	return resp.StatusCode, string(body), err
}

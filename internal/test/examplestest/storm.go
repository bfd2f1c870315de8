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

// Storm is a burst of deliveries while the program is killed again and again.
type Storm struct {
	// Requests are the deliveries, in any order. Each is repeated until it was answered 2xx Copies
	// times: twice in the same moment, and then later.
	Requests []*http.Request
	Copies   int // at least 2
	// Kills is how often the program is killed with SIGKILL and started again while new events
	// arrive. A kill waits for a value from Busy, which the program causes in the middle of its
	// work; a nil Busy does not wait.
	Kills int
	Busy  <-chan struct{}
}

// queue returns the deliveries in their order.
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

// Run makes the deliveries as a provider does: it repeats those that are not answered 2xx. A 4xx
// fails the test.
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
		t.Fatalf("%d of %d deliveries were answered 2xx", n, len(queue))
	}
}

// await receives from c until done returns true; once, if done is nil.
func (s *Storm) await(ctx context.Context, t testing.TB, c <-chan struct{}, done func() bool) {
	t.Helper()
	for done == nil || !done() {
		select {
		case <-c:
			if done == nil {
				return
			}
		case <-ctx.Done():
			t.Fatalf("the storm did not reach the next kill within %s", stormTimeout)
		}
	}
}

// deliver repeats a request until it is answered 2xx, and reports whether it was.
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

// post sends a copy of a request to the running program. An error may mean that the program was
// killed.
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

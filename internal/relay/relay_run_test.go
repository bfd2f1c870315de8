package relay

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/limit"
)

// statement is one call of a backlog, with its time and its number of messages.
type statement struct {
	At time.Duration
	N  int
}

// backlog is a store with messages that are all due.
type backlog struct {
	Store
	began             time.Time
	left              int
	leases, completed []statement
}

func (s *backlog) Lease(_ context.Context, p *driver.LeaseParams) (*driver.Leased, error) {
	n := min(p.Limit, s.left)
	leased := &driver.Leased{}
	for i := range n {
		leased.Messages = append(leased.Messages, driver.Message{ID: fmt.Sprint(s.left - i), Attempt: 1})
	}
	s.left -= n
	s.leases = append(s.leases, statement{time.Since(s.began), n})
	return leased, nil
}

func (s *backlog) Complete(_ context.Context, p *driver.CompleteParams) ([]bool, error) {
	s.completed = append(s.completed, statement{time.Since(s.began), len(p.Completions)})
	held := make([]bool, len(p.Completions))
	for i := range held {
		held[i] = true
	}
	return held, nil
}

// A lease or an outcome costs the database nearly the same for one message as for many. So relays
// gather them, for a short time only, and never when no other can follow.
func TestGathering(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, tt := range map[string]struct {
		concurrency, messages int
		takes                 func(n int) time.Duration // the time of the n-th send to begin, from 0
		leases, completed     []statement
	}{
		"one message": {
			concurrency: 16, messages: 1,
			takes:     func(int) time.Duration { return 40 * ms },
			leases:    []statement{{0, 1}},
			completed: []statement{{40 * ms, 1}},
		},
		"one at a time": {
			concurrency: 1, messages: 3,
			takes:     func(int) time.Duration { return 25 * ms },
			leases:    []statement{{0, 1}, {25 * ms, 1}, {50 * ms, 1}, {75 * ms, 0}},
			completed: []statement{{25 * ms, 1}, {50 * ms, 1}, {75 * ms, 1}},
		},
		"sends of a while: half of the slots": {
			concurrency: 8, messages: 16,
			takes:     func(n int) time.Duration { return time.Duration(21+n%8) * ms },
			leases:    []statement{{0, 8}, {24 * ms, 4}, {28 * ms, 4}, {48 * ms, 0}},
			completed: []statement{{24 * ms, 4}, {28 * ms, 4}, {48 * ms, 4}, {56 * ms, 4}},
		},
		"slow sends: a short time": {
			concurrency: 4, messages: 5,
			takes:     func(n int) time.Duration { return time.Duration(1+n) * 100 * ms },
			leases:    []statement{{0, 4}, {105 * ms, 1}, {205 * ms, 0}},
			completed: []statement{{120 * ms, 1}, {220 * ms, 1}, {320 * ms, 1}, {420 * ms, 1}, {605 * ms, 1}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				started := make(chan int, tt.messages)
				for i := range tt.messages {
					started <- i
				}
				dest := destination(func(d *Destination) {
					d.Concurrency = tt.concurrency
					d.Sender = func(context.Context, *driver.Message, http.Header, http.Header) error {
						time.Sleep(tt.takes(<-started))
						return nil
					}
				})
				store := &backlog{began: time.Now(), left: tt.messages}
				runFor(t, store, dest, 990*ms) // before the first poll
				if diff := cmp.Diff(tt.leases, store.leases); diff != "" {
					t.Errorf("leases (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.completed, store.completed); diff != "" {
					t.Errorf("outcomes (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// runFor runs a relay for a time of a synctest bubble.
func runFor(t *testing.T, store Store, dest *Destination, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := testRelay(store, dest)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.run(ctx, ctx)
	}()
	<-time.After(d)
	synctest.Wait()
	cancel()
	<-ended
}

// A rate per millisecond is kept between two polls.
func TestRateIsKeptBelowASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dest := destination(func(d *Destination) {
			d.Rate = limit.New(2, 4*time.Millisecond)
			d.Sender = func(context.Context, *driver.Message, http.Header, http.Header) error { return nil }
		})
		store := &backlog{began: time.Now(), left: 5}
		runFor(t, store, dest, 990*time.Millisecond)
		const ms = time.Millisecond
		want := []statement{{0, 2}, {2 * ms, 1}, {4 * ms, 1}, {6 * ms, 1}, {8 * ms, 0}}
		if diff := cmp.Diff(want, store.leases); diff != "" {
			t.Errorf("leases (-want +got):\n%s", diff)
		}
	})
}

// When the process stops, sends in progress have 10 s. After that their contexts end.
func TestSendsAreCutOffAfterAStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var cutOff time.Duration // after the stop
		began := time.Now()
		dest := destination(func(d *Destination) {
			d.Timeout = time.Minute
			d.Sender = func(ctx context.Context, _ *driver.Message, _, _ http.Header) error {
				<-ctx.Done()
				cutOff = time.Since(began) - 3*time.Second
				return ctx.Err()
			}
		})
		store := &backlog{began: began, left: 1}
		runFor(t, store, dest, 3*time.Second)
		if cutOff != drainTimeout {
			t.Errorf("cut off %s after the stop, want %s", cutOff, drainTimeout)
		}
		if diff := cmp.Diff([]statement{{13 * time.Second, 1}}, store.completed); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
	})
}

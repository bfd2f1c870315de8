package work

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func TestSeatsAreGivenInTurn(t *testing.T) {
	t.Parallel()
	s := newSeats(1)
	var all []*seat
	for _, source := range []string{"a", "a", "a", "a", "b", "c", "b"} {
		all = append(all, s.wait(source))
	}
	s.leave(all[2]) // it gives up
	s.leave(all[5]) // and with it the only one of c
	var order []string
	for len(order) < 5 {
		for i, one := range all {
			select {
			case <-one.taken:
				if i != 2 && i != 5 {
					order = append(order, fmt.Sprint(one.source, i))
					all[i] = &seat{taken: make(chan struct{})}
					s.leave(one)
				}
			default:
			}
		}
	}
	if got, want := strings.Join(order, " "), "a0 a1 b4 a3 b6"; got != want {
		t.Errorf("the seats were taken in the order %s, want %s", got, want)
	}
	if s.free != 1 || len(s.turns) != 0 {
		t.Errorf("%d seats are free and %d sources wait, want 1 and 0", s.free, len(s.turns))
	}
}

func TestPatienceForASeat(t *testing.T) {
	t.Parallel()
	const left = 10 * time.Second
	s := newSeats(1)
	want := func(name string, want time.Duration) {
		t.Helper()
		if got := s.patience("lab", left); got != want {
			t.Errorf("%s: a delivery may wait for %s, want %s", name, got, want)
		}
	}
	want("nothing is known", left/2)
	s.note("other", time.Millisecond, false)
	want("another source is known", left/2)
	s.note("lab", time.Second, false)
	want("one second", left-inlineMargin-2*time.Second)
	s.note("lab", time.Second, true)
	want("one second was too short", left-inlineMargin-2*(5*time.Second/4))
	s.note("lab", time.Minute, false)
	want("more than there is", left/2)
}

// steady is a handler that takes a second.
type steady struct{ waiting }

func (steady) Start(ctx context.Context, _ int, _ *Event) *Call {
	returned := make(chan error, 1)
	go func() {
		select {
		case <-time.After(time.Second):
			returned <- nil
		case <-ctx.Done():
			returned <- ctx.Err()
		}
	}()
	return &Call{Done: returned, Enqueued: func() []string { return nil }}
}

// One source sends far more than its handlers can work on. They go on at their pace, and the other
// source is answered.
func TestInlineFloodOfOneSource(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sources := map[string]*Source{}
		for _, name := range []string{"flood", "calm"} {
			sources[name] = &Source{Name: name, AckTimeout: 10 * time.Second, DeadLetterAfter: 5}
		}
		w := New(&fakeDB{}, steady{}, Options{
			Workers: 1, Batch: 1, HandlerTimeout: time.Hour, Retry: driver.Retry{Attempts: 3},
			Log: slog.New(slog.DiscardHandler), Source: func(name string) *Source { return sources[name] },
			Wake: func(string) {}, Reopened: func() {}, Observe: func(*Observed) {},
		})
		deliver := func(source, id string) bool {
			ctx, cancel := context.WithTimeout(t.Context(), sources[source].AckTimeout)
			defer cancel()
			return w.Inline(ctx, sources[source], &driver.Claim{Key: driver.EventKey(source, id), Source: source, EventID: id}).Err == nil
		}
		const lasts = 10 * time.Minute
		began := time.Now()
		var flood atomic.Int64
		var senders sync.WaitGroup
		senders.Go(func() {
			for i := 0; time.Since(began) < lasts; i++ { // it does not wait for answers
				senders.Go(func() {
					if deliver("flood", fmt.Sprint(i)) {
						flood.Add(1)
					}
				})
				time.Sleep(250 * time.Millisecond)
			}
		})
		for i := range 20 {
			time.Sleep(20 * time.Second)
			if sent := time.Now(); !deliver("calm", fmt.Sprint(i)) || time.Since(sent) > 3*time.Second {
				t.Errorf("delivery %d of the calm source took %s, want a success within 3s", i, time.Since(sent))
			}
		}
		senders.Wait()
		if possible := int64(lasts / time.Second); flood.Load() < possible/2 {
			t.Errorf("%d deliveries of the flood were handled, want at least half of %d", flood.Load(), possible)
		}
	})
}

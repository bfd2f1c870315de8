package work

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func never() bool { return false }

func TestSizeOfTheBudget(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ workers, most, want int }{{4, 0, 9}, {4, 2, 2}, {1, 14, 3}} {
		if got := newBudget(tt.workers, tt.most, never).most; got != tt.want {
			t.Errorf("%d workers, at most %d transactions: %d at a time, want %d", tt.workers, tt.most, got, tt.want)
		}
	}
}

func TestBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(4, 2, never)
		ended, end := context.WithCancel(t.Context())
		for range 2 {
			if !b.acquire(t.Context(), false) {
				t.Fatal("there is no room in an empty budget")
			}
		}
		third := make(chan bool, 1)
		go func() { third <- b.acquire(ended, false) }()
		synctest.Wait()
		end()
		if <-third || b.acquire(ended, false) {
			t.Error("a used-up budget had room")
		}
		all := make(chan bool, 1)
		go func() { all <- b.acquireAll(t.Context(), time.Minute, time.Second) }()
		b.release(false)
		synctest.Wait()
		if len(all) > 0 {
			t.Error("all of the budget was acquired beside another transaction")
		}
		b.release(false)
		if !<-all {
			t.Error("all of the budget could not be acquired")
		}
		go func() { third <- b.acquire(t.Context(), false) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(third) > 0 {
			t.Error("there was room beside the caller that acquired all")
		}
		if stalled := b.releaseAll(); stalled != time.Minute {
			t.Errorf("others waited for %s, want 1m0s", stalled)
		}
		<-third
		if b.acquireAll(ended, time.Minute, time.Second) {
			t.Error("all was acquired after the end of the context")
		}
		b.releaseAll()
		b.release(false)
		if b.running != 0 || len(b.waiting) > 0 {
			t.Errorf("%d transactions are left, and %d wait", b.running, len(b.waiting))
		}
	})
}

// Queued handlers leave one transaction to Inline handlers while there are Inline sources, unless
// there is only one.
func TestShareOfInlineHandlers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		most       int
		inline     bool
		wantQueued int
	}{{3, true, 2}, {3, false, 3}, {2, true, 1}, {1, true, 1}} {
		synctest.Test(t, func(t *testing.T) {
			reloaded := false
			b := newBudget(4, tt.most, func() bool { return tt.inline && !reloaded })
			var queued atomic.Int64
			for range 4 {
				go func() {
					b.acquire(t.Context(), false)
					queued.Add(1)
				}()
			}
			synctest.Wait()
			if n := int(queued.Load()); n != tt.wantQueued {
				t.Errorf("%d queued handlers run at a time in %+v", n, tt)
			}
			inline := make(chan bool, 1)
			go func() { inline <- b.acquire(t.Context(), true) }()
			synctest.Wait()
			if hasRoom := len(inline) > 0; hasRoom != (tt.inline && tt.most > 1) {
				t.Errorf("room for an Inline handler beside them: %t, in %+v", hasRoom, tt)
			}
			for range 4 {
				b.release(false)
				synctest.Wait()
			}
			if !<-inline || queued.Load() != 4 {
				t.Errorf("%d queued handlers had their turns, in %+v", queued.Load(), tt)
			}
			reloaded = true // the last Inline source is gone
			b.release(true)
			for range tt.most {
				if !b.acquire(t.Context(), false) {
					t.Error("a handler has no turn")
				}
			}
		})
	}
}

// acquireAll waits patiently while that costs the others nothing, and for a short time while they
// wait.
func TestAcquireAllGivesUp(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		stalls bool
		want   time.Duration
	}{
		"nothing else waits": {false, time.Minute},
		"another one waits":  {true, 10*time.Second + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, admitted := newBudget(4, 2, never), make(chan bool, 1)
				b.acquire(t.Context(), false)
				if tt.stalls {
					time.AfterFunc(10*time.Second, func() { admitted <- b.acquire(t.Context(), false) })
				}
				began := time.Now()
				if b.acquireAll(t.Context(), time.Minute, time.Second) {
					t.Error("all was acquired beside another transaction")
				}
				if took := time.Since(began); took != tt.want {
					t.Errorf("it gave up after %s, want %s", took, tt.want)
				}
				b.releaseAll()
				if tt.stalls && !<-admitted {
					t.Error("the other one did not begin")
				}
			})
		})
	}
}

// Four workers always have slow handlers to run. They stand still for a tenth of the time at most,
// and the last attempts of suspects all get their turns nevertheless.
func TestLastAttemptsBesideSlowHandlers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const slowest = 20 * time.Second
		b := newBudget(4, 4, never)
		ctx, cancel := context.WithCancel(t.Context())
		var stalled time.Duration // of all workers together
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for ctx.Err() == nil {
					began := time.Now()
					if b.acquire(ctx, false) {
						b.mu.Lock()
						stalled += time.Since(began)
						b.mu.Unlock()
						time.Sleep(slowest/2 + rand.N(slowest/2))
						b.release(false)
					}
				}
			})
		}
		l, ran, began := lastAttempts{longest: time.Minute}, 0, time.Now()
		for ran < 20 && time.Since(began) < 4*time.Hour {
			synctest.Wait()
			if !l.during(ctx, b, func() {
				ran++
				b.mu.Lock()
				if b.running > 0 {
					t.Errorf("%d other handlers run during a last attempt", b.running)
				}
				b.mu.Unlock()
				time.Sleep(time.Second)
			}) {
				time.Sleep(suspectReservation)
			}
		}
		took := time.Since(began)
		b.mu.Lock()
		if ran < 20 || stalled > 4*took/9 {
			t.Errorf("%d last attempts ran in %s, want 20; the four workers waited for %s together", ran, took, stalled)
		}
		b.mu.Unlock()
		cancel()
		wg.Wait()
	})
}

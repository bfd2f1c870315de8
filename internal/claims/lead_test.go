package claims_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/claims"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// byCallers returns a store that counts the claims which run in the goroutine that delivers.
func byCallers(t *testing.T, concurrent int, before func(context.Context, *driver.ClaimParams) error) (store *rig.FaultStore, led *atomic.Int64) {
	t.Helper()
	led = &atomic.Int64{}
	return &rig.FaultStore{Store: rig.OpenSQLite(t), Concurrent: concurrent, Before: func(ctx context.Context, p *driver.ClaimParams) error {
		stack := make([]byte, 64<<10)
		if strings.Contains(string(stack[:runtime.Stack(stack, false)]), "claims.(*Queue).Claim(") {
			led.Add(1)
		}
		if before == nil {
			return nil
		}
		return before(ctx, p)
	}}, led
}

func TestLoneDeliveriesAreClaimedByTheirCallers(t *testing.T) {
	t.Parallel()
	for _, concurrent := range []int{4, 1} { // 1: a store in a file
		t.Run(fmt.Sprint(concurrent, " at a time"), func(t *testing.T) {
			t.Parallel()
			store, led := byCallers(t, concurrent, nil)
			q := newQueue(t, store, nil)
			for i := range 5 {
				if got := claim(t, q, unit(fmt.Sprint(i))); got[0] != claimed {
					t.Errorf("delivery %d: %s", i, got)
				}
			}
			if got := led.Load(); got != 5 {
				t.Errorf("%d of 5 claims ran in the goroutines of their callers, want 5", got)
			}
		})
	}
}

// While a caller claims its delivery, others gather, and so do copies of its event. One statement claims them
// afterwards.
func TestDeliveriesBesideALoneOne(t *testing.T) {
	t.Parallel()
	bubble(t, func(*driver.ClaimParams) time.Duration { return 3 * time.Millisecond }, func(t *testing.T, q *claims.Queue, s *timedStore) {
		for _, id := range []string{"lone", "1", "lone", "2"} {
			go claim(t, q, unit(id))
			synctest.Wait()
		}
		if diff := cmp.Diff([]int{1}, s.begun()); diff != "" {
			t.Errorf("sizes of the statements that have begun (-want +got):\n%s", diff)
		}
		q.Close()
		if diff := cmp.Diff([]int{3}, s.begun()); diff != "" {
			t.Errorf("sizes of the statements after it (-want +got):\n%s", diff)
		}
	})
}

// Copies from many callers at once are claimed once.
func TestCopiesFromManyCallers(t *testing.T) {
	t.Parallel()
	store, _ := byCallers(t, 4, nil)
	q := newQueue(t, store, nil)
	for round := range 20 {
		var wg sync.WaitGroup
		var first atomic.Int64
		for range 8 {
			wg.Go(func() {
				switch got := claim(t, q, unit(fmt.Sprint("round ", round))); got[0] {
				case claimed:
					first.Add(1)
				case duplicate:
				default:
					t.Errorf("round %d: %s", round, got)
				}
			})
		}
		wg.Wait()
		if n := first.Load(); n != 1 {
			t.Errorf("round %d: claimed %d times", round, n)
		}
	}
}

// Close waits for a delivery that its caller claims, and refuses later ones.
func TestCloseWaitsForALoneDelivery(t *testing.T) {
	t.Parallel()
	bubble(t, func(*driver.ClaimParams) time.Duration { return time.Second }, func(t *testing.T, q *claims.Queue, _ *timedStore) {
		began := time.Now()
		go claim(t, q, unit("1"))
		synctest.Wait()
		q.Close()
		if got := time.Since(began); got != time.Second {
			t.Errorf("Close returned after %v, want %v", got, time.Second)
		}
		if err := q.Claim(t.Context(), unit("2")); !errors.Is(err, claims.ErrClosed) {
			t.Errorf("a delivery after Close: %v, want %v", err, claims.ErrClosed)
		}
	})
}

// A lone delivery is claimed no longer than until its deadline, or the end of its caller's context.
func TestLoneDeliveryInADatabaseThatHangs(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ deadline, context, want time.Duration }{
		"its deadline":  {time.Second, time.Hour, time.Second},
		"the context's": {time.Hour, time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t, hangingStore{}, nil)
				ctx, cancel := context.WithTimeout(t.Context(), tt.context)
				defer cancel()
				u := claims.NewUnit([]driver.Claim{event("1", "{}")}, false, time.Now().Add(tt.deadline))
				began := time.Now()
				err := q.Claim(ctx, u)
				if err == nil {
					err = u.Results[0].Err
				}
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the claim ended with %v", err)
				}
				if got := time.Since(began); got != tt.want {
					t.Errorf("it ended after %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// hangingStore answers nothing.
type hangingStore struct{ claims.Store }

func (hangingStore) ClaimConcurrency() int { return 4 }

func (hangingStore) Claim(ctx context.Context, _ *driver.ClaimParams) ([]driver.ClaimResult, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A callback that panics, or ends the goroutine of a caller, keeps neither the event nor the place of a
// flusher.
func TestCallbackBehindALoneDelivery(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(){"panics": func() { panic("observer") }, "ends its goroutine": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mended atomic.Bool
			store, led := byCallers(t, 2, nil)
			q := newQueue(t, store, func(o *claims.Options) {
				o.Observe = func(int, time.Duration, error) {
					if !mended.Load() {
						fail()
					}
				}
			})
			for range 3 { // more than there are flushers
				var wg sync.WaitGroup
				wg.Go(func() { claim(t, q, unit("1")) })
				wg.Wait()
			}
			mended.Store(true)
			if got := claim(t, q, unit("1")); got[0] != duplicate {
				t.Errorf("the event afterwards: %s, want %s", got, duplicate)
			}
			if got := led.Load(); got != 4 {
				t.Errorf("%d claims of callers, want 4", got)
			}
		})
	}
}

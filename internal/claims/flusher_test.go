package claims_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/claims"
)

// timedStore claims everything. Each statement takes the time that takes returns for it.
type timedStore struct {
	claims.Store
	takes func(p *driver.ClaimParams) time.Duration

	mu    sync.Mutex
	sizes []int // of the statements, in the order of their beginnings
}

func (s *timedStore) ClaimConcurrency() int { return 4 }

func (s *timedStore) Claim(_ context.Context, p *driver.ClaimParams) ([]driver.ClaimResult, error) {
	s.mu.Lock()
	s.sizes = append(s.sizes, len(p.Claims))
	s.mu.Unlock()
	elapse(s.takes(p))
	results := make([]driver.ClaimResult, len(p.Claims))
	for i := range results {
		results[i].Claimed = true
	}
	return results, nil
}

// elapse blocks for a time of a bubble.
func elapse(d time.Duration) { <-time.After(d) }

// begun returns the sizes of the statements since the last call.
func (s *timedStore) begun() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	sizes := s.sizes
	s.sizes = nil
	return sizes
}

// together delivers n events at one moment, and blocks until each one is claimed or waits.
func together(t *testing.T, q *claims.Queue, name string, n int) {
	for i := range n {
		go claim(t, q, unit(fmt.Sprint(name, i)))
		synctest.Wait() // in a known order
	}
}

// bubble runs f with a queue whose statements take the time that takes returns. Time passes only while all
// goroutines wait.
func bubble(t *testing.T, takes func(*driver.ClaimParams) time.Duration, f func(t *testing.T, q *claims.Queue, s *timedStore)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &timedStore{takes: takes}
		q := newQueue(t, s, nil)
		f(t, q, s)
	})
}

func TestOneBatchGathersTheNext(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		waiting int
		want    []int // statements that begin before the first one ends
	}{{127, []int{1}}, {128, []int{1, 128}}, {639, []int{1, 128}}, {640, []int{1, 128, 512}}} {
		t.Run(fmt.Sprint(test.waiting), func(t *testing.T) {
			t.Parallel()
			bubble(t, func(*driver.ClaimParams) time.Duration { return 3 * time.Millisecond }, func(t *testing.T, q *claims.Queue, s *timedStore) {
				together(t, q, "", 1+test.waiting)
				if got := s.begun(); !slices.Equal(got, test.want) {
					t.Errorf("statements of %v events have begun, want %v", got, test.want)
				}
				q.Close()
				rest := 1 + test.waiting
				for _, n := range test.want {
					rest -= n
				}
				if got := s.begun(); rest > 0 && !slices.Equal(got, []int{rest}) || rest == 0 && len(got) > 0 {
					t.Errorf("then statements of %v events, want the %d others in one", got, rest)
				}
			})
		})
	}
}

// A statement that takes long delays the others for a time that follows from the usual one.
func TestLateBatch(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ usual, want time.Duration }{
		{time.Millisecond, 5 * time.Millisecond},
		{10 * time.Millisecond, 40 * time.Millisecond},
		{time.Second, 250 * time.Millisecond},
	} {
		t.Run(fmt.Sprint(test.usual), func(t *testing.T) {
			t.Parallel()
			bubble(t, func(p *driver.ClaimParams) time.Duration {
				if p.Claims[0].EventID[:1] == "s" { // stuck
					return 20 * time.Second
				}
				return test.usual
			}, func(t *testing.T, q *claims.Queue, s *timedStore) {
				for i := range 200 { // until the usual time is known
					claim(t, q, unit(fmt.Sprint("before ", i)))
				}
				// Each stuck statement delays the next delivery; the last one takes the last flusher.
				for i := range 3 {
					go claim(t, q, unit(fmt.Sprint("s", i)))
					synctest.Wait()
					began := time.Now()
					claim(t, q, unit(fmt.Sprint("other ", i)))
					if got := time.Since(began) - test.usual; got > test.want || got < test.want*9/10 {
						t.Errorf("beside %d stuck statements a delivery waited %v, want %v", i+1, got, test.want)
					}
				}
				// They are late already, so further deliveries wait for none of them.
				began := time.Now()
				claim(t, q, unit("at once"))
				if got := time.Since(began); got != test.usual {
					t.Errorf("beside late statements a delivery took %v, want %v", got, test.usual)
				}
				// The store takes four statements at a time.
				together(t, q, "s last ", 1)
				s.begun()
				together(t, q, "for none ", 200)
				elapse(time.Second)
				if got := s.begun(); len(got) > 0 {
					t.Errorf("beside four stuck statements, statements of %v events have begun, want none", got)
				}
				// Once they have ended, deliveries gather again.
				elapse(time.Minute)
				s.begun()
				together(t, q, "after ", 100)
				if got := s.begun(); !slices.Equal(got, []int{1}) {
					t.Errorf("after the stuck statements, statements of %v events have begun, want one", got)
				}
			})
		})
	}
}

package limit

import (
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func TestBucket(t *testing.T) {
	t.Parallel()
	now := time.Now()
	b := New(2, time.Second)
	for i := range 2 {
		if wait := b.Take(now); wait != 0 {
			t.Fatalf("take %d: wait %s, want none: a full bucket holds 2", i, wait)
		}
	}
	wait := b.Take(now)
	if wait <= 0 || wait > 500*time.Millisecond {
		t.Fatalf("take from an empty bucket: wait %s, want up to 500ms", wait)
	}
	now = now.Add(wait)
	if wait := b.Take(now); wait != 0 {
		t.Fatalf("take after that wait: wait %s, want none", wait)
	}
	if got, _ := b.TakeUpTo(100, now.Add(time.Hour)); got != 2 {
		t.Fatalf("TakeUpTo(100) after an hour = %d, want 2: a bucket holds no more than its count", got)
	}
}

// At any rate, a caller that waits as long as it is told gets its token.
func TestWaitIsEnough(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.IntRange(1, 1_000_000_000).Draw(t, "count")
		// Two tokens in a nanosecond are more than a clock can tell apart.
		per := time.Duration(rapid.Int64Range(2*int64(count), int64(24*time.Hour)).Draw(t, "per"))
		b := New(count, per)
		if rapid.Bool().Draw(t, "pace") {
			b = NewPace(count, per)
		}
		now := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)
		for range 10 {
			got, _ := b.TakeUpTo(math.MaxInt, now)
			if most := b.limiter.Burst(); got < 1 || got > most {
				t.Fatalf("TakeUpTo of a bucket with tokens = %d, want 1 to %d", got, most)
			}
			wait := b.Take(now)
			if wait == 0 {
				wait = b.Take(now) // rounding may leave one token
			}
			if wait <= 0 {
				t.Fatal("TakeUpTo left more than one token")
			}
			now = now.Add(wait)
			if wait := b.Take(now); wait > 1 {
				t.Fatalf("wait %s after the wait, want at most the nanosecond of rounding", wait)
			}
			b.GiveBack(1)
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(per)).Draw(t, "step")))
		}
	})
}

func TestNoLimit(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]*Bucket{"bucket": New(0, 0), "pace": NewPace(0, 0), "zero value": {}} {
		for range 1000 {
			if wait := b.Take(time.Now()); wait != 0 {
				t.Fatalf("%s: wait %s, want none", name, wait)
			}
		}
		if got, wait := b.TakeUpTo(1_000_000, time.Now()); got != 1_000_000 || wait != 0 {
			t.Errorf("%s: TakeUpTo(1000000) = %d, %s", name, got, wait)
		}
		b.GiveBack(1)
	}
}

func TestPace(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		count int
		per   time.Duration
		holds int
		wait  time.Duration
	}{
		{100, time.Second, 10, 10 * time.Millisecond},
		{6000, time.Minute, 10, 10 * time.Millisecond},
		{20, time.Second, 2, 50 * time.Millisecond},
		{19, time.Second, 1, time.Second / 19},
		{1, time.Hour, 1, time.Hour},
	} {
		now := time.Now()
		b := NewPace(tt.count, tt.per)
		if got, _ := b.TakeUpTo(1000, now); got != tt.holds {
			t.Errorf("%d in %s: holds %d, want %d", tt.count, tt.per, got, tt.holds)
		}
		if wait := b.Take(now); (wait - tt.wait).Abs() > time.Microsecond {
			t.Errorf("%d in %s: the next is due in %s, want %s", tt.count, tt.per, wait, tt.wait)
		}
	}
}

// TestGiveBack holds rate.Limiter to what GiveBack needs of it: a negative number of
// tokens is added, time that passed is refilled once, and the bucket never holds more
// than its count.
func TestGiveBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := New(10, 10*time.Second)
		holds := func(want int) {
			t.Helper()
			got, _ := b.TakeUpTo(100, time.Now())
			if got != want {
				t.Fatalf("the bucket holds %d, want %d", got, want)
			}
		}
		holds(10)
		b.GiveBack(3)
		holds(3)
		b.GiveBack(1)
		b.GiveBack(1)
		holds(2)
		time.Sleep(4 * time.Second) // the bubble's time
		b.GiveBack(2)
		holds(6)
		b.GiveBack(15)
		holds(10)
		b.GiveBack(15)
		b.GiveBack(15)
		time.Sleep(time.Second)
		holds(10)
		if wait := b.Take(time.Now()); wait != time.Second {
			t.Fatalf("wait %s, want 1s", wait)
		}
		b.GiveBack(0)
		if wait := b.Take(time.Now()); wait != time.Second {
			t.Fatalf("wait %s after giving none back, want 1s", wait)
		}
	})
}

func TestGiveBackToUnusedBucket(t *testing.T) {
	t.Parallel()
	b := New(2, time.Second)
	b.GiveBack(5)
	if got, _ := b.TakeUpTo(100, time.Now()); got != 2 {
		t.Errorf("TakeUpTo(100) = %d, want 2", got)
	}
}

func TestConcurrentCallers(t *testing.T) {
	t.Parallel()
	const tokens = 10_000
	b, now := New(tokens, time.Hour), time.Now()
	var taken atomic.Int64
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for {
				got, wait := b.TakeUpTo(i+1, now)
				if wait > 0 {
					return
				}
				taken.Add(int64(got))
			}
		})
	}
	callers.Wait()
	if n := taken.Load(); n != tokens {
		t.Errorf("%d tokens were taken at one time, want %d", n, tokens)
	}
}

package hookonce

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func TestBucket(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(Rate{Count: 2, Per: time.Second})
		for i := range 2 {
			if wait := b.take(time.Now()); wait != 0 {
				t.Fatalf("take %d: wait %s, want none: a full bucket holds 2", i, wait)
			}
		}
		wait := b.take(time.Now())
		if wait <= 0 || wait > 500*time.Millisecond {
			t.Fatalf("take from an empty bucket: wait %s, want up to 500ms", wait)
		}
		time.Sleep(wait) // the bubble's time
		if wait := b.take(time.Now()); wait != 0 {
			t.Fatalf("take after the wait it asked for: wait %s, want none", wait)
		}
		time.Sleep(time.Hour)
		if got, _ := b.takeUpTo(100, time.Now()); got != 2 {
			t.Fatalf("takeUpTo(100) after an hour = %d, want 2: a bucket holds no more than Count", got)
		}
		b.giveBack(5)
		if got, _ := b.takeUpTo(100, time.Now()); got != 2 {
			t.Fatalf("takeUpTo(100) after giving 5 back = %d, want 2", got)
		}
	})
}

func TestBucketOfZeroRateLetsAllPass(t *testing.T) {
	t.Parallel()
	b := newBucket(Rate{})
	for range 1000 {
		if wait := b.take(time.Now()); wait != 0 {
			t.Fatalf("wait %s, want none", wait)
		}
	}
}

func TestAddressLimiter(t *testing.T) {
	t.Parallel()
	now := time.Now()
	tests := []struct {
		name          string
		first, second string
		shared        bool
	}{
		{"same address, other port", "192.0.2.1:1", "192.0.2.1:2", true},
		{"other address", "192.0.2.1:1", "192.0.2.2:1", false},
		{"mapped form of the same", "192.0.2.1:1", "[::ffff:192.0.2.1]:1", true},
		{"same /64", "[2001:db8::1]:1", "[2001:db8::2]:1", true},
		{"other /64", "[2001:db8::1]:1", "[2001:db8:0:1::1]:1", false},
		{"neither parses", "pipe", "@", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newAddressLimiter(Rate{Count: 1, Per: time.Hour})
			if wait := l.take(tt.first, now); wait != 0 {
				t.Fatalf("first request: wait %s", wait)
			}
			if shared := l.take(tt.second, now) > 0; shared != tt.shared {
				t.Errorf("second request held back: %t, want %t", shared, tt.shared)
			}
		})
	}
}

func TestAddressLimiterForgetsWhenFull(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := newAddressLimiter(Rate{Count: 1, Per: time.Hour})
	for i := range maxAddresses + 1 {
		l.take(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255), now)
	}
	if n := len(l.buckets); n > maxAddresses {
		t.Errorf("%d addresses are remembered, want at most %d", n, maxAddresses)
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := Retry{
			First: time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "first")),
			Max:   time.Duration(rapid.Int64Range(int64(time.Hour), int64(1000*time.Hour)).Draw(t, "max")),
		}
		n := rapid.IntRange(1, 1000).Draw(t, "attempt")
		after := time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "retry after"))
		got := r.backoff(n, after)
		if got < after {
			t.Fatalf("%s is before the Retry-After of %s", got, after)
		}
		if got > max(r.Max, after) {
			t.Fatalf("%s is beyond the maximum of %s", got, r.Max)
		}
		if n == 1 && got > max(r.First, after) {
			t.Fatalf("%s after the first attempt is beyond %s", got, r.First)
		}
	})
}

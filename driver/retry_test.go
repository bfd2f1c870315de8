package driver

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestBackoff(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := Retry{
			First: time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "first")),
			Max:   time.Duration(rapid.Int64Range(int64(time.Hour), int64(1000*time.Hour)).Draw(t, "max")),
		}
		n := rapid.IntRange(1, 1000).Draw(t, "attempt")
		after := time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "retry after"))
		got := r.Backoff(n, after)
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

package limit

import (
	"testing"
	"time"
)

func TestPaceOfARate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rate Rate
		want string
		bad  bool
	}{
		{rate: Rate{}},
		{rate: Rate{100, time.Second}, want: "100/s"},
		{rate: Rate{1, time.Minute}, want: "1/m"},
		{rate: Rate{7, time.Hour}, want: "7/h"},
		{rate: Rate{5, 100 * time.Millisecond}, want: "180000/h"},
		{rate: Rate{48, 24 * time.Hour}, want: "2/h"},
		{rate: Unpaced, want: "none"},
		{rate: Rate{1, time.Nanosecond}, want: "none"},
		{rate: Rate{1, 24 * time.Hour}, bad: true},
		{rate: Rate{-1, time.Second}, bad: true},
		{rate: Rate{1, 0}, bad: true},
	} {
		got, err := tt.rate.Pace()
		if got != tt.want || (err != nil) != tt.bad {
			t.Errorf("%v: %q, error %v, want %q and an error %t", tt.rate, got, err, tt.want, tt.bad)
		}
		if back, err := ParsePace(got); err != nil || tt.want != "" && tt.rate.Per == time.Second && back != tt.rate {
			t.Errorf("%q is read as %v, error %v, want %v", got, back, err, tt.rate)
		}
	}
}

package say_test

import (
	"math"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/say"
)

const day = 24 * time.Hour

func TestNumber(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0", 999: "999", 1000: "1,000", 1_234_567: "1,234,567", -999: "-999", -1000: "-1,000", math.MinInt64: "-9,223,372,036,854,775,808",
	} {
		if got := say.Number(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int]string{0: "0 events", 1: "1 event", 2: "2 events", 2000: "2,000 events"} {
		if got := say.Count(n, "event"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestBrief(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second:               "0 ms",
		0:                          "0 ms",
		80 * time.Microsecond:      "0.08 ms",
		96 * time.Microsecond:      "0.1 ms",
		870 * time.Microsecond:     "0.9 ms",
		4700 * time.Microsecond:    "4.7 ms",
		9960 * time.Microsecond:    "10 ms",
		12 * time.Millisecond:      "12 ms",
		999 * time.Millisecond:     "999 ms",
		999_600 * time.Microsecond: "1 s",
		1500 * time.Millisecond:    "1.5 s",
		59_960 * time.Millisecond:  "1 min",
		90 * time.Second:           "1.5 min",
		time.Hour:                  "1 h",
		36 * time.Hour:             "1.5 d",
		400 * day:                  "400 d",
		math.MaxInt64:              "106752 d",
	} {
		if got := say.Brief(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
		if got := say.BriefSeconds(d.Seconds()); got != want && d < math.MaxInt64 {
			t.Errorf("%f s: %q, want %q", d.Seconds(), got, want)
		}
	}
}

func TestSetting(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", time.Second: "1s", time.Minute: "1m", time.Hour: "1h", 90 * time.Minute: "1h30m", day: "1d", 36 * time.Hour: "36h", 61 * time.Second: "1m1s",
	} {
		if got := say.Setting(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestShort(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		give string
		room int
		want string
	}{{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"äöü", 3, "äöü"}, {"äöüß", 3, "äö…"}, {"", 3, ""}} {
		if got := say.Short(tt.give, tt.room); got != tt.want {
			t.Errorf("%q, %d: %q, want %q", tt.give, tt.room, got, tt.want)
		}
	}
}

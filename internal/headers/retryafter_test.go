package headers_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/headers"
)

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	clock := time.Date(2026, time.January, 31, 12, 0, 0, 0, time.UTC)
	tests := map[string]time.Duration{
		"": 0, "0": 0, "1": time.Second, " 120 ": 2 * time.Minute,
		"86400": 24 * time.Hour, "86401": 24 * time.Hour, strings.Repeat("9", 40): 24 * time.Hour,
		"-5": 0, "+5": 0, "1.5": 0, "5s": 0, "soon": 0, "٣": 0,
		clock.Add(time.Minute).Format(http.TimeFormat):    time.Minute,
		clock.Add(time.Minute).Format(time.RFC850):        time.Minute,
		clock.Add(time.Minute).Format(time.ANSIC):         time.Minute,
		clock.Add(-time.Minute).Format(http.TimeFormat):   0,
		clock.Add(48 * time.Hour).Format(http.TimeFormat): 24 * time.Hour,
		"Fri, 31 Dec 9999 23:59:59 GMT":                   24 * time.Hour,
		"Mon, 01 Jan 0001 00:00:00 GMT":                   0,
		clock.Add(time.Minute).Format(time.RFC3339):       0,
	}
	for in, want := range tests {
		if got := headers.RetryAfter(in, clock); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

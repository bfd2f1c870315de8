package hookadmin_test

import (
	"testing"
	"time"

	"github.com/hookonce/hookonce/hookadmin"
)

func TestWords(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		0: "0 seconds", time.Microsecond: "0 seconds", time.Second: "1 second", 1500 * time.Millisecond: "1 second 500 milliseconds",
		90 * time.Minute: "1 hour 30 minutes", 30 * day: "30 days", day + time.Second: "1 day 1 second", 1000 * day: "1,000 days",
	} {
		if got := hookadmin.InWords(d); got != want {
			t.Errorf("%s is %q, want %q", d, got, want)
		}
	}
	for want, r := range map[string]hookadmin.Retry{
		"1 attempt, no retry": {1, 10, 43200}, "2 attempts, up to 10 s apart": {2, 10, 43200}, "3 attempts, up to 1 min apart": {3, 60, 60},
		"20 attempts, from 10 s to 12 h apart": {20, 10, 43200},
	} {
		if got := hookadmin.RetryInWords(r); got != want {
			t.Errorf("%+v is %q, want %q", r, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "now", 999 * time.Millisecond: "now", -999 * time.Millisecond: "now", time.Second: "1 second ago", -time.Minute: "in 1 minute",
		59 * time.Minute: "59 minutes ago", 47 * time.Hour: "1 day ago", -49 * time.Hour: "in 2 days",
	} {
		if got := hookadmin.Relative(noon, noon.Add(d)); got != want {
			t.Errorf("after %s it is %q, want %q", d, got, want)
		}
	}
}

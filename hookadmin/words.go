package hookadmin

import (
	"strings"
	"time"

	"github.com/hookonce/hookonce/internal/say"
)

// units are the units of durations on pages, longest first.
var units = []struct {
	length time.Duration
	name   string
}{
	{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}, {time.Millisecond, "millisecond"},
}

// inWords returns all of d, to the millisecond: "1 hour 30 minutes".
func inWords(d time.Duration) string {
	var words []string
	for _, u := range units {
		if n := d / u.length; n > 0 {
			words = append(words, say.Count(int64(n), u.name))
			d %= u.length
		}
	}
	if len(words) == 0 {
		return "0 seconds"
	}
	return strings.Join(words, " ")
}

// seconds converts a duration in a shape of the API.
func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// moment is a time in a template.
type moment time.Time

// momentOf returns t for a template, or nil if there is no time.
func momentOf(t Time) *moment {
	if time.Time(t).IsZero() {
		return nil
	}
	return new(moment(t))
}

// Exact returns the time for programs.
func (m *moment) Exact() string { return Time(*m).String() }

// Date and Clock return the time for people.
func (m *moment) Date() string  { return time.Time(*m).UTC().Format(time.DateOnly) }
func (m *moment) Clock() string { return time.Time(*m).UTC().Format("15:04:05 UTC") }

// Relative returns "3 minutes ago", or "in 3 minutes".
func (m *moment) Relative() string { return relative(time.Time(*m), time.Now()) }

func relative(at, now time.Time) string {
	past, ago := now.Sub(at), true
	if past < 0 {
		past, ago = -past, false
	}
	for _, u := range units {
		n := past / u.length
		switch {
		case n < 1 || u.length < time.Second:
		case ago:
			return say.Count(int64(n), u.name) + " ago"
		default:
			return "in " + say.Count(int64(n), u.name)
		}
	}
	return "now"
}

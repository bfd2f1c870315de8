// Package say words numbers, durations and long texts for people, and finds the name that somebody meant.
// Pages, commands and errors ask it, so that all of them spell a thing alike.
package say

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const day = 24 * time.Hour

// Number returns n with separators: 1,234,567.
func Number[N int | int64](n N) string {
	digits := strconv.FormatInt(int64(n), 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// Count returns a number of things: "1 event", "2,000 events".
func Count[N int | int64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return Number(n) + " " + thing + "s"
}

// units are the units of Brief, shortest first.
var units = []struct {
	length time.Duration
	name   string
}{{time.Millisecond, " ms"}, {time.Second, " s"}, {time.Minute, " min"}, {time.Hour, " h"}, {day, " d"}}

// Brief returns about d in one unit: "0.08 ms", "4.7 ms", "12 ms", "1.5 s", "2 d".
func Brief(d time.Duration) string {
	for i, u := range units {
		v, scale := max(0, float64(d)/float64(u.length)), 1.0
		switch {
		case v < 0.095:
			scale = 100
		case v < 9.95:
			scale = 10
		}
		v = math.Round(v*scale) / scale
		if i == len(units)-1 || v < float64(units[i+1].length/u.length) {
			return strconv.FormatFloat(v, 'f', -1, 64) + u.name
		}
	}
	return "" // the last unit takes all
}

// BriefSeconds is Brief for a number of seconds.
func BriefSeconds(s float64) string { return Brief(time.Duration(s * float64(time.Second))) }

// Setting returns d exactly, as people write it in settings: 3d, 36h, 1h30m.
func Setting(d time.Duration) string {
	if d >= day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Short returns at most the first room characters of s, with … for the rest.
func Short(s string, room int) string {
	n := 0
	for i := range s {
		if n++; n == room && utf8.RuneCountInString(s[i:]) > 1 {
			return s[:i] + "…"
		}
	}
	return s
}

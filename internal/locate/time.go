package locate

import (
	"strings"
	"time"
)

// Numbers from firstMillis on are milliseconds: as seconds they would be in the year 5138 or later.
// Numbers from tooLate on are not times.
const (
	firstMillis = 100_000_000_000
	tooLate     = 1000 * firstMillis
)

// parseTime reads a time leniently, see Reader.Read.
func parseTime(s string) time.Time {
	t, ok := parseNumber(s)
	for _, parse := range []func(string) (time.Time, bool){ParseRFC3339, parseISO8601, parseRFC1123} {
		if !ok {
			t, ok = parse(s)
		}
	}
	// In UTC, the last hours of the year 9999 may fall into a year of five digits.
	t = t.UTC()
	if !ok || t.Unix() < 0 || t.Year() > 9999 {
		return time.Time{}
	}
	return t
}

// parseNumber reads seconds or milliseconds since 1970: at most 15 digits and an optional fraction,
// which is ignored for milliseconds.
func parseNumber(s string) (time.Time, bool) {
	whole, fraction, hasPoint := strings.Cut(s, ".")
	n, ok := Digits(whole, 15)
	switch {
	case !ok || n >= tooLate:
		return time.Time{}, false
	case hasPoint:
		if _, ok := Digits(fraction, MaxType); !ok {
			return time.Time{}, false
		}
	}
	if n >= firstMillis {
		return time.UnixMilli(n), true
	}
	if !hasPoint {
		return time.Unix(n, 0), true
	}
	const nine = 9 // digits of nanoseconds
	nanos, _ := Digits((fraction + "000000000")[:nine], nine)
	return time.Unix(n, nanos), true
}

// ParseRFC3339 accepts only RFC 3339: the standard library also accepts a comma instead of the
// point, and an hour of one digit (https://go.dev/issue/54580).
func ParseRFC3339(s string) (time.Time, bool) {
	const form = "0000-00-00T00:00:00"
	if len(s) <= len(form) || strings.Contains(s, ",") {
		return time.Time{}, false
	}
	for i := range len(form) {
		isDigit := s[i] >= '0' && s[i] <= '9'
		if form[i] == '0' && !isDigit || form[i] != '0' && s[i] != form[i] {
			return time.Time{}, false
		}
	}
	t, err := time.Parse(time.RFC3339, s)
	return t, err == nil
}

// parseISO8601 reads a date and a time with a 'T' or a blank between them, and an optional zone
// without a colon.
func parseISO8601(s string) (time.Time, bool) {
	s = strings.TrimSuffix(s, " UTC")
	if len(s) > len("2006-01-02") && s[len("2006-01-02")] == ' ' {
		s = strings.Replace(s, " ", "T", 1)
	}
	for _, full := range []string{s, s + "Z"} {
		if t, ok := ParseRFC3339(full); ok {
			return t, true
		}
	}
	const zone = len("+0200")
	if len(s) < zone {
		return time.Time{}, false
	}
	return ParseRFC3339(s[:len(s)-2] + ":" + s[len(s)-2:])
}

// parseRFC1123 reads the forms of RFC 1123, section 5.2.14. It accepts zone names only for UTC: the
// standard library invents offsets for others.
func parseRFC1123(s string) (time.Time, bool) {
	for _, name := range []string{" GMT", " UTC", " UT"} {
		if before, ok := strings.CutSuffix(s, name); ok {
			s = before + " +0000"
			break
		}
	}
	t, err := time.Parse("Mon, _2 Jan 2006 15:04:05 -0700", s)
	return t, err == nil
}

// Digits reads a number of 1 to most decimal digits. The result is correct for up to 18 digits.
func Digits(s string, most int) (int64, bool) {
	if s == "" || len(s) > most {
		return 0, false
	}
	var n int64
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, true
}

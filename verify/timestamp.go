package verify

import (
	"fmt"
	"strconv"
	"time"

	"github.com/hookonce/hookonce/internal/locate"
)

// The most digits of a timestamp. Milliseconds, today 13 digits, are thereby
// never taken for seconds.
const (
	maxUnixDigits   = 12
	maxUnixMSDigits = 15
	// Of TimeAny: from here on, the year 5138 in seconds and 1973 in milliseconds,
	// a number is of milliseconds.
	firstMS = 100_000_000_000
)

// timeRule is a compiled Timestamp.
type timeRule struct {
	at        *place // nil: it stands among the signatures
	ref       locate.Ref
	format    string
	tolerance time.Duration
}

// text returns t as the sender would write it.
func (r *timeRule) text(t time.Time) string {
	switch r.format {
	case TimeUnixMS:
		return strconv.FormatInt(t.UnixMilli(), 10)
	case TimeRFC3339:
		return t.UTC().Format(time.RFC3339Nano)
	}
	return strconv.FormatInt(t.Unix(), 10)
}

// parse reads the text of a timestamp, and cuts now to the same resolution.
func (r *timeRule) parse(text string, now time.Time) (at, cut time.Time, ok bool) {
	format := r.format
	if format == TimeAny {
		format = formOf(text)
	}
	switch format {
	case TimeUnixMS:
		n, ok := locate.Digits(text, maxUnixMSDigits)
		return time.UnixMilli(n), time.UnixMilli(now.UnixMilli()), ok && !padded(text)
	case TimeRFC3339:
		at, ok = locate.ParseRFC3339(text)
		return at, now, ok
	}
	n, ok := locate.Digits(text, maxUnixDigits)
	return time.Unix(n, 0), time.Unix(now.Unix(), 0), ok && !padded(text)
}

// padded reports whether a number is written with a zero before it. Nobody sends that,
// and a digit could move there from what is signed before the time.
func padded(text string) bool { return len(text) > 1 && text[0] == '0' }

// formOf tells the format of a time by its form.
func formOf(text string) string {
	n, ok := locate.Digits(text, maxUnixMSDigits)
	switch {
	case !ok:
		return TimeRFC3339
	case n >= firstMS:
		return TimeUnixMS
	}
	return TimeUnix
}

// check checks the time of a request whose signature matched. A nil rule is
// that of a scheme without a time.
func (r *timeRule) check(now time.Time, text string) error {
	if r == nil {
		return nil
	}
	at, now, ok := r.parse(text, now)
	if !ok {
		return fmt.Errorf("%w: the timestamp is not in the format %s", ErrMalformed, r.format)
	}
	switch age := now.Sub(at); { // saturates, so that no time overflows
	case age > r.tolerance:
		return fmt.Errorf("%w: the tolerance is %s", ErrTooOld, r.tolerance)
	case age < -r.tolerance:
		return fmt.Errorf("%w: the tolerance is %s", ErrTooNew, r.tolerance)
	}
	return nil
}

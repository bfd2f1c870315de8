package verify

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/hookonce/hookonce/internal/locate"
)

// The most digits of a timestamp. The limit on seconds keeps milliseconds, which have 13 digits
// today, from passing as seconds.
const (
	maxUnixDigits   = 12
	maxUnixMSDigits = 15
	// From this number on, TimeAny reads milliseconds: the year 1973. In seconds it would be 5138.
	firstMS = 100_000_000_000
)

// timeRule is a compiled Timestamp.
type timeRule struct {
	at        *place // nil if the time stands beside the signatures
	ref       locate.Ref
	format    string
	tolerance time.Duration
	number    bool // in JSON, for write
}

// write puts the time at its place, into req or into item. It returns the item.
func (r *timeRule) write(req *Request, item []byte, text string) ([]byte, error) {
	if !r.number {
		return r.at.write(req, item, text)
	}
	var err error
	req.Body, err = locate.SetRaw(req.Body, r.at.path, []byte(text))
	return item, err
}

// isoMillis is how Orb writes a time in UTC.
const isoMillis = "2006-01-02T15:04:05.000"

// text formats t as the sender does.
func (r *timeRule) text(t time.Time) string { return FormatTime(r.format, t) }

// FormatTime returns t in a format of Timestamp.Format, as a sender writes it. The format any gives
// seconds.
func FormatTime(format string, t time.Time) string {
	switch format {
	case TimeUnixMS:
		return strconv.FormatInt(t.UnixMilli(), 10)
	case TimeRFC3339:
		return t.UTC().Format(time.RFC3339Nano)
	case TimeISO:
		return t.UTC().Format(isoMillis)
	case TimeHTTPDate:
		return t.UTC().Format(http.TimeFormat)
	}
	return strconv.FormatInt(t.Unix(), 10)
}

// parse parses a timestamp, and cuts now to the same resolution.
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
	case TimeISO:
		if at, ok = locate.ParseRFC3339(text + "Z"); !ok {
			at, ok = locate.ParseRFC3339(text)
		}
		return at, now, ok
	case TimeHTTPDate:
		at, err := time.Parse(http.TimeFormat, text)
		if err != nil {
			at, ok = locate.ParseRFC3339(text)
			return at, now, ok
		}
		// The parser accepts a wrong day of the week, and other spellings.
		return at, time.Unix(now.Unix(), 0), at.Format(http.TimeFormat) == text
	}
	n, ok := locate.Digits(text, maxUnixDigits)
	return time.Unix(n, 0), time.Unix(now.Unix(), 0), ok && !padded(text)
}

// padded reports whether a number has a leading zero. No sender writes one, and it could be a digit
// that was moved there from the signed bytes before the time.
func padded(text string) bool { return len(text) > 1 && text[0] == '0' }

// formOf returns the format of a time in the format TimeAny.
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

// check compares the time of a request with now. A nil rule accepts every time. Call it after the
// signature matched.
func (r *timeRule) check(now time.Time, text string) error {
	if r == nil {
		return nil
	}
	at, now, ok := r.parse(text, now)
	if !ok {
		return fmt.Errorf("%w: the timestamp is not in the format %s", ErrMalformed, r.format)
	}
	switch age := now.Sub(at); { // Sub saturates instead of overflowing
	case age > r.tolerance:
		return fmt.Errorf("%w: the tolerance is %s", ErrTooOld, r.tolerance)
	case age < -r.tolerance:
		return fmt.Errorf("%w: the tolerance is %s", ErrTooNew, r.tolerance)
	}
	return nil
}

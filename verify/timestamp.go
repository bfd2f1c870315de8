package verify

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/hookonce/hookonce/internal/locate"
)

// The most digits of a timestamp. Milliseconds, today 13 digits, are thereby
// never taken for seconds.
const (
	maxUnixDigits   = 12
	maxUnixMSDigits = 15
)

// read returns the text of a timestamp in a header of its own, or in another
// list of pairs than the signature's.
func (r *timeRule) read(h http.Header) (string, error) {
	value, err := single(h, r.header)
	if err != nil || r.key == "" {
		return value, err
	}
	text, found, ok := locate.PairValue(value, r.key)
	switch {
	case !ok:
		return "", fmt.Errorf("%w: header %s is not a list of key=value", ErrMalformed, r.header)
	case found > 1:
		return "", fmt.Errorf("%w: key %s in header %s", ErrRepeated, r.key, r.header)
	case text == "":
		return "", fmt.Errorf("%w: key %s in header %s", ErrMissing, r.key, r.header)
	}
	return text, nil
}

// set puts a timestamp into a header of its own.
func (r *timeRule) set(h http.Header, text string) error {
	if r.key != "" {
		return fmt.Errorf("the scheme's time is one key in header %s, whose other keys are unknown", r.header)
	}
	h.Set(r.header, text)
	return nil
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
	switch r.format {
	case TimeUnixMS:
		n, ok := locate.Digits(text, maxUnixMSDigits)
		return time.UnixMilli(n), time.UnixMilli(now.UnixMilli()), ok
	case TimeRFC3339:
		at, ok = locate.ParseRFC3339(text)
		return at, now, ok
	}
	n, ok := locate.Digits(text, maxUnixDigits)
	return time.Unix(n, 0), time.Unix(now.Unix(), 0), ok
}

// checkTime checks the time of a request whose signature matched.
func (v *Verifier) checkTime(now time.Time, text string) error {
	if v.time == nil {
		return nil
	}
	at, now, ok := v.time.parse(text, now)
	if !ok {
		return fmt.Errorf("%w: the timestamp is not in the format %s", ErrMalformed, v.time.format)
	}
	switch age := now.Sub(at); { // saturates, so that no time overflows
	case age > v.time.tolerance:
		return fmt.Errorf("%w: the tolerance is %s", ErrTooOld, v.time.tolerance)
	case age < -v.time.tolerance:
		return fmt.Errorf("%w: the tolerance is %s", ErrTooNew, v.time.tolerance)
	}
	return nil
}

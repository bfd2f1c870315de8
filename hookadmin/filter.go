package hookadmin

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hookonce/hookonce/driver"
)

// maxParameter bounds the bytes of one filter value.
const maxParameter = 1024

// parameters are the names that ParseFilter knows, in the order of the docs.
var parameters = []string{"source", "type", "state", "note", "id", "q", "since", "until", "limit", "cursor"}

// ParameterError says what is wrong with one parameter of a listing.
type ParameterError struct {
	Name   string // of the parameter
	Reason string // what is wrong and what would be right
}

// Error implements error.
func (e *ParameterError) Error() string { return fmt.Sprintf("%s: %s", e.Name, e.Reason) }

// ParseFilter reads the parameters of GET /api/v1/events: source, type, state,
// note, id, q, since, until, limit and cursor, all optional, each at most
// once; an empty value is the same as none. since and until are a time of RFC
// 3339, or a duration before now such as 2h, 90m or 7d. Errors are a
// *ParameterError, the first by the order above.
func ParseFilter(values url.Values, now time.Time) (*driver.EventFilter, error) {
	for _, name := range sortedKeys(values) {
		if !slices.Contains(parameters, name) {
			return nil, &ParameterError{name, "unknown parameter; known are " + strings.Join(parameters, ", ")}
		}
	}
	for _, name := range parameters {
		if reason := badValue(values[name]); reason != "" {
			return nil, &ParameterError{name, reason}
		}
	}
	f := &driver.EventFilter{
		Source: values.Get("source"),
		Type:   values.Get("type"),
		State:  values.Get("state"),
		Note:   values.Get("note"),
		ID:     values.Get("id"),
		Text:   values.Get("q"),
	}
	if f.State != "" && !slices.Contains(driver.EventStates(), f.State) {
		return nil, &ParameterError{"state", fmt.Sprintf("%q is no state; use %s", f.State, strings.Join(driver.EventStates(), ", "))}
	}
	if err := parseTimes(f, values, now); err != nil {
		return nil, err
	}
	return f, parsePaging(f, values)
}

func parseTimes(f *driver.EventFilter, values url.Values, now time.Time) error {
	var err error
	if f.Since, err = parseTime("since", values.Get("since"), now); err != nil {
		return err
	}
	if f.Until, err = parseTime("until", values.Get("until"), now); err != nil {
		return err
	}
	if !f.Since.IsZero() && !f.Until.IsZero() && !f.Since.Before(f.Until) {
		return &ParameterError{"until", "must be later than since"}
	}
	return nil
}

func parsePaging(f *driver.EventFilter, values url.Values) error {
	f.Limit = driver.DefaultLimit
	if s := values.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > driver.MaxLimit {
			return &ParameterError{"limit", fmt.Sprintf("%q is not a number from 1 to %d", s, driver.MaxLimit)}
		}
		f.Limit = n
	}
	var err error
	if f.After, err = driver.ParseCursor(values.Get("cursor")); err != nil {
		return &ParameterError{"cursor", err.Error()}
	}
	return nil
}

// parseTime reads a time of RFC 3339, or a duration before now.
func parseTime(name, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if ago, ok := parseAgo(s); ok {
		return now.Add(-ago), nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}, &ParameterError{name, fmt.Sprintf(
			"%q is neither a time such as 2026-01-31T08:00:00Z nor a duration ago such as 2h or 7d", s)}
	}
	return t, nil
}

// parseAgo reads a duration of Go, or whole days as the settings write them: 30d.
func parseAgo(s string) (time.Duration, bool) {
	const day, maxDays = 24 * time.Hour, 100 * 365
	if digits, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(digits, 10, 32)
		return time.Duration(n) * day, err == nil && n <= maxDays
	}
	d, err := time.ParseDuration(s)
	return d, err == nil && d >= 0
}

// badValue returns why the values of one parameter are refused, or "".
func badValue(values []string) string {
	if len(values) > 1 {
		return "given more than once"
	}
	for _, s := range values {
		switch {
		case len(s) > maxParameter:
			return fmt.Sprintf("longer than %d bytes", maxParameter)
		case !plainText(s):
			return "holds a control character or is not valid UTF-8"
		}
	}
	return ""
}

// plainText reports whether s is valid UTF-8 without control characters. No
// stored name, id or type is anything else, and PostgreSQL refuses a NUL.
func plainText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

func sortedKeys(values url.Values) []string {
	keys := make([]string, 0, len(values))
	for key := range values {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

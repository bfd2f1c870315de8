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

// Bounds of values in paths, queries and bodies, in bytes. No stored value is longer.
const (
	// maxParameter bounds every value. It is the length of the longest event id: eight parts and the ':' between them.
	maxParameter = 2047
	maxIDPart    = 255
	maxName      = 63 // of a source or a destination
	maxType      = 255
)

// maxOf returns the bound of the value of a parameter, a key or a name in a path.
func maxOf(name string) int {
	switch name {
	case "source", "destination", "name":
		return maxName
	case "type":
		return maxType
	case "message_id", "message_ids", "request_id":
		return driver.MaxMessageID
	}
	return maxParameter
}

// The parameter names of the listings, in the order of the docs.
var (
	eventParameters   = []string{"source", "type", "state", "destination", "note", "id", "q", "since", "until", "limit", "cursor"}
	messageParameters = []string{
		"source", "type", "state", "destination", "note", "id", "message_id", "q", "since", "until", "limit", "cursor",
	}
	deadLetterParameters = slices.Insert(slices.Clone(messageParameters), 5, "signature")
	quarantineParameters = []string{"source", "limit", "cursor"}
)

// ParameterError describes a fault in one parameter of a listing, or in one key of a request's
// body.
type ParameterError struct {
	Name   string // of the parameter; an unknown name is quoted and shortened
	Reason string // the fault, and the values that are allowed
}

// Error implements error.
func (e *ParameterError) Error() string { return fmt.Sprintf("%s: %s", e.Name, e.Reason) }

// ParseFilter reads the parameters of GET /api/v1/events: source, type, state, destination, note, id, q,
// since, until, limit and cursor. All are optional and appear at most once; an empty value counts as
// absent. since and until are a time of RFC 3339, or a duration before now such as 2h, 90m or 7d.
// Errors are a *ParameterError, for the first faulty parameter in that order.
func ParseFilter(values url.Values, now time.Time) (*driver.EventFilter, error) {
	l, err := parseListing(values, eventParameters, driver.EventStates(), now)
	if err != nil {
		return nil, err
	}
	after, err := driver.ParseCursor(values.Get("cursor"))
	if err != nil {
		return nil, &ParameterError{"cursor", err.Error()}
	}
	return &driver.EventFilter{
		Source: values.Get("source"),
		Type:   values.Get("type"),
		State:  values.Get("state"),
		Note:   values.Get("note"),
		ID:     values.Get("id"),
		Text:   values.Get("q"),
		Since:  l.since,
		Until:  l.until,
		Limit:  l.limit,
		After:  after,

		Destination: values.Get("destination"),
	}, nil
}

// ParseMessageFilter reads the parameters of GET /api/v1/messages: source,
// type, state, destination, note, id (of the event), message_id, q, since,
// until, limit and cursor, as ParseFilter does.
func ParseMessageFilter(values url.Values, now time.Time) (*driver.MessageFilter, error) {
	return parseMessages(values, messageParameters, driver.MessageStates(), now)
}

// ParseDeadLetterFilter reads the parameters of GET /api/v1/dead-letters: those of
// ParseMessageFilter, and signature. The only state it accepts is dead.
func ParseDeadLetterFilter(values url.Values, now time.Time) (*driver.MessageFilter, error) {
	return parseMessages(values, deadLetterParameters, []string{driver.StateDead}, now)
}

func parseMessages(values url.Values, known, states []string, now time.Time) (*driver.MessageFilter, error) {
	l, err := parseListing(values, known, states, now)
	if err != nil {
		return nil, err
	}
	after, err := driver.ParseCursor(values.Get("cursor"))
	if err != nil {
		return nil, &ParameterError{"cursor", err.Error()}
	}
	return &driver.MessageFilter{
		Source:      values.Get("source"),
		Type:        values.Get("type"),
		EventID:     values.Get("id"),
		MessageID:   values.Get("message_id"),
		Destination: values.Get("destination"),
		State:       values.Get("state"),
		Note:        values.Get("note"),
		Signature:   values.Get("signature"),
		Text:        values.Get("q"),
		Since:       l.since,
		Until:       l.until,
		Limit:       l.limit,
		After:       after,
	}, nil
}

// listing holds the parsed parameters that all listings share.
type listing struct {
	since, until time.Time
	limit        int
}

func parseListing(values url.Values, known, states []string, now time.Time) (listing, error) {
	err := checkParameters(values, known)
	if err != nil {
		return listing{}, err
	}
	if state := values.Get("state"); state != "" && !slices.Contains(states, state) {
		return listing{}, &ParameterError{"state", notState(state, states)}
	}
	var l listing
	if l.since, l.until, err = parseSpan(values.Get("since"), values.Get("until"), now); err != nil {
		return listing{}, err
	}
	l.limit, err = parseLimit(values.Get("limit"), driver.DefaultLimit, driver.MaxLimit)
	return l, err
}

// notState says that states lacks state. People see events that are running as waiting, too.
func notState(state string, states []string) string {
	reason := fmt.Sprintf("%q is not a state here; use %s", state, strings.Join(states, ", "))
	if state == shownWaiting && slices.Equal(states, driver.EventStates()) {
		reason += "; events shown as waiting are running"
	}
	return reason
}

// checkParameters checks that values has only known names, each at most once, with values that a
// database accepts.
func checkParameters(values url.Values, known []string) error {
	for _, name := range sortedKeys(values) {
		if !slices.Contains(known, name) {
			return &ParameterError{fmt.Sprintf("%.100q", name), "unknown parameter; known parameters are " + strings.Join(known, ", ")}
		}
	}
	for _, name := range known {
		if len(values[name]) > 1 {
			return &ParameterError{name, "given more than once"}
		}
		if reason := badText(name, values.Get(name)); reason != "" {
			return &ParameterError{name, reason}
		}
	}
	return nil
}

// parseSpan reads since and until; each may be empty.
func parseSpan(since, until string, now time.Time) (from, to time.Time, err error) {
	if from, err = parseTime("since", since, now); err != nil {
		return time.Time{}, time.Time{}, err
	}
	if to, err = parseTime("until", until, now); err != nil {
		return time.Time{}, time.Time{}, err
	}
	if !from.IsZero() && !to.IsZero() && !from.Before(to) {
		return time.Time{}, time.Time{}, &ParameterError{"until", "must be later than since"}
	}
	return from, to, nil
}

func parseLimit(s string, byDefault, most int) (int, error) {
	if s == "" {
		return byDefault, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > most {
		return 0, &ParameterError{"limit", fmt.Sprintf("%q is not a number from 1 to %d", s, most)}
	}
	return n, nil
}

// parseTime reads a time of RFC 3339, or a duration before now; "" is the zero time.
func parseTime(name, s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if ago, ok := parseAgo(s); ok {
		return now.Add(-ago), nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err == nil && t.Year() <= 1 {
		// Programs write an unset time like this. As a filter it would select everything.
		return time.Time{}, &ParameterError{name, fmt.Sprintf("%q is the time that programs write for none: leave %s out, or give a time", s, name)}
	}
	if err != nil {
		return time.Time{}, &ParameterError{name, fmt.Sprintf(
			"%q is neither a time such as 2026-01-31T08:00:00Z nor a duration ago such as 2h or 7d", s)}
	}
	return t, nil
}

// parseAgo reads a Go duration, or whole days as in the settings: 30d.
func parseAgo(s string) (time.Duration, bool) {
	const day, maxDays = 24 * time.Hour, 100 * 365
	if digits, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(digits, 10, 32)
		return time.Duration(n) * day, err == nil && n <= maxDays
	}
	d, err := time.ParseDuration(s)
	return d, err == nil && d >= 0
}

// badText returns why the value s of a parameter, a key or a name in a path is refused, or "".
func badText(name, s string) string {
	switch most := maxOf(name); {
	case len(s) > most:
		return fmt.Sprintf("longer than %d bytes", most)
	case !utf8.ValidString(s):
		return "is not valid UTF-8"
	case !plainText(s):
		return "holds a control character"
	case (name == "id" || name == "ids" || name == "event_id") && !fitsID(s):
		return fmt.Sprintf("longer than %d bytes: an event id has at most so many between two ':'", maxIDPart)
	}
	return ""
}

// fitsID reports whether s can be an event id by the length of its parts. A part may hold ':' itself.
func fitsID(s string) bool {
	for piece := range strings.SplitSeq(s, ":") {
		if len(piece) > maxIDPart {
			return false
		}
	}
	return true
}

// plainText reports whether s is valid UTF-8 without control characters. All stored names, ids and
// types are, and PostgreSQL refuses NUL.
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

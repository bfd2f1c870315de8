package send

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/hookonce/hookonce/internal/headers"
)

// Our own headers, and limits of headers.
const (
	headerID = "Webhook-Id"

	userAgent = "hookonce"
	// maxProvenance bounds an event's type in bytes. All our other headers are short.
	maxProvenance = 1 << 10
)

// header returns the headers for a destination, without the signature: first the sender's headers,
// except those of package headers, those that Connection names, those stored as "<secret>" and those
// that HTTP forbids; then ours.
//
// The values of Hookonce-Source, -Event-Id and -Event-Type are percent-encoded if they contain '%',
// a control character, a character outside ASCII, or a space at either end, so decoding always
// gives the original. An event type that is longer than 1 KiB after encoding is left out, not cut.
func header(msg *Message) http.Header {
	out := make(http.Header, len(msg.Header)+12)
	connection := connectionNames(msg.Header)
	for name, values := range msg.Header {
		if !forwarded(name, connection) || slices.Contains(values, headers.Secret) {
			continue
		}
		name = http.CanonicalHeaderKey(name)
		if all := out[name]; all == nil && !slices.ContainsFunc(values, notValidValue) {
			out[name] = values[:len(values):len(values)]
			continue
		}
		for _, v := range values {
			if validValue(v) {
				out[name] = append(out[name], v)
			}
		}
	}
	ours := make(fields, 0, 8)
	if out.Get("User-Agent") == "" {
		ours.set(out, "User-Agent", userAgent)
	}
	ours.set(out, headerID, msg.ID)
	ours.set(out, "Idempotency-Key", msg.ID)
	ours.setProvenance(out, "Hookonce-Source", msg.Source)
	ours.setProvenance(out, "Hookonce-Event-Id", msg.EventID)
	ours.setProvenance(out, "Hookonce-Event-Type", msg.Type)
	ours.set(out, "Hookonce-Attempt", strconv.Itoa(msg.Attempt))
	if msg.Generation > 0 {
		ours.set(out, "Hookonce-Replay", strconv.Itoa(msg.Generation))
	}
	setTrace(out, msg)
	return out
}

// fields holds values of single headers in one piece of memory.
type fields []string

// set sets a header. Its name is canonical.
func (f *fields) set(h http.Header, name, value string) {
	n := len(*f)
	*f = append(*f, value)
	h[name] = (*f)[n : n+1 : n+1]
}

// forwarded reports whether a header of the sender is passed on.
func forwarded(name string, connection []string) bool {
	return validName(name) && headers.Forwarded(name) &&
		!(len(connection) > 0 && slices.Contains(connection, strings.ToLower(name)))
}

func connectionNames(h http.Header) []string {
	var names []string
	for name, values := range h {
		if !strings.EqualFold(name, "Connection") {
			continue
		}
		for _, v := range values {
			for item := range strings.SplitSeq(v, ",") {
				names = append(names, strings.ToLower(strings.TrimSpace(item)))
			}
		}
	}
	return names
}

func (f *fields) setProvenance(h http.Header, name, value string) {
	if value = percentEncode(value); value != "" && len(value) <= maxProvenance {
		f.set(h, name, value)
	}
}

func percentEncode(s string) string {
	encoded := func(i int) bool {
		c, edge := s[i], i == 0 || i == len(s)-1
		return c < ' ' || c >= 0x7f || c == '%' || c == ' ' && edge
	}
	plain := 0
	for plain < len(s) && !encoded(plain) {
		plain++
	}
	if plain == len(s) {
		return s
	}
	var out []byte
	for i := range len(s) {
		if c := s[i]; encoded(i) {
			out = fmt.Appendf(out, "%%%02X", c)
		} else {
			out = append(out, c)
		}
	}
	return string(out)
}

// validName reports whether s is a token of RFC 9110, 5.6.2.
func validName(s string) bool {
	for i := range len(s) {
		c := s[i]
		alphanumeric := '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !alphanumeric && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

func notValidValue(s string) bool { return !validValue(s) }

// validValue reports whether s may be a field value of RFC 9110, 5.5.
func validValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

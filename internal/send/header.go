package send

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Our own headers, and limits of headers.
const (
	headerID = "Webhook-Id"

	userAgent = "hookonce"
	// redacted replaces a shared credential in stored headers.
	redacted = "<secret>"
	// maxProvenance bounds an event's type in bytes. All our other headers are short.
	maxProvenance = 1 << 10
)

// notForwarded holds headers, in lower case, that are never passed on: those about one connection
// (RFC 9110, 7.6.1, and older practice), those that the transport sets, and those that carry
// authority or claims about the client, which concern us and not the destination.
var notForwarded = []string{
	"accept-encoding", "authorization", "connection", "content-length", "cookie",
	"expect", "forwarded", "host", "http2-settings", "idempotency-key", "keep-alive",
	"proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
	"transfer-encoding", "upgrade",
}

var notForwardedPrefixes = []string{"hookonce-", "webhook-", "x-forwarded-"}

// header returns the headers for a destination, without the signature: first the sender's headers,
// except those in notForwarded, those that Connection names, those stored as "<secret>" and those
// that HTTP forbids; then ours.
//
// The values of Hookonce-Source, -Event-Id and -Event-Type are percent-encoded if they contain '%',
// a control character, a character outside ASCII, or a space at either end, so decoding always
// gives the original. An event type that is longer than 1 KiB after encoding is left out, not cut.
func header(msg *Message) http.Header {
	out := make(http.Header, len(msg.Header)+8)
	connection := connectionNames(msg.Header)
	for name, values := range msg.Header {
		if !forwarded(name, connection) || slices.Contains(values, redacted) {
			continue
		}
		name = http.CanonicalHeaderKey(name)
		for _, v := range values {
			if validValue(v) {
				out[name] = append(out[name], v)
			}
		}
	}
	if out.Get("User-Agent") == "" {
		out.Set("User-Agent", userAgent)
	}
	out.Set(headerID, msg.ID)
	out.Set("Idempotency-Key", msg.ID)
	setProvenance(out, "Hookonce-Source", msg.Source)
	setProvenance(out, "Hookonce-Event-Id", msg.EventID)
	setProvenance(out, "Hookonce-Event-Type", msg.Type)
	out.Set("Hookonce-Attempt", strconv.Itoa(msg.Attempt))
	if msg.Generation > 0 {
		out.Set("Hookonce-Replay", strconv.Itoa(msg.Generation))
	}
	setTrace(out, msg)
	return out
}

// forwarded treats '_' as '-': CGI and WSGI do not distinguish Webhook_Id from webhook-id, and a
// sender must not set our headers there either.
func forwarded(name string, connection []string) bool {
	folded := strings.ReplaceAll(strings.ToLower(name), "_", "-")
	if !validName(name) || slices.Contains(notForwarded, folded) || slices.Contains(connection, strings.ToLower(name)) {
		return false
	}
	return !slices.ContainsFunc(notForwardedPrefixes, func(p string) bool { return strings.HasPrefix(folded, p) })
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

func setProvenance(h http.Header, name, value string) {
	if value = percentEncode(value); value != "" && len(value) <= maxProvenance {
		h.Set(name, value)
	}
}

func percentEncode(s string) string {
	var out []byte
	for i := range len(s) {
		c := s[i]
		edge := c == ' ' && (i == 0 || i == len(s)-1)
		if c < ' ' || c >= 0x7f || c == '%' || edge {
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

// validValue reports whether s may be a field value of RFC 9110, 5.5.
func validValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

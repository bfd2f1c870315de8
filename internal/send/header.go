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

// notForwarded holds headers, in folded form, that are never passed on: those about one connection
// (RFC 9110, 7.6.1, and older practice), those that the transport sets, those that carry authority,
// and claims about the client, the method or the routing of the request. An app trusts such claims
// from its own proxies, and it trusts the gateway; but a sender, or anyone who captured a delivery,
// can write them. Signatures do not cover them.
var notForwarded = setOf(
	"accept-encoding", "authorization", "connection", "content-length", "cookie", "cookie2",
	"expect", "host", "http2-settings", "idempotency-key", "keep-alive",
	"te", "trailer", "transfer-encoding", "upgrade",
	// authority
	"client-cert", "client-cert-chain", "x-authorization", "x-serverless-authorization", "x-ssl-cert",
	// the client
	"cdn-real-ip", "client-ip", "do-connecting-ip", "incap-client-ip", "x-cdn-src-ip",
	"x-client-cert", "x-client-dn", "x-client-ip", "x-client-port", "x-client-verify", "x-coming-from",
	"x-connecting-ip", "x-custom-ip-authorization", "x-incap-client-ip", "x-nf-client-connection-ip",
	"x-proxyuser-ip", "x-source-ip", "x-sucuri-clientip", "x-true-client-ip", "x-true-ip",
	// the method and the routing
	"cdn-loop", "front-end-https", "max-forwards", "path-info", "proxy", "request-uri", "script-name", "surrogate-capability",
	"via", "x-backend-host", "x-bluecoat-via", "x-matched-path", "x-method",
	"x-port", "x-proto", "x-protocol", "x-request-uri", "x-scheme", "x-script-name", "x-sendfile-type", "x-server-name",
	"x-server-port", "x-url-scheme", "x-via",
)

// notForwardedPrefixes are the beginnings of folded names that are never passed on: our own, and
// families of the claims in notForwarded.
var notForwardedPrefixes = []string{
	"hookonce-", "webhook-",
	"cf-", "cloudfront-", "fastly-client", "fly-", "forwarded", "proxy-", "remote-", "ssl-client-", "tls-client-",
	"true-client-", "wl-proxy-", "x-accel-", "x-amzn-mtls-", "x-amzn-oidc-", "x-appengine-", "x-arr-", "x-auth-request-",
	"x-authenticated-", "x-authentik-", "x-azure-", "x-client-ssl-", "x-cluster-", "x-envoy-", "x-forward",
	"x-goog-authenticated-", "x-goog-iap-", "x-host", "x-http-", "x-invoke-", "x-method-", "x-middleware-",
	"x-ms-client-principal", "x-ms-forwarded-", "x-ms-token-", "x-original-", "x-originating-", "x-override-",
	"x-proxy-", "x-real-", "x-remote-", "x-rewrite-", "x-ssl-", "x-vercel-forwarded-", "x-vercel-ip-",
	"x-vercel-oidc-", "x-vercel-proxied-", "x-webauth-",
}

// secretWords are parts of the names of headers that pass on a credential of a proxy's user.
var secretWords = []string{"token", "jwt", "secret", "password", "assertion", "authorization", "cookie", "oidc-data", "session"}

// Credential reports whether a header is never passed on and, by its name, carries a credential: that of
// a proxy's user, as X-Forwarded-Access-Token and X-Amzn-Oidc-Data do.
func Credential(name string) bool {
	var buf [64]byte
	folded := string(fold(buf[:0], name))
	return slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(folded, word) }) && !forwarded(name, nil)
}

// header returns the headers for a destination, without the signature: first the sender's headers,
// except those in notForwarded, those that Connection names, those stored as "<secret>" and those
// that HTTP forbids; then ours.
//
// The values of Hookonce-Source, -Event-Id and -Event-Type are percent-encoded if they contain '%',
// a control character, a character outside ASCII, or a space at either end, so decoding always
// gives the original. An event type that is longer than 1 KiB after encoding is left out, not cut.
func header(msg *Message) http.Header {
	out := make(http.Header, len(msg.Header)+12)
	connection := connectionNames(msg.Header)
	for name, values := range msg.Header {
		if !forwarded(name, connection) || slices.Contains(values, redacted) {
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
	var buf [64]byte
	folded := fold(buf[:0], name)
	if !validName(name) || notForwarded[string(folded)] || len(connection) > 0 && slices.Contains(connection, strings.ToLower(name)) {
		return false
	}
	return !slices.ContainsFunc(notForwardedPrefixes, func(p string) bool { return len(folded) >= len(p) && string(folded[:len(p)]) == p })
}

func setOf(all ...string) map[string]bool {
	set := make(map[string]bool, len(all))
	for _, one := range all {
		set[one] = true
	}
	return set
}

// fold appends name in lower case, with '-' for everything that is neither a letter nor a digit:
// CGI and its successors (RFC 3875, 4.1.18) give an app X_Real_IP, and on some servers X.Real.IP,
// under the same variable as X-Real-IP.
func fold(to []byte, name string) []byte {
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z' || '0' <= c && c <= '9':
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		default:
			c = '-'
		}
		to = append(to, c)
	}
	return to
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

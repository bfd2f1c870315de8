// Package headers tells the headers of a sender from those that a proxy adds, by their names.
package headers

import (
	"slices"
	"strings"
)

// Secret is stored and shown instead of a credential. A header with it is not forwarded.
const Secret = "<secret>"

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

// notForwardedPrefixes are the beginnings of folded names that are never passed on:
// families of the claims in notForwarded.
var notForwardedPrefixes = []string{
	"cf-", "cloudfront-", "fastly-client", "fly-", "forwarded", "proxy-", "remote-", "ssl-client-", "tls-client-",
	"true-client-", "wl-proxy-", "x-accel-", "x-amzn-mtls-", "x-amzn-oidc-", "x-appengine-", "x-arr-", "x-auth-request-",
	"x-authenticated-", "x-authentik-", "x-azure-", "x-client-ssl-", "x-cluster-", "x-envoy-", "x-forward",
	"x-goog-authenticated-", "x-goog-iap-", "x-host", "x-http-", "x-invoke-", "x-method-", "x-middleware-",
	"x-ms-client-principal", "x-ms-forwarded-", "x-ms-token-", "x-original-", "x-originating-", "x-override-",
	"x-pomerium-", "x-proxy-", "x-real-", "x-remote-", "x-rewrite-", "x-ssl-", "x-vercel-forwarded-", "x-vercel-ip-",
	"x-vercel-oidc-", "x-vercel-proxied-", "x-webauth-",
}

// ours are the beginnings of folded names that hookonce sets itself. A sender's headers may have them, too.
var ours = []string{"hookonce-", "webhook-"}

// secretWords are parts of the names of headers that pass on a credential of a proxy's user.
var secretWords = []string{"token", "jwt", "secret", "password", "assertion", "authorization", "cookie", "oidc-data", "session"}

// Credential reports whether a header by its name carries a credential of a proxy's user, as X-Forwarded-Access-Token
// and X-Amzn-Oidc-Data do. None is passed on.
func Credential(name string) bool {
	var buf [64]byte
	folded := fold(buf[:0], name)
	return claim(folded) && slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(string(folded), word) })
}

// Forwarded reports whether a header may be passed on to a destination.
func Forwarded(name string) bool {
	var buf [64]byte
	folded := fold(buf[:0], name)
	return !claim(folded) && !begins(folded, ours)
}

func claim(folded []byte) bool {
	return notForwarded[string(folded)] || begins(folded, notForwardedPrefixes)
}

func begins(folded []byte, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return len(folded) >= len(p) && string(folded[:len(p)]) == p })
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

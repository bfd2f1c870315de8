package send

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// receive sends a message to a server and returns the headers that arrived, without those of every
// request.
func receive(t *testing.T, msg *Message) http.Header {
	t.Helper()
	var got http.Header
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
	kept := make(http.Header)
	for _, fresh := range []bool{false, true} {
		target := to(url)
		target.Fresh = fresh
		if res := newSender(t).Send(t.Context(), target, msg); res.Err != nil {
			t.Fatal(res.Err)
		}
		if closes := got.Get("Connection") == "close"; closes != fresh {
			t.Errorf("fresh %v: Connection: %q", fresh, got["Connection"])
		}
		got.Del("Connection")
		got.Del("Traceparent") // differs each time; see TestTraceContinues
		if fresh && !maps.EqualFunc(got, kept, slices.Equal) {
			t.Errorf("on a connection of its own %v, on one that may be kept %v", got, kept)
		}
		kept = got
	}
	kept.Del("Content-Length")
	return kept
}

// sentBy returns headers of those names.
func sentBy(names ...string) http.Header {
	h := make(http.Header)
	for _, name := range names {
		h[name] = []string{"x"}
	}
	return h
}

func TestHeadersOfSender(t *testing.T) {
	t.Parallel()
	ours := http.Header{
		"User-Agent": {"hookonce"}, "Webhook-Id": {"msg_1"}, "Idempotency-Key": {"msg_1"}, "Hookonce-Attempt": {"1"},
	}
	tests := []struct {
		name string
		sent http.Header
		want http.Header // in addition to ours
	}{
		{name: "none"},
		{
			name: "passed on",
			sent: http.Header{
				"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}, "User-Agent": {"Stripe/1.0"},
				"Stripe-Signature": {"t=1,v1=aa"}, "X-Two": {"a", "b"}, "Accept": {"*/*"},
				"X-Empty": {""}, "X-Tab": {"a\tb"}, "X-Latin": {"caf\xe9"}, "Date": {"then"}, "X-Request-Id": {"r"},
			},
			want: http.Header{
				"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}, "User-Agent": {"Stripe/1.0"},
				"Stripe-Signature": {"t=1,v1=aa"}, "X-Two": {"a", "b"}, "Accept": {"*/*"},
				"X-Empty": {""}, "X-Tab": {"a\tb"}, "X-Latin": {"caf\xe9"}, "Date": {"then"}, "X-Request-Id": {"r"},
			},
		},
		{
			name: "hop by hop",
			sent: http.Header{
				"Connection": {"X-Hop, keep-alive", "x-hop-2"}, "X-Hop": {"1"}, "X-Hop-2": {"1"}, "X-Stays": {"1"},
				"Keep-Alive": {"timeout=5"}, "Proxy-Connection": {"close"}, "Proxy-Authenticate": {"x"},
				"Proxy-Authorization": {"x"}, "Te": {"trailers"}, "Trailer": {"X-T"}, "Transfer-Encoding": {"chunked"},
				"Upgrade": {"h2c"}, "Http2-Settings": {"x"}, "Expect": {"100-continue"}, "Content-Length": {"999"},
				"Accept-Encoding": {"gzip"}, "Host": {"evil.example"},
			},
			want: http.Header{"X-Stays": {"1"}},
		},
		{
			name: "authority and claims about the client",
			sent: http.Header{
				"Authorization": {"Bearer x"}, "Cookie": {"a=b"}, "Forwarded": {"for=1.2.3.4"},
				"X-Forwarded-For": {"1.2.3.4"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Anything": {"x"},
				"X-Gitlab-Token": {"<secret>"}, "X-Mixed": {"a", "<secret>"}, "X-Mentions": {"a <secret> b"},
			},
			want: http.Header{"X-Mentions": {"a <secret> b"}},
		},
		{
			name: "claims that apps believe of their own proxy",
			sent: sentBy(
				// Each is trusted by a framework, a server or a cloud's documentation.
				"X-Real-IP", "X-Real-Port", "X-Client-IP", "X-Cluster-Client-IP", "Client-IP", "True-Client-IP", "CF-Connecting-IP",
				"CF-Connecting-IPv6", "CF-IPCountry", "Cf-Access-Jwt-Assertion", "Fastly-Client-IP", "Fly-Client-IP", "Do-Connecting-Ip",
				"X-Envoy-External-Address", "X-Envoy-Original-Path", "X-Azure-ClientIP", "X-Azure-SocketIP", "X-Appengine-User-Ip",
				"X-Forwarded", "X-Forward-For", "Forwarded-For", "X-Vercel-Forwarded-For", "X-Original-Forwarded-For",
				"X-ProxyUser-Ip", "WL-Proxy-Client-IP", "WL-Proxy-SSL", "Proxy-Client-IP", "Proxy", "X-Originating-IP", "X-Remote-IP",
				"X-Remote-Addr", "X-Remote-User", "Remote-User", "Remote-Addr", "CloudFront-Viewer-Address", "X-Nf-Client-Connection-Ip",
				"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X-Original-Method",
				"X-Original-URL", "X-Original-URI", "X-Original-Host", "X-Rewrite-URL", "X-Host", "X-HTTP-Host-Override",
				"X-Arr-ClientCert", "X-Arr-SSL", "Front-End-Https", "X-Url-Scheme", "X-Scheme", "X-Script-Name", "X-Accel-Mapping",
				"X-Sendfile-Type", "X-Middleware-Subrequest", "X-Matched-Path", "Via", "Cdn-Loop", "Max-Forwards",
				"X-Ms-Client-Principal", "X-Amzn-Oidc-Identity", "X-Goog-Iap-Jwt-Assertion", "X-Auth-Request-Email",
				"X-SSL-Client-Cert", "Ssl-Client-Verify", "Client-Cert", "X-Serverless-Authorization",
				// CGI and servers like it know these under the same names.
				"X_Real_IP", "x_forwarded_for", "True_Client_IP", "X.Real.IP", "X_HTTP_Method_Override", "x_original_url", "X-Real_IP",
			),
		},
		{
			name: "names that only look like claims",
			sent: sentBy("X-Webhook-Event", "X-Goog-Channel-Id", "X-Client-Id", "Client-Id", "X-Vercel-Signature",
				"X-Realm", "X-Event-Host", "X-Amzn-Trace-Id", "X-Request-Id", "Origin"),
			want: sentBy("X-Webhook-Event", "X-Goog-Channel-Id", "X-Client-Id", "Client-Id", "X-Vercel-Signature",
				"X-Realm", "X-Event-Host", "X-Amzn-Trace-Id", "X-Request-Id", "Origin"),
		},
		{
			name: "in our name",
			sent: http.Header{
				"Webhook-Id": {"forged"}, "Webhook-Timestamp": {"1"}, "Webhook-Signature": {"v1,x"}, "Webhook-Other": {"x"},
				"Idempotency-Key": {"forged"}, "Hookonce-Source": {"forged"}, "Hookonce-Replay": {"7"}, "Hookonce-New": {"x"},
			},
		},
		{
			name: "other spellings",
			sent: http.Header{
				"webhook-id": {"forged"}, "WEBHOOK_ID": {"forged"}, "Idempotency_Key": {"forged"}, "hookonce_source": {"x"},
				"x_forwarded_for": {"x"}, "AUTHORIZATION": {"x"}, "transfer_encoding": {"x"}, "x-lower": {"kept"},
			},
			want: http.Header{"X-Lower": {"kept"}},
		},
		{
			name: "not permitted in HTTP",
			sent: http.Header{
				"": {"x"}, "X Y": {"x"}, "X:Y": {"x"}, "X\r\nY": {"x"}, ":path": {"x"}, "X-é": {"x"},
				"X-Lf": {"a\nHookonce-Source: b"}, "X-Cr": {"a\rb"}, "X-Nul": {"a\x00b"}, "X-Del": {"a\x7fb"},
				"X-Some": {"good", "bad\n"},
			},
			want: http.Header{"X-Some": {"good"}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			msg := message()
			msg.Header = tt.sent
			want := maps.Clone(ours)
			maps.Copy(want, tt.want)
			if diff := cmp.Diff(want, receive(t, msg)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestHeadersOfOurs(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		msg  Message
		want http.Header
	}{
		{
			name: "an event's first attempt",
			msg:  Message{ID: "m1", Source: "stripe", EventID: "evt_1", Type: "invoice.paid", Attempt: 1},
			want: http.Header{
				"Webhook-Id": {"m1"}, "Idempotency-Key": {"m1"}, "Hookonce-Source": {"stripe"},
				"Hookonce-Event-Id": {"evt_1"}, "Hookonce-Event-Type": {"invoice.paid"}, "Hookonce-Attempt": {"1"},
			},
		},
		{
			name: "a replay",
			msg:  Message{ID: "m2", Source: "s", EventID: "1", Attempt: 12, Generation: 3},
			want: http.Header{
				"Webhook-Id": {"m2"}, "Idempotency-Key": {"m2"}, "Hookonce-Source": {"s"},
				"Hookonce-Event-Id": {"1"}, "Hookonce-Attempt": {"12"}, "Hookonce-Replay": {"3"},
			},
		},
		{
			name: "values that HTTP does not carry",
			msg:  Message{ID: "m3", EventID: " é%\r\nX: a b+c ", Type: "\xff\x00\x7f", Attempt: 1},
			want: http.Header{
				"Webhook-Id": {"m3"}, "Idempotency-Key": {"m3"},
				"Hookonce-Event-Id": {"%20%C3%A9%25%0D%0AX: a b+c%20"}, "Hookonce-Event-Type": {"%FF%00%7F"}, "Hookonce-Attempt": {"1"},
			},
		},
		{
			name: "a type without measure",
			msg:  Message{ID: "m4", EventID: strings.Repeat("é", 127), Type: strings.Repeat("t", 1025), Attempt: 1},
			want: http.Header{
				"Webhook-Id": {"m4"}, "Idempotency-Key": {"m4"},
				"Hookonce-Event-Id": {strings.Repeat("%C3%A9", 127)}, "Hookonce-Attempt": {"1"},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := receive(t, &tt.msg)
			got.Del("User-Agent")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

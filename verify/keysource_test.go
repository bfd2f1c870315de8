package verify_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookonce/hookonce/verify"
)

// withKeys returns the scheme with the given Keys.
func withKeys(s verify.Scheme, keys verify.KeySource) verify.Scheme {
	s.Keys = &keys
	return s
}

// namedKeys returns a signature scheme whose requests name their key in a header.
func namedKeys(keys verify.KeySource) verify.Scheme {
	s := withKeys(signatureScheme("ecdsa-p256-sha256"), keys)
	s.KeyID = "header:X-Key-Id"
	return s
}

// The patterns of Amazon SNS, PayPal and Adobe I/O Events.
var (
	snsKeys = verify.KeySource{
		URLAt: "body:SigningCertURL", Host: `sns\.[a-zA-Z0-9-]{3,}\.amazonaws\.com(\.cn)?`, Path: `/[^/]+\.pem`,
		Format: verify.KeysCertificate,
	}
	payPalKeys = verify.KeySource{
		URLAt: "header:Paypal-Cert-Url", Host: `api(\.sandbox)?\.paypal\.com`, Path: `/v1/notifications/certs/[A-Za-z0-9-]+`,
		Format: verify.KeysCertificate, Chain: "messageverificationcerts.paypal.com",
	}
	adobeKeys = verify.KeySource{
		URLAt: "header:X-Path", Base: "https://static.adobeioevents.com", Host: `static\.adobeioevents\.com`,
		Path: `/prod/keys/pub-key-[0-9a-f-]+\.pem`, Format: verify.KeysPEM,
	}
)

// TestKeyRefWhere checks which addresses a request may name.
func TestKeyRefWhere(t *testing.T) {
	t.Parallel()
	sns := mustCompile(t, withKeys(signatureScheme("rsa-sha256"), snsKeys))
	payPal := mustCompile(t, withKeys(signatureScheme("rsa-sha256"), payPalKeys))
	adobe := mustCompile(t, withKeys(signatureScheme("rsa-sha256"), adobeKeys))
	const cert = "SimpleNotificationService-01d088a6f77103d0fe307c0069e40ed6.pem"
	for _, c := range []struct {
		name string
		v    *verify.Verifier
		at   string
		want string // the verdict; if valid, the URL must be Base followed by at
	}{
		{"SNS", sns, "https://sns.us-west-2.amazonaws.com/" + cert, "valid"},
		{"SNS of China", sns, "https://sns.cn-north-1.amazonaws.com.cn/" + cert, "valid"},
		{"http", sns, "http://sns.us-west-2.amazonaws.com/" + cert, "malformed"},
		{"HTTPS in capitals", sns, "HTTPS://sns.us-west-2.amazonaws.com/" + cert, "malformed"},
		{"a bucket", sns, "https://sns.us-west-2.s3.amazonaws.com/" + cert, "malformed"},
		{"a bucket in the path", sns, "https://s3.amazonaws.com/sns.us-west-2.amazonaws.com/" + cert, "malformed"},
		{"a longer host", sns, "https://sns.us-west-2.amazonaws.com.evil.example/" + cert, "malformed"},
		{"a host before", sns, "https://evil.example.sns.us-west-2.amazonaws.com/" + cert, "malformed"},
		{"another host", sns, "https://evil.example/" + cert, "malformed"},
		{"a user", sns, "https://sns.us-west-2.amazonaws.com@evil.example/" + cert, "malformed"},
		{"a user of the right host", sns, "https://me@sns.us-west-2.amazonaws.com/" + cert, "malformed"},
		{"a port", sns, "https://sns.us-west-2.amazonaws.com:443/" + cert, "malformed"},
		{"a colon without a port", sns, "https://sns.us-west-2.amazonaws.com:/" + cert, "malformed"},
		{"a query", sns, "https://sns.us-west-2.amazonaws.com/" + cert + "?a", "malformed"},
		{"an empty query", sns, "https://sns.us-west-2.amazonaws.com/" + cert + "?", "malformed"},
		{"a fragment", sns, "https://sns.us-west-2.amazonaws.com/x#" + cert, "malformed"},
		{"an empty fragment", sns, "https://sns.us-west-2.amazonaws.com/" + cert + "#", "malformed"},
		{"no PEM", sns, "https://sns.us-west-2.amazonaws.com/x.txt", "malformed"},
		{"no path", sns, "https://sns.us-west-2.amazonaws.com", "malformed"},
		{"an escaped path", sns, "https://sns.us-west-2.amazonaws.com/%61.pem", "malformed"},
		{"an escaped slash", sns, "https://sns.us-west-2.amazonaws.com/a%2fb.pem", "malformed"},
		{"a backslash", sns, `https://sns.us-west-2.amazonaws.com\@evil.example/` + cert, "malformed"},
		{"a line break", sns, "https://sns.us-west-2.amazonaws.com/\n" + cert, "malformed"},
		{"a blank before it", sns, " https://sns.us-west-2.amazonaws.com/" + cert, "malformed"},
		{"no scheme", sns, "//sns.us-west-2.amazonaws.com/" + cert, "malformed"},
		{"a letter that looks the same", sns, "https://sns.us-west-2.аmazonaws.com/" + cert, "malformed"},
		{"an address", sns, "https://169.254.169.254/" + cert, "malformed"},
		{"too long", sns, "https://sns.us-west-2.amazonaws.com/" + strings.Repeat("a", 2048) + ".pem", "malformed"},
		{"not there", sns, "", "missing"},

		{"PayPal", payPal, "https://api.paypal.com/v1/notifications/certs/CERT-360caa42", "valid"},
		{"the sandbox of PayPal", payPal, "https://api.sandbox.paypal.com/v1/notifications/certs/CERT-360caa42", "valid"},
		{"a longer host than PayPal's", payPal, "https://api.paypal.com.evil.example/v1/notifications/certs/CERT-1", "malformed"},
		{"another character for a dot", payPal, "https://apixpaypal.com/v1/notifications/certs/CERT-1", "malformed"},
		{"a path with ..", payPal, "https://api.paypal.com/v1/notifications/certs/../x", "malformed"},
		{"a second line", payPal, "https://api.paypal.com/v1/notifications/certs/CERT-1\n", "malformed"},

		{"Adobe", adobe, "/prod/keys/pub-key-0c1d-9.pem", "valid"},
		{"another host for Adobe", adobe, "https://evil.example/prod/keys/pub-key-1.pem", "malformed"},
		{"a host after the base", adobe, ".evil.example/prod/keys/pub-key-1.pem", "malformed"},
		{"a host without scheme", adobe, "//evil.example/prod/keys/pub-key-1.pem", "malformed"},
		{"a user after the base", adobe, "@evil.example/prod/keys/pub-key-1.pem", "malformed"},
		{"a port after the base", adobe, ":8443/prod/keys/pub-key-1.pem", "malformed"},
		{"another path", adobe, "/prod/keys/pub-key-1.pem/../../x.pem", "malformed"},
		{"a query after the path", adobe, "/prod/keys/pub-key-1.pem?x=/prod/keys/pub-key-1.pem", "malformed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			body := must(json.Marshal(map[string]string{"SigningCertURL": c.at}))
			req := &verify.Request{Header: http.Header{"Paypal-Cert-Url": {c.at}, "X-Path": {c.at}}, Body: body, Now: receivedAt}
			ref, err := c.v.KeyRef(req)
			wantVerdict(t, err, c.want)
			if err != nil {
				if len(c.at) > 20 && strings.Contains(err.Error(), c.at) {
					t.Errorf("the error repeats a value of the request: %v", err)
				}
				return
			}
			base := ""
			if c.v == adobe {
				base = "https://static.adobeioevents.com"
			}
			want := &verify.KeyRef{Method: "GET", URL: base + c.at, Header: http.Header{}, MaxAge: time.Hour, Named: true}
			if diff := cmp.Diff(want, ref, cmpopts.IgnoreUnexported(verify.KeyRef{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestKeyRefOfParams checks how the key's id and parameters are inserted.
func TestKeyRefOfParams(t *testing.T) {
	t.Parallel()
	plaid := namedKeys(verify.KeySource{
		URL: "https://{param:environment}.plaid.com/webhook_verification_key/get", Host: `(sandbox|production)\.plaid\.com`,
		Method: "POST", Body: `{"client_id":{param:client_id},"key_id":{kid}}`,
		Format: verify.KeysJWK, Member: "key", MaxAge: time.Minute,
	})
	plaid.Params = []verify.Param{{Name: "environment", Need: "optional"}, {Name: "client_id", Need: "optional"}}
	plaid.Values = map[string]string{"environment": "sandbox", "client_id": `a"b`}
	ebay := namedKeys(verify.KeySource{
		URL: "https://api.ebay.com/key/{kid}?v={kid}", Host: `api\.ebay\.com`, Format: verify.KeysPEM,
		Header: map[string]string{"Authorization": "Bearer {param:token}"},
	})
	ebay.Params = []verify.Param{{Name: "token", Need: "optional"}}
	ebay.Values = map[string]string{"token": "t"}
	issuer := namedKeys(verify.KeySource{URL: "{param:issuer}/.well-known/jwks.json", Host: `.*`, Format: verify.KeysJWKS})
	issuer.Params = []verify.Param{{Name: "issuer", Need: "optional"}}
	issuer.Values = map[string]string{"issuer": "https://login.example.com/"}
	of := func(address string) verify.Scheme {
		s := issuer
		s.Values = map[string]string{"issuer": address}
		return s
	}
	inside, port, user := of("http://login.example.com"), of("https://login.example.com:22"), of("https://a@login.example.com")
	ipv6 := of("https://[::1]")
	wide := namedKeys(verify.KeySource{URL: "https://keys.example.com/jwks", Host: `keys\.example\.com`, KID: "(?s).*", Format: verify.KeysJWKS})
	strict := namedKeys(verify.KeySource{
		URL: "https://keys.example.com/jwks", Host: `keys\.example\.com`, KID: "[0-9a-f]{4}|wide", Format: verify.KeysJWKS,
	})
	for _, c := range []struct {
		name   string
		scheme verify.Scheme
		kid    string
		want   string
		ref    verify.KeyRef
	}{
		{"quoted in a document", plaid, "k/1", "valid", verify.KeyRef{
			ID: "k/1", Named: true, Method: "POST", URL: "https://sandbox.plaid.com/webhook_verification_key/get", MaxAge: time.Minute,
			Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(`{"client_id":"a\"b","key_id":"k/1"}`),
		}},
		{"escaped in an address", ebay, "a/b+c=", "valid", verify.KeyRef{
			ID: "a/b+c=", Named: true, Method: "GET", URL: "https://api.ebay.com/key/a%2Fb+c=?v=a%2Fb%2Bc%3D", MaxAge: time.Hour,
			Header: http.Header{"Authorization": {"Bearer t"}},
		}},
		{"a parameter as the address", issuer, "k", "valid", verify.KeyRef{
			ID: "k", Method: "GET", URL: "https://login.example.com/.well-known/jwks.json", MaxAge: time.Hour, Header: http.Header{},
		}},
		{"a parameter with http", inside, "k", "malformed", verify.KeyRef{}},
		{"no id where one is asked for", ebay, "", "missing", verify.KeyRef{}},
		{"a path with ..", ebay, "..", "malformed", verify.KeyRef{}},
		{"a path with .. later", ebay, "a/../b", "malformed", verify.KeyRef{}},
		{"two dots", plaid, "a..b", "malformed", verify.KeyRef{}},
		{"a control character, by a pattern that has it", wide, "a\tb", "malformed", verify.KeyRef{}},
		{"a letter outside of ASCII, by a pattern that has it", wide, "é", "malformed", verify.KeyRef{}},
		{"a parameter with a port", port, "k", "malformed", verify.KeyRef{}},
		{"a parameter with a user", user, "k", "malformed", verify.KeyRef{}},
		{"a parameter with an address of IPv6", ipv6, "k", "malformed", verify.KeyRef{}},
		{"a blank", ebay, "a b", "malformed", verify.KeyRef{}},
		{"a question mark", ebay, "a?b", "malformed", verify.KeyRef{}},
		{"an escape", ebay, "a%2fb", "malformed", verify.KeyRef{}},
		{"a quote", plaid, `a"`, "malformed", verify.KeyRef{}},
		{"long", ebay, strings.Repeat("a", 129), "malformed", verify.KeyRef{}},
		{"by its own pattern", strict, "0af9", "valid", verify.KeyRef{
			ID: "0af9", Method: "GET", URL: "https://keys.example.com/jwks", MaxAge: time.Hour, Header: http.Header{},
		}},
		{"longer than its pattern", strict, "0af9a", "malformed", verify.KeyRef{}},
		{"one side of its pattern", strict, "widex", "malformed", verify.KeyRef{}},
		{"a trailing line break", strict, "0af9\n", "malformed", verify.KeyRef{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			req := &verify.Request{Header: http.Header{"X-Key-Id": {c.kid}}, Now: receivedAt}
			ref, err := mustCompile(t, c.scheme).KeyRef(req)
			wantVerdict(t, err, c.want)
			if err == nil {
				if diff := cmp.Diff(&c.ref, ref, cmpopts.IgnoreUnexported(verify.KeyRef{})); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

// TestKeyRefOfToken checks that KeyRef refuses a token that cannot be valid.
func TestKeyRefOfToken(t *testing.T) {
	t.Parallel()
	keys := verify.KeySource{URL: "https://keys.example.com/{kid}", Host: `keys\.example\.com`, Format: verify.KeysJWK}
	v := mustCompile(t, withKeys(tokenScheme("ES256"), keys))
	detached := mustCompile(t, withKeys(detachedScheme("ecdsa-p256-sha256"), keys))
	for _, c := range []struct{ name, token, want string }{
		{"unchanged", segment(`{"alg":"ES256","kid":"k1"}`) + ".." + segment("s"), "valid"},
		{"another algorithm", segment(`{"alg":"HS256","kid":"k1"}`) + ".." + segment("s"), "malformed"},
		{"none", segment(`{"alg":"none","kid":"k1"}`) + "..", "malformed"},
		{"no id", segment(`{"alg":"ES256"}`) + ".." + segment("s"), "missing"},
		{"a path with ..", segment(`{"alg":"ES256","kid":"../x"}`) + ".." + segment("s"), "malformed"},
		{"no token", "x", "malformed"},
		{"nothing", "", "missing"},
	} {
		for _, v := range []*verify.Verifier{v, detached} {
			ref, err := v.KeyRef(&verify.Request{Header: http.Header{"X-Sig": {c.token}}, Now: receivedAt})
			wantVerdict(t, err, c.want)
			if err == nil && (ref.ID != "k1" || ref.URL != "https://keys.example.com/k1") {
				t.Errorf("%s: %+v", c.name, ref)
			}
		}
	}
}

// TestKeysThatAreNotFetched checks the results for schemes whose keys cannot be fetched.
func TestKeysThatAreNotFetched(t *testing.T) {
	t.Parallel()
	v := mustCompile(t, signatureScheme("ed25519"))
	if ref, err := v.KeyRef(&verify.Request{}); ref != nil || err != nil || v.FetchesKeys() {
		t.Errorf("without keys: %v, %v, %t", ref, err, v.FetchesKeys())
	}
	if _, err := v.ParseFetched(&verify.KeyRef{}, nil); err == nil {
		t.Error("ParseFetched works for a scheme without keys")
	}
	s := withKeys(signatureScheme("ed25519"), verify.KeySource{
		URL: "https://keys.example.com/{param:region}", Host: `keys\.example\.com`, Format: verify.KeysJWKS,
		Header: map[string]string{"X-Key": "{param:key}"},
	})
	s.Params = []verify.Param{{Name: "key", Need: "optional"}, {Name: "other", Need: "optional"}, {Name: "region", Need: "optional"}}
	for _, c := range []struct {
		values map[string]string
		unset  string
	}{{nil, "key"}, {map[string]string{"key": "k"}, "region"}, {map[string]string{"key": "k", "region": "eu"}, ""}} {
		s.Values = c.values
		v := mustCompile(t, s)
		_, err := v.KeyRef(&verify.Request{Now: receivedAt})
		unset := ""
		if p := s.Keys.Unset(&s); p != nil {
			unset = p.Name
		}
		if unset != c.unset || v.FetchesKeys() != (c.unset == "") || errors.Is(err, verify.ErrNoKeys) != (c.unset != "") {
			t.Errorf("%v: unset %q, fetches %t, %v", c.values, unset, v.FetchesKeys(), err)
		}
	}
}

func TestKeySourceFaults(t *testing.T) {
	t.Parallel()
	good := verify.KeySource{URL: "https://keys.example.com/{kid}", Host: `keys\.example\.com`, Format: verify.KeysJWKS}
	wantFaults(t, func() verify.Scheme { return withKeys(tokenScheme("RS256"), good) }, []fault{
		{"nowhere", func(s *verify.Scheme) { s.Keys.URL = "" }, []string{"keys.url"}},
		{"two places", func(s *verify.Scheme) { s.Keys.URLAt = "header:X" }, []string{"keys.url_at"}},
		{"http", func(s *verify.Scheme) { s.Keys.URL = "http://keys.example.com/" }, []string{"keys.url"}},
		{"an id in the host", func(s *verify.Scheme) { s.Keys.URL = "https://{kid}.example.com/" }, []string{"keys.url"}},
		{"no host", func(s *verify.Scheme) { s.Keys.Host = "" }, []string{"keys.host"}},
		{"an invalid pattern", func(s *verify.Scheme) { s.Keys.Host = "(" }, []string{"keys.host"}},
		{"a pattern that leaves its parentheses", func(s *verify.Scheme) { s.Keys.Host = "a)|(b" }, []string{"keys.host"}},
		{"no format", func(s *verify.Scheme) { s.Keys.Format = "" }, []string{"keys.format"}},
		{"an unknown format", func(s *verify.Scheme) { s.Keys.Format = "der" }, []string{"keys.format"}},
		{"an unknown method", func(s *verify.Scheme) { s.Keys.Method = "PUT" }, []string{"keys.method"}},
		{"a body with GET", func(s *verify.Scheme) { s.Keys.Body = "{}" }, []string{"keys.body"}},
		{"an unknown parameter", func(s *verify.Scheme) { s.Keys.URL += "?{param:x}" }, []string{"keys.url"}},
		{"an invalid header name", func(s *verify.Scheme) { s.Keys.Header = map[string]string{"a b": ""} }, []string{"keys.header"}},
		{"a line break in a header", func(s *verify.Scheme) { s.Keys.Header = map[string]string{"A": "a\nb"} }, []string{"keys.header"}},
		{"a hole in the member", func(s *verify.Scheme) { s.Keys.Member = "a..b" }, []string{"keys.member"}},
		{"a chain of a JWK", func(s *verify.Scheme) { s.Keys.Chain = "example.com" }, []string{"keys.chain"}},
		{"a negative age", func(s *verify.Scheme) { s.Keys.MaxAge = -1 }, []string{"keys.max_age"}},
		{"a base without place", func(s *verify.Scheme) { s.Keys.Base = "https://a.example.com" }, []string{"keys.base"}},
		{"a base with a path", func(s *verify.Scheme) {
			s.Keys.URL, s.Keys.URLAt, s.Keys.Base, s.Keys.Path = "", "header:X", "https://a.example.com/b", "x"
		}, []string{"keys.base"}},
		{"a base with a query", func(s *verify.Scheme) {
			s.Keys.URL, s.Keys.URLAt, s.Keys.Base, s.Keys.Path = "", "header:X", "https://a.example.com?b", "x"
		}, []string{"keys.base"}},
		{"any path", func(s *verify.Scheme) {
			s.Keys.URL, s.Keys.URLAt, s.Keys.Base = "", "header:X", "https://a.example.com"
		}, []string{"keys.path"}},
		{"the whole body", func(s *verify.Scheme) { s.Keys.URL, s.Keys.URLAt = "", "body:" }, []string{"keys.url_at"}},
		{"an invalid place", func(s *verify.Scheme) { s.Keys.URL, s.Keys.URLAt = "", "query:x" }, []string{"keys.url_at"}},
	})
	for _, s := range []verify.Scheme{
		withKeys(tokenScheme("HS256"), good),
		withKeys(verify.Scheme{Family: verify.FamilyHMAC, Header: "X-Sig"}, good),
	} {
		if _, err := verify.Compile(s); err == nil {
			t.Errorf("%s: shared secrets are fetched", s.Family)
		}
	}
}

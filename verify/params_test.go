package verify_test

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/internal/locate"
	"github.com/hookonce/hookonce/verify"
)

func paramScheme() verify.Scheme {
	return verify.Scheme{
		Family: "hmac", Header: "X-Sig", Content: "{param:app}.{body}", SignatureKeys: nil,
		Timestamp: nil, Require: []verify.Requirement{{At: "header:X-Topic", Equals: "t-{param:topic}"}},
		Params: []verify.Param{
			{Name: "app", About: "the id of the app"},
			{Name: "topic", About: "the topic", Need: "source"},
			{Name: "method", About: "the method", Need: "optional", Sets: map[string]json.RawMessage{
				"sha1":   json.RawMessage(`{"algorithm":"sha1"}`),
				"concat": json.RawMessage(`{"family":"digest","algorithm":"md5","content":"{body}{secret}","weak":"MD5"}`),
				"header": json.RawMessage(`{"more_headers":["X-Sig-2"],"require":null}`),
				"broken": json.RawMessage(`{"hash":"sha1"}`),
			}},
		},
	}
}

// TestParams checks which values a parameter accepts, and which field a fault names.
func TestParams(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		values map[string]string
		want   []string // fields with faults
	}{
		{"all", map[string]string{"app": "a", "topic": "t", "method": "sha1"}, nil},
		{"only the needed one", map[string]string{"app": "a"}, nil},
		{"none", nil, []string{"params.app"}},
		{"a blank one", map[string]string{"app": " "}, []string{"params.app"}},
		{"one after a blank", map[string]string{"app": "a", "topic": " t"}, []string{"params.topic"}},
		{"an unknown one", map[string]string{"app": "a", "apq": "b"}, []string{"params.apq"}},
		{"none of the values", map[string]string{"app": "a", "method": "md5"}, []string{"params.method"}},
		{"an invalid change", map[string]string{"app": "a", "method": "broken"}, []string{"params[2].sets"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := paramScheme()
			s.Values = c.values
			_, err := verify.Compile(s)
			if diff := cmp.Diff(c.want, faultyFields(t, err)); diff != "" {
				t.Errorf("faulty fields (-want +got):\n%s\n%v", diff, err)
			}
		})
	}
}

// TestParamsMissing checks that Missing lists a parameter that a source needs, and that claims and
// requirements with unset parameters are left out.
func TestParamsMissing(t *testing.T) {
	t.Parallel()
	s := paramScheme()
	s.Values = map[string]string{"app": "a"}
	without := mustCompile(t, s)
	s.Values = map[string]string{"app": "a", "topic": "x"}
	with := mustCompile(t, s)
	if got := without.Missing(); len(got) != 1 || got[0].Name != "topic" {
		t.Errorf("missing: %v, want topic", got)
	}
	if got := with.Missing(); len(got) != 0 {
		t.Errorf("missing: %v, want none", got)
	}
	if got := len(with.Params()); got != 3 {
		t.Errorf("%d params, want 3", got)
	}
	keys := mustKeys(t, without, hmacSecret)
	req := signedRequest(t, without, keys[0], "{}")
	wantVerdict(t, without.Verify(req, keys), "valid")
	wantVerdict(t, with.Verify(req, keys), "missing")
	req.Header.Set("X-Topic", "t-y")
	wantVerdict(t, with.Verify(req, keys), "mismatch")
	req.Header.Set("X-Topic", "t-x")
	wantVerdict(t, with.Verify(req, keys), "valid")
}

// TestParamsSet checks that a value changes the scheme for its own Verifier only.
func TestParamsSet(t *testing.T) {
	t.Parallel()
	s := paramScheme()
	s.MoreHeaders = slices.Clip([]string{"X-Sig-1"})
	before, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	compile := func(method string) *verify.Verifier {
		s.Values = map[string]string{"app": "a", "method": method}
		return mustCompile(t, s)
	}
	all := map[string]*verify.Verifier{"sha1": compile("sha1"), "concat": compile("concat"), "header": compile("header"), "": compile("")}
	for name, signer := range all {
		req := signedRequest(t, signer, mustKeys(t, signer, hmacSecret)[0], "{}")
		for other, v := range all {
			same := name == other || name == "header" && other == "" || name == "" && other == "header"
			if err := v.Verify(req, mustKeys(t, v, hmacSecret)); (err == nil) != same {
				t.Errorf("signed with %q, verified with %q: %v", name, other, err)
			}
		}
	}
	after, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(before), string(after)); diff != "" {
		t.Errorf("Compile has changed the scheme (-before +after):\n%s", diff)
	}
}

// TestFamilyFaults checks which fields the newer families refuse.
func TestFamilyFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		scheme verify.Scheme
		want   []string
	}{
		{"digest that does not say it is weak", verify.Scheme{Family: "digest", Header: "X", Content: "{secret}{body}"}, []string{"weak"}},
		{"digest without the secret", verify.Scheme{Family: "digest", Weak: "x", Header: "X", Content: "{body}"}, []string{"content"}},
		{"secret in an hmac", verify.Scheme{Family: "hmac", Header: "X", Content: "{secret}{body}"}, []string{"content"}},
		{"signature without an algorithm", verify.Scheme{Family: "signature", Header: "X"}, []string{"algorithm"}},
		{"signature by a hash", verify.Scheme{Family: "signature", Header: "X", Algorithm: "sha256"}, []string{"algorithm"}},
		{"signature with a secret's encoding", verify.Scheme{Family: "signature", Header: "X", Algorithm: "ed25519", SecretEncoding: "hex"}, []string{"secret_encoding"}},
		{"hmac with keys to fetch", verify.Scheme{Family: "hmac", Header: "X", Keys: &verify.KeySource{}, KeyID: "header:K"}, []string{"key_id", "keys"}},
		{"the same header twice", verify.Scheme{Family: "hmac", Header: "X-A", MoreHeaders: []string{"x-a"}}, []string{"more_headers[0]"}},
		{"more headers with invalid names", verify.Scheme{Family: "hmac", Header: "X-A", MoreHeaders: []string{"", "a b"}}, []string{"more_headers[0]", "more_headers[1]"}},
		{"header and place", verify.Scheme{Family: "hmac", Header: "X-A", At: "form:sig"}, []string{"at"}},
		{"place in a header", verify.Scheme{Family: "hmac", At: "header:X"}, []string{"at"}},
		{"two places", verify.Scheme{Family: "hmac", At: "form:a | form:b"}, []string{"at"}},
		{"place in items without a batch", verify.Scheme{Family: "hmac", At: "item:sig"}, []string{"at"}},
		{"the body as signature", verify.Scheme{Family: "hmac", At: "body:"}, []string{"at", "content"}},
		{"a signature within the signed bytes", verify.Scheme{Family: "hmac", At: "body:sig"}, []string{"content"}},
		{"batch and a header", verify.Scheme{Family: "hmac", Header: "X", Each: "body:a", Content: "{item:a}", Partial: "x"}, []string{"header"}},
		{"batch with a place outside of it", verify.Scheme{Family: "hmac", At: "form:a", Each: "body:a", Content: "{item:a}", Partial: "x"}, []string{"at"}},
		{"batch that hashes the body for each item", verify.Scheme{Family: "hmac", At: "item:a", Each: "body:a", Content: "{body}"}, []string{"content"}},
		{"items without a batch", verify.Scheme{Family: "hmac", Header: "X", Content: "{item:a}{body}"}, []string{"content"}},
		{"fields without partial", verify.Scheme{Family: "hmac", Header: "X", Content: "{json:a}"}, []string{"content"}},
		{"a checksum without partial", verify.Scheme{Family: "hmac", Header: "X", Content: "{crc32:body}"}, []string{"content"}},
		{"a checksum with partial", verify.Scheme{Family: "hmac", Header: "X", Content: "{crc32:body}", Partial: "the body"}, nil},
		{"the url without partial", verify.Scheme{Family: "hmac", Header: "X", Content: "{url}"}, []string{"content"}},
		{"a required hash that is not signed", verify.Scheme{Family: "hmac", Header: "X", Content: "{url}", Require: []verify.Requirement{
			{At: "header:Hash", Equals: "{sha256:body}"},
		}}, []string{"content"}},
		{"a required hash that is signed", verify.Scheme{Family: "hmac", Header: "X", Content: "{header:Hash}", Require: []verify.Requirement{
			{At: "header:Hash", Equals: "{sha256:body}"},
		}}, nil},
		{"a requirement of nothing", verify.Scheme{Family: "hmac", Header: "X", Require: []verify.Requirement{{At: "x"}}}, []string{"require[0].at", "require[0].equals"}},
		{"a parameter that is not declared", verify.Scheme{Family: "hmac", Header: "X", Content: "{param:a}{body}"}, []string{"content"}},
		{"any port without a url", verify.Scheme{Family: "hmac", Header: "X", AnyPort: true}, []string{"any_port"}},
		{"groups without a time", verify.Scheme{Family: "hmac", Header: "X", Format: "groups", SignatureKeys: []string{"a"}}, []string{"format"}},
		{"groups with a time elsewhere", verify.Scheme{
			Family: "hmac", Header: "X", Format: "groups", SignatureKeys: []string{"a"}, Content: "{timestamp}{body}", Timestamp: at("header:T", ""),
		}, []string{"timestamp.at"}},
		{"list with the time in its middle", verify.Scheme{
			Family: "hmac", Header: "X", Format: "list", Content: "{timestamp}{body}", Timestamp: at("header:X#1", ""),
		}, []string{"timestamp.at"}},
		{"the time in one of several headers", verify.Scheme{
			Family: "hmac", Header: "X", MoreHeaders: []string{"Y"}, Format: "kv", SignatureKeys: []string{"a"}, Content: "{timestamp}{body}", Timestamp: at("header:X#t", ""),
		}, []string{"timestamp.at"}},
		{"pairs of a parameter that may be missing", verify.Scheme{
			Family: "hmac", Header: "X", Format: "pairs", SignatureKeys: []string{"id"}, Params: []verify.Param{{Name: "id", Need: "optional"}},
		}, []string{"signature_keys"}},
		{"pairs without a parameter", verify.Scheme{Family: "hmac", Header: "X", Format: "pairs", SignatureKeys: []string{"id"}}, []string{"signature_keys"}},
		{"json without a member", verify.Scheme{Family: "hmac", Header: "X", Format: "json"}, []string{"signature_keys"}},
		{"separator of two characters", verify.Scheme{Family: "hmac", Header: "X", Format: "list", Separator: ", "}, []string{"separator"}},
		{"separator without a list", verify.Scheme{Family: "hmac", Header: "X", Separator: ","}, []string{"separator"}},
		{"listed headers without their time", verify.Scheme{
			Family: "hmac", Header: "X", Content: "{signed_headers}{body}", Timestamp: at("header:T", ""),
		}, []string{"timestamp.at"}},
		{"optional prefix without a prefix", verify.Scheme{Family: "hmac", Header: "X", PrefixOptional: true}, []string{"prefix_optional"}},
		{"token", verify.Scheme{Family: "token", Header: "X"}, nil},
		{"token nowhere", verify.Scheme{Family: "token"}, []string{"header"}},
		{"token with fields of signatures", verify.Scheme{
			Family: "token", Header: "X", Content: "{body}", Encoding: "hex", Format: "kv", Algorithm: "sha1", Timestamp: at("header:T", ""), AnyPort: true,
		}, []string{"encoding", "format", "content", "any_port", "algorithm", "timestamp"}},
		{"basic", verify.Scheme{Family: "basic"}, nil},
		{"basic with a header", verify.Scheme{Family: "basic", Header: "X", Prefix: "Basic "}, []string{"header", "prefix"}},
		{"none with a requirement", verify.Scheme{Family: "none", Require: []verify.Requirement{{At: "header:X", Equals: "1"}}}, []string{"require"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := verify.Compile(c.scheme)
			if diff := cmp.Diff(c.want, faultyFields(t, err)); diff != "" {
				t.Errorf("faulty fields (-want +got):\n%s\n%v", diff, err)
			}
		})
	}
}

// TestFamilyCovers checks which locations the newer families cover.
func TestFamilyCovers(t *testing.T) {
	t.Parallel()
	byName := map[string]*verify.Verifier{}
	for _, f := range families() {
		byName[f.name] = mustCompile(t, f.scheme)
	}
	for _, c := range []struct {
		family string
		signed []string
		not    []string
	}{
		{"list with the time", []string{"body:a", "sha256:body"}, []string{"header:X-Sig", "query:a"}},
		{"url and body", []string{"query:a", "body:a", "form:a", "item:a"}, []string{"header:A"}},
		{"any port", []string{"query:a", "body:a"}, nil},
		{"hash of the body in the url", []string{"body:a", "form:a", "item:a", "sha256:body", "query:b"}, nil},
		{"path and query", []string{"query:a", "body:a", "header:X-Time"}, nil},
		{"hash of the url", []string{"query:a", "body:a"}, nil},
		{"sorted query", []string{"query:a", "body:a"}, nil},
		{"listed headers", []string{"header:X-Contentful-Timestamp", "body:a"}, []string{"header:X-Topic"}},
		{"manifest", nil, []string{"body:a", "query:data.id", "header:X-Request-Id", "sha256:body"}},
		{"query and header", []string{"query:id", "header:X-Id", "body:a"}, []string{"query:b"}},
		// Moving a piece of a value into the next name does not change the signature.
		{"sorted form", []string{"item:a"}, []string{"body:a", "form:a", "query:a", "sha256:body", "sha256:form:a"}},
		{"php form", []string{"form:a", "sha256:form:a"}, []string{"body:a", "form:sig", "query:a", "sha256:body"}},
		{"vonage", nil, []string{"form:a", "form:sig"}},
		{"pairs", []string{"form:payload", "sha256:form:payload"}, []string{"form:a", "body:a", "form:sig", "sha256:form:a", "sha256:body"}},
		{"fields of a form", []string{"form:time"}, []string{"form:sig", "form:other", "sha256:body"}},
		{"fields of a document", []string{"body:signature.time", "body:signature.token"}, []string{"body:signature", "body:event", "item:id"}},
		{"sns", []string{"body:MessageId", "body:TopicArn"}, []string{"body:UnsubscribeURL", "body:Signature", "sha256:body"}},
		{"every item", []string{"item:id", "item:absent"}, []string{"item:rest", "outer:id", "body:list", "sha256:item"}},
		{"token", nil, []string{"body:a", "header:X-Token", "header:X-Kind"}},
		{"token in a document", nil, []string{"body:a", "body:auth.token"}},
		{"basic", nil, []string{"body:a", "header:Authorization"}},
	} {
		for want, list := range map[bool][]string{true: c.signed, false: c.not} {
			for _, text := range list {
				e, err := locate.Parse(text)
				if err != nil {
					t.Fatal(err)
				}
				if got := byName[c.family].Covers(e); got != want {
					t.Errorf("%s: Covers(%s) = %t, want %t", c.family, text, got, want)
				}
			}
		}
	}
}

// TestBasicSecret checks which texts are not user:password.
func TestBasicSecret(t *testing.T) {
	t.Parallel()
	v := mustCompile(t, verify.Scheme{Family: "basic"})
	for _, secret := range []string{"", "user", ":password", "user:", "user: ", "user:password\n"} {
		if _, err := v.ParseKey(secret); err == nil {
			t.Errorf("%q is accepted", secret)
		}
	}
}

// TestNeedsURL checks which schemes need the public URL.
func TestNeedsURL(t *testing.T) {
	t.Parallel()
	need := map[string]bool{}
	for _, f := range families() {
		if mustCompile(t, f.scheme).NeedsURL() {
			need[f.name] = true
		}
	}
	want := map[string]bool{
		"url and body": true, "any port": true, "hash of the body in the url": true, "path and query": true, "unescaped url": true,
		"hash of the url": true, "hash of the query": true, "listed headers": true, "sorted form": true,
	}
	if diff := cmp.Diff(want, need); diff != "" {
		t.Errorf("schemes that need the URL (-want +got):\n%s", diff)
	}
	token := mustCompile(t, verify.Scheme{Family: "token", Header: "X", Require: []verify.Requirement{{At: "header:Y", Equals: "{url}"}}})
	if !token.NeedsURL() {
		t.Error("a requirement with {url} does not need the URL")
	}
}

// TestPublicURL checks which URL is signed.
func TestPublicURL(t *testing.T) {
	t.Parallel()
	v := mustCompile(t, verify.Scheme{Family: "hmac", Header: "X-Sig", Content: "{url} {body}"})
	keys := mustKeys(t, v, hmacSecret)
	for _, c := range []struct{ url, query, signed, want string }{
		{"https://a.example/in", "", "https://a.example/in", "valid"},
		{"https://a.example/in", "a=1", "https://a.example/in?a=1", "valid"},
		{"https://a.example/in?a=1", "", "https://a.example/in?a=1", "malformed"},
		{"https://a.example/in?a=", "", "https://a.example/in?a=", "malformed"},
		{"https://a.example/in?a=1", "", "https://a.example/in", "malformed"},
		{"https://a.example/in?a=1", "a=%31", "https://a.example/in?a=%31", "valid"},
		{"https://a.example/in?a=1", "A=1", "https://a.example/in?A=1", "malformed"},
		{"https://a.example/in?a=1", "a=1", "https://a.example/in?a=1", "valid"},
		{"https://a.example/in?a=1", "a=2", "https://a.example/in?a=1", "malformed"},
		{"https://a.example/in?a=1", "b=2&a=1", "https://a.example/in?b=2&a=1", "valid"},
		{"https://a.example/in?a=1&b=2", "b=2&c=3&a=1", "https://a.example/in?b=2&c=3&a=1", "valid"},
		{"https://a.example/in?a=x%20y", "a=x+y&b=2", "https://a.example/in?a=x+y&b=2", "valid"},
		{"https://a.example/in?a=1&a=2", "a=2&a=1", "https://a.example/in?a=2&a=1", "valid"},
		{"https://a.example/in?a", "b=2&a", "https://a.example/in?b=2&a", "valid"},
		{"https://a.example/in?a=1", "b=2", "https://a.example/in?b=2", "malformed"},
		{"https://a.example/in?a=1", "a=1&a=2", "https://a.example/in?a=1&a=2", "malformed"},
		{"https://a.example/in?a=1", "a=1&a=1", "https://a.example/in?a=1&a=1", "malformed"},
		{"https://a.example/in?a=1&a=1", "a=1", "https://a.example/in?a=1", "malformed"},
		{"https://a.example/in?a=1", "a=1&b=%zz", "https://a.example/in?a=1&b=%zz", "malformed"},
		{"https://a.example/in?a=1", "a=1&b=2", "https://a.example/in?a=1", "mismatch"},
		{"https://a.example/in", `a={"b"`, `https://a.example/in?a={"b"`, "malformed"},
		{"", "a=1", "https://a.example/in", "no url"},
	} {
		signer := mustCompile(t, verify.Scheme{Family: "hmac", Header: "X-Sig", Content: "{param:url} {body}", Params: []verify.Param{
			{Name: "url"},
		}, Values: map[string]string{"url": c.signed}})
		req := signedRequest(t, signer, mustKeys(t, signer, hmacSecret)[0], "{}")
		req.URL, req.RawQuery = c.url, c.query
		wantVerdict(t, v.Verify(req, keys), c.want)
		if c.url == "" && !errors.Is(v.Verify(req, keys), verify.ErrNoURL) {
			t.Error("Verify does not report ErrNoURL")
		}
	}
}

// TestTwilioFormOwnQuery signs Twilio's forms to a URL with a query: a request without that query, or with another
// order of it, was signed as it was called.
func TestTwilioFormOwnQuery(t *testing.T) {
	t.Parallel()
	v := mustCompile(t, verify.Scheme{
		Family: "hmac", Header: "X-Twilio-Signature", Algorithm: "sha1", Encoding: "base64", Content: "{url}{sorted_form}", AnyPort: true,
	})
	for query, want := range map[string]string{
		"tenant=7&a=b": "valid", "a=b&tenant=7": "valid", "a=b&tenant=7&c=d": "valid", "": "malformed", "tenant=7": "malformed", "tenant=8&a=b": "malformed",
	} {
		called := strings.TrimSuffix("https://h.example/webhooks/t?"+query, "?")
		mac := hmac.New(sha1.New, []byte(hmacSecret))
		mac.Write([]byte(called + "BodyhiFrom+1"))
		header := http.Header{
			"X-Twilio-Signature": {base64.StdEncoding.EncodeToString(mac.Sum(nil))}, "Content-Type": {"application/x-www-form-urlencoded"},
		}
		req := &verify.Request{
			URL: "https://h.example/webhooks/t?tenant=7&a=b", RawQuery: query, Header: header, Body: []byte("From=%2B1&Body=hi"), Now: receivedAt,
		}
		wantVerdict(t, v.Verify(req, mustKeys(t, v, hmacSecret)), want)
	}
}

// TestTwilioOwnQuery signs Twilio's JSON requests to a URL with a query, as its libraries do: Twilio adds
// bodySHA256 to the query.
func TestTwilioOwnQuery(t *testing.T) {
	t.Parallel()
	v := mustCompile(t, verify.Scheme{
		Family: "hmac", Header: "X-Twilio-Signature", Algorithm: "sha1", Encoding: "base64", Content: "{url}", AnyPort: true,
		Require: []verify.Requirement{{At: "query:bodySHA256", Equals: "{sha256:body}"}},
	})
	const body = `{"id":"a"}`
	query := fmt.Sprintf("tenant=7&bodySHA256=%x", sha256.Sum256([]byte(body)))
	mac := hmac.New(sha1.New, []byte(hmacSecret))
	mac.Write([]byte("https://h.example/webhooks/t?" + query))
	header := http.Header{"X-Twilio-Signature": {base64.StdEncoding.EncodeToString(mac.Sum(nil))}}
	for url, want := range map[string]string{
		"https://h.example/webhooks/t?tenant=7": "valid", "https://h.example:443/webhooks/t?tenant=7": "valid",
		"https://h.example/webhooks/t": "valid", "https://h.example/webhooks/t?tenant=8": "malformed",
	} {
		req := &verify.Request{URL: url, RawQuery: query, Header: header, Body: []byte(body), Now: receivedAt}
		wantVerdict(t, v.Verify(req, mustKeys(t, v, hmacSecret)), want)
	}
}

package verify_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/internal/locate"
	"github.com/hookonce/hookonce/verify"
)

// TestCompileFaults checks which fields Compile reports, all at once.
func TestCompileFaults(t *testing.T) {
	t.Parallel()
	hmac := func(change func(*verify.Scheme)) verify.Scheme {
		s := verify.Scheme{Family: verify.FamilyHMAC, Header: "X-Sig"}
		change(&s)
		return s
	}
	timed := func(at string, change func(*verify.Scheme)) verify.Scheme {
		return hmac(func(s *verify.Scheme) {
			s.Content = "{timestamp}{body}"
			s.Timestamp = &verify.Timestamp{At: at}
			change(s)
		})
	}
	same := func(*verify.Scheme) {}
	standard := verify.Scheme{Family: verify.FamilyStandardWebhooks}
	for _, c := range []struct {
		name   string
		scheme verify.Scheme
		want   []string // fields
	}{
		{"zero", verify.Scheme{}, []string{"family"}},
		{"least", hmac(same), nil},
		{"unknown family", verify.Scheme{Family: "hmca"}, []string{"family"}},
		{"no header", verify.Scheme{Family: verify.FamilyHMAC}, []string{"header"}},
		{"header with a blank", hmac(func(s *verify.Scheme) { s.Header = "X Sig" }), []string{"header"}},
		{"everything wrong", verify.Scheme{
			Family: verify.FamilyHMAC, Header: "é", Algorithm: "md4", Encoding: "HEX", Format: "lists", SecretEncoding: "b64",
			Prefix: "\n", Content: "{foo}", Timestamp: &verify.Timestamp{At: "x", Format: "s", Tolerance: -1},
		}, []string{
			"header", "prefix", "algorithm", "encoding", "secret_encoding", "format", "content",
			"timestamp.format", "timestamp.tolerance", "timestamp.at",
		}},
		{"algorithm of the other family", hmac(func(s *verify.Scheme) { s.Algorithm = "ed25519" }), []string{"algorithm"}},
		{"kv without keys", hmac(func(s *verify.Scheme) { s.Format = "kv" }), []string{"signature_keys"}},
		{"keys without kv", hmac(func(s *verify.Scheme) { s.SignatureKeys = []string{"v1"} }), []string{"signature_keys"}},
		{
			"keys that are none", hmac(func(s *verify.Scheme) { s.Format, s.SignatureKeys = "kv", []string{"", "a b", "a=", "a,b"} }),
			[]string{"signature_keys", "signature_keys", "signature_keys", "signature_keys"},
		},
		{"comma in a kv prefix", hmac(func(s *verify.Scheme) {
			s.Format, s.SignatureKeys, s.Prefix = "kv", []string{"s"}, "a,"
		}), []string{"prefix"}},
		{"content without the body", hmac(func(s *verify.Scheme) { s.Content = "body" }), []string{"content"}},
		{"content with {id}", hmac(func(s *verify.Scheme) { s.Content = "{id}.{body}" }), []string{"content"}},
		{"content with an open brace", hmac(func(s *verify.Scheme) { s.Content = "{body" }), []string{"content"}},
		{"content with a lone brace", hmac(func(s *verify.Scheme) { s.Content = "{body}}" }), []string{"content"}},
		{"content with braces in braces", hmac(func(s *verify.Scheme) { s.Content = "{{body}}" }), []string{"content"}},
		{"content with an unknown escape", hmac(func(s *verify.Scheme) { s.Content = `{body}\t` }), []string{"content"}},
		{"two free values", hmac(func(s *verify.Scheme) {
			s.Content, s.Each, s.At, s.Header = "{item_free:a}:{item_free:b}", "body:list", "item:sig", ""
		}), []string{"content"}},
		{"content with a bad header", hmac(func(s *verify.Scheme) { s.Content = "{header:}{body}" }), []string{"content"}},
		{"{timestamp} without a place", hmac(func(s *verify.Scheme) { s.Content = "{timestamp}{body}" }), []string{"content"}},
		{"a time", timed("header:X-Time", same), nil},
		{"a time in a list of its own", timed("header:X-Other#t", same), nil},
		{"a signed header as time", timed("header:X-Time", func(s *verify.Scheme) { s.Content = "{header:x-time}{body}" }), nil},
		{"a time that is not signed", timed("header:X-Time", func(s *verify.Scheme) { s.Content = "" }), []string{"timestamp.at"}},
		{"a time nowhere", timed("", same), []string{"timestamp.at"}},
		{"a time in the body", timed("body:t", same), nil},
		{"a time in an item without a batch", timed("item:t", same), []string{"timestamp.at"}},
		{"a time in two headers", timed("header:A | header:B", same), []string{"timestamp.at"}},
		{"a time in the plain signature", timed("header:X-Sig#t", same), []string{"timestamp.at"}},
		{"a time under the signature's key", timed("header:X-Sig#s", func(s *verify.Scheme) {
			s.Format, s.SignatureKeys = "kv", []string{"s"}
		}), []string{"timestamp.at"}},
		{"a tolerance of years", timed("header:X-Time", func(s *verify.Scheme) {
			s.Timestamp.Tolerance = 367 * 24 * time.Hour
		}), []string{"timestamp.tolerance"}},
		{"a number in a header", timed("header:X-Time", func(s *verify.Scheme) { s.Timestamp.Number = true }), []string{"timestamp.number"}},
		{"standard webhooks", standard, nil},
		{"standard webhooks with fixed fields", verify.Scheme{
			Family: verify.FamilyStandardWebhooks, Header: "a", Encoding: "hex", Prefix: "b", Format: "kv",
			SignatureKeys: []string{"c"}, Content: "{body}", Algorithm: "sha256", SecretEncoding: "x",
			Timestamp: &verify.Timestamp{At: "header:X", Format: "unix_ms", Tolerance: -1},
		}, []string{
			"header", "encoding", "prefix", "format", "signature_keys", "content",
			"timestamp.tolerance", "timestamp.format", "timestamp.at", "algorithm", "secret_encoding",
		}},
		{"ed25519 with a secret encoding", verify.Scheme{
			Family: verify.FamilyStandardWebhooks, Algorithm: "ed25519", SecretEncoding: "raw",
		}, []string{"secret_encoding"}},
		{"a document in a form", verify.Scheme{Family: verify.FamilyHMAC, Document: "form:json", At: "body:a", Content: "{json:b}", Partial: "c"}, nil},
		{"a document in a header", verify.Scheme{Family: verify.FamilyHMAC, Document: "header:a", Header: "a"}, []string{"document"}},
		{"a document of a token", verify.Scheme{Family: verify.FamilyToken, Document: "form:json", At: "query:a"}, []string{"document"}},
		{"none", verify.Scheme{Family: verify.FamilyNone}, nil},
		{"none with anything", verify.Scheme{
			Family: verify.FamilyNone, Header: "a", Algorithm: "b", SecretEncoding: "c", Timestamp: &verify.Timestamp{},
		}, []string{"header", "algorithm", "secret_encoding", "timestamp"}},
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

func faultyFields(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		t.Fatalf("%v is not joined", err)
	}
	var fields []string
	for _, fault := range joined.Unwrap() {
		var f *verify.FieldError
		if !errors.As(fault, &f) || !strings.HasPrefix(f.Error(), f.Field+": ") || f.Problem == "" {
			t.Fatalf("%v is not a *FieldError with a text", fault)
		}
		fields = append(fields, f.Field)
	}
	return fields
}

// TestCompileKeepsNothing checks that changing a scheme after Compile does not affect the Verifier.
func TestCompileKeepsNothing(t *testing.T) {
	t.Parallel()
	s := shapes()[1]
	v := mustCompile(t, s.scheme)
	keys := mustKeys(t, v, s.secret)
	req := signedRequest(t, v, keys[0], "{}")
	s.scheme.SignatureKeys[0] = "v9"
	s.scheme.Timestamp.At, s.scheme.Timestamp.Tolerance = "header:X", time.Nanosecond
	req.Now = receivedAt.Add(time.Minute)
	wantVerdict(t, v.Verify(req, keys), "valid")
}

func TestCovers(t *testing.T) {
	t.Parallel()
	content := func(c string) verify.Scheme {
		return verify.Scheme{Family: verify.FamilyHMAC, Header: "X-Sig", Content: c}
	}
	timed := func(c, at string) verify.Scheme {
		s := content(c)
		s.Timestamp = &verify.Timestamp{At: at}
		return s
	}
	kv := shapes()[1].scheme
	standard := verify.Scheme{Family: verify.FamilyStandardWebhooks}
	for _, c := range []struct {
		name   string
		scheme verify.Scheme
		at     string
		want   bool
	}{
		{"body", content(""), "body:id", true},
		{"item", content(""), "item:id", true},
		{"a field around an item", content(""), "outer:id + item:id", true},
		{"form", content(""), "form:id", true},
		{"composite", content(""), "body:id + body:at | body:x", true},
		{"unsigned header", content(""), "header:X-Id", false},
		{"unsigned alternative", content(""), "body:id | header:X-Id", false},
		{"unsigned part", content(""), "body:id + header:X-Id", false},
		{"query", content("{url}{body}"), "query:id", true},
		{"signed header", content("{header:X-Id}.{body}"), "header:x-id", true},
		{"signed header, key in it", content("{header:X-Id}.{body}"), "header:X-Id#k", true},
		{"signed header at the end", content("{body}.{header:X-Id}"), "header:X-Id", true},
		{"header that runs into the body", content("{header:X-Id}{body}"), "header:X-Id", false},
		{"body that runs into a header", content("{body}{header:X-Id}"), "header:X-Id", false},
		{"headers that run into each other", content("{header:X-Id}{header:B}.{body}"), "header:X-Id", false},
		{"header beside the time", timed("{header:X-Id}{timestamp}{body}", "header:T"), "header:X-Id", true},
		{"the time", timed("{timestamp}.{body}", "header:T"), "header:T", true},
		{"another key than the time's", timed("{timestamp}.{body}", "header:T#t"), "header:T#u", false},
		{"the time in the signature's header", kv, "header:Stripe-Signature#t", true},
		{"the signature itself", kv, "header:Stripe-Signature#v1", false},
		{"webhook-id", standard, "header:webhook-id", true},
		{"either id", standard, "header:webhook-id | header:svix-id", true},
		{"webhook-timestamp", standard, "header:webhook-timestamp", true},
		{"webhook-signature", standard, "header:webhook-signature", false},
		{"another header", standard, "header:X-Id", false},
		{"standard body", standard, "body:id", true},
		{"none", verify.Scheme{Family: verify.FamilyNone}, "body:id", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e, err := locate.Parse(c.at)
			if err != nil {
				t.Fatal(err)
			}
			if got := mustCompile(t, c.scheme).Covers(e); got != c.want {
				t.Errorf("Covers(%s) = %t, want %t", c.at, got, c.want)
			}
		})
	}
}

func TestNeeds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		scheme    verify.Scheme
		url, keys bool
	}{
		{verify.Scheme{Family: verify.FamilyHMAC, Header: "X"}, false, true},
		{verify.Scheme{Family: verify.FamilyHMAC, Header: "X", Content: "{url}{body}"}, true, true},
		{verify.Scheme{Family: verify.FamilyStandardWebhooks}, false, true},
		{verify.Scheme{Family: verify.FamilyNone}, false, false},
	} {
		v := mustCompile(t, c.scheme)
		if v.NeedsURL() != c.url || v.NeedsKeys() != c.keys {
			t.Errorf("%+v: NeedsURL %t, NeedsKeys %t; want %t, %t", c.scheme, v.NeedsURL(), v.NeedsKeys(), c.url, c.keys)
		}
	}
}

package verify_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/internal/locate"
	"github.com/hookonce/hookonce/verify"
)

// TestDetached checks which header values are accepted as detached signatures.
func TestDetached(t *testing.T) {
	t.Parallel()
	s := detachedScheme("ed25519")
	s.Prefix, s.PrefixOptional = "jws ", true
	s.Require = []verify.Requirement{{At: "header:X-App", Equals: "app-1"}}
	v := mustCompile(t, s)
	p := pairOf(t, "jws/ed25519")
	req := &verify.Request{Header: http.Header{}, Body: []byte("{}"), Now: receivedAt}
	if err := v.Sign(req, p.signs); err != nil {
		t.Fatal(err)
	}
	good := strings.TrimPrefix(req.Header.Get("X-Sig"), "jws ")
	payload := segment(req.Header.Get("X-Time") + ".{}")
	for _, c := range []struct{ name, value, app, want string }{
		{"unchanged", "jws " + good, "app-1", "valid"},
		{"without the prefix", good, "app-1", "valid"},
		{"another prefix", "JWS " + good, "app-1", "malformed"},
		{"with its payload", strings.Replace(good, "..", "."+payload+".", 1), "app-1", "malformed"},
		{"with another payload", strings.Replace(good, "..", ".e30.", 1), "app-1", "malformed"},
		{"one dot", strings.Replace(good, "..", ".", 1), "app-1", "malformed"},
		{"of another app", good, "app-2", "mismatch"},
		{"of no app", good, "", "missing"},
		{"empty", "", "app-1", "missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			header := http.Header{"X-Sig": {c.value}, "X-Time": req.Header["X-Time"], "X-App": {c.app}}
			wantVerdict(t, v.Verify(&verify.Request{Header: header, Body: req.Body, Now: req.Now}, p.verifies), c.want)
		})
	}
	for text, want := range map[string]bool{"body:id": true, "header:X-Time": true, "header:X-App": false, "header:X-Sig": false, "query:id": false} {
		if got := v.Covers(must(locate.Parse(text))); got != want {
			t.Errorf("%s is covered: %t, want %t", text, got, want)
		}
	}
}

func TestJWSFaults(t *testing.T) {
	t.Parallel()
	wantFaults(t, func() verify.Scheme { return detachedScheme("rsa-sha256") }, []fault{
		{"no algorithm", func(s *verify.Scheme) { s.Algorithm = "" }, []string{"algorithm"}},
		{"one that JOSE does not have", func(s *verify.Scheme) { s.Algorithm = "rsa-sha1" }, []string{"algorithm"}},
		{"an encoding", func(s *verify.Scheme) { s.Encoding = "hex" }, []string{"encoding"}},
		{"a second header", func(s *verify.Scheme) { s.MoreHeaders = []string{"X-Token"} }, []string{"more_headers"}},
		{"the body is not signed", func(s *verify.Scheme) { s.Content = "{timestamp}" }, []string{"content"}},
		{"the time is not signed", func(s *verify.Scheme) { s.Content = "{body}" }, []string{"timestamp.at"}},
		{"the time in the signature", func(s *verify.Scheme) { s.Timestamp.At = "header:X-Sig" }, []string{"timestamp.at"}},
		{"a key's name of its own", func(s *verify.Scheme) { s.KeyID = "header:X-Key" }, []string{"key_id"}},
	})
}

// TestECDSAForm checks that r and s must have their exact lengths.
func TestECDSAForm(t *testing.T) {
	t.Parallel()
	p := pairOf(t, "jwt/ES256")
	req := p.signed(t, []byte("{}"), receivedAt)
	token := req.Header.Get("X-Sig")
	end := strings.LastIndexByte(token, '.') + 1
	raw := must(base64.RawURLEncoding.DecodeString(token[end:]))
	for _, bad := range [][]byte{
		append(append(append([]byte{}, raw[:32]...), 0), raw[32:]...),
		append([]byte{0}, raw...),
		append(append([]byte{0}, raw[:32]...), append([]byte{0}, raw[32:]...)...),
		make([]byte, 64),
		nil,
	} {
		req.Header.Set("X-Sig", token[:end]+octets(bad))
		wantVerdict(t, p.v.Verify(req, p.verifies), "mismatch")
	}
}

// TestTokenNeedsItsTime checks that a token is refused without the time that the scheme checks.
func TestTokenNeedsItsTime(t *testing.T) {
	t.Parallel()
	s := tokenScheme("HS256")
	for _, name := range []string{"iat", "exp"} {
		s.Timestamp = &verify.Timestamp{At: "jwt:" + name}
		v := mustCompile(t, s)
		keys := mustKeys(t, v, hmacSecret)
		for claims, want := range map[string]string{
			fmt.Sprintf(`{%s,%q:%d}`, hashOfBody, name, receivedAt.Unix()): "valid",
			fmt.Sprintf(`{%s,"nbf":%d}`, hashOfBody, receivedAt.Unix()):    "missing",
		} {
			req := &verify.Request{Header: http.Header{"X-Sig": {hs256(hmacSecret, plainHeader, claims)}}, Body: []byte("{}"), Now: receivedAt}
			wantVerdict(t, v.Verify(req, keys), want)
		}
	}
}

// TestTokenCovers checks that a claim covers a location only if all of its alternatives depend on
// it.
func TestTokenCovers(t *testing.T) {
	t.Parallel()
	s := tokenScheme("HS256")
	s.JWT.Claims = append(s.JWT.Claims, verify.Claim{Name: "url", Equals: "{sha256:url}"})
	either := tokenScheme("HS256")
	either.Partial = "the body, of some"
	either.JWT.Claims[0].Or = []string{"x"}
	for _, c := range []struct {
		scheme   verify.Scheme
		text     string
		want     bool
		needsURL bool
	}{
		{s, "body:id", true, true},
		{s, "query:id", true, true},
		{s, "body:id + query:id", true, true},
		{s, "header:X-Id", false, true},
		{s, "body:id + header:X-Id", false, true},
		{either, "body:id", false, false},
	} {
		v := mustCompile(t, c.scheme)
		if got := v.Covers(must(locate.Parse(c.text))); got != c.want || v.NeedsURL() != c.needsURL {
			t.Errorf("%s: covered %t, want %t; needs the URL: %t", c.text, got, c.want, v.NeedsURL())
		}
	}
	v := mustCompile(t, s)
	req := &verify.Request{Header: http.Header{}, Body: []byte("{}"), Now: receivedAt}
	if err := v.Sign(req, mustKeys(t, v, hmacSecret)[0]); err == nil {
		t.Error("a token over the URL was signed without a URL")
	}
}

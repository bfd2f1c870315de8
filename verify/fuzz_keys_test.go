package verify_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/hookonce/hookonce/verify"
)

// FuzzTokens verifies arbitrary tokens with every token scheme. None may pass, and every refusal of
// Verify and KeyRef must be an *Error that matches exactly one of the errors.
func FuzzTokens(f *testing.F) {
	f.Add(hs256("x", plainHeader, `{"sha256":"x"}`), []byte("{}"))
	f.Add(segment(`{"alg":"none"}`)+"."+segment(`{}`)+".", []byte(nil))
	f.Add(segment(`{"alg":"RS256","kid":"../a","crit":["b64"]}`)+"..AA", []byte("x"))
	f.Add(segment(`{"alg":"ES256","alg":"EdDSA"}`)+".."+segment("0123456789012345678901234567890123456789012345678901234567890123"), []byte("x"))
	f.Add(segment(`["EdDSA"]`)+".e30.", []byte("x"))
	for _, p := range pairs() {
		f.Add(p.signed(f, []byte("{}"), receivedAt).Header.Get("X-Sig")+"A", []byte("{}"))
	}
	keys := verify.KeySource{URL: "https://keys.example.com/{kid}", Host: `keys\.example\.com`, Format: verify.KeysJWKS}
	verifiers := map[*pair]*verify.Verifier{}
	for _, p := range pairs() {
		verifiers[p] = p.v
		if p.kind != "secret" {
			verifiers[p] = mustCompile(f, withKeys(p.scheme, keys))
		}
	}
	f.Fuzz(func(t *testing.T, token string, body []byte) {
		for p, v := range verifiers {
			req := &verify.Request{Header: http.Header{"X-Sig": {token}, "X-Time": {"1760000000"}}, Body: body, Now: receivedAt}
			oneSentinel(t, p.name, v.Verify(req, p.verifies))
			if ref, err := v.KeyRef(req); err != nil {
				oneSentinel(t, p.name, err)
			} else if ref != nil && ref.ID == "" {
				t.Fatalf("%s: got %+v without an id", p.name, ref)
			}
		}
	})
}

// oneSentinel fails unless err is an *Error that matches exactly one of the package's errors.
func oneSentinel(t *testing.T, name string, err error) {
	t.Helper()
	known := 0
	for _, sentinel := range outcomes {
		if sentinel != nil && errors.Is(err, sentinel) {
			known++
		}
	}
	var e *verify.Error
	if !errors.As(err, &e) || known != 1 {
		t.Fatalf("%s: %v matches %d sentinels, want 1", name, err, known)
	}
}

// FuzzKeys checks that no text makes ParseKey or ParseFetched panic, that requests signed with a
// parsed private key verify, and that a fetched key cannot sign.
func FuzzKeys(f *testing.F) {
	for _, name := range []string{"signature/ed25519", "signature/ecdsa-p256-sha256", "signature/rsa-sha256"} {
		key := privateKey(f, pairOf(f, name))
		for _, forms := range []map[string]string{publicForms(f, key), privateForms(f, key)} {
			for _, text := range forms {
				f.Add(text)
			}
		}
	}
	f.Add(`{"keys":[{"kty":"RSA","n":"AA","e":"AQAB","d":"AA","p":"AA","q":"AA"}]}`)
	f.Add("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----")
	var fetch []*verify.Verifier
	for _, name := range []string{"signature/ed25519", "signature/ecdsa-p256-sha256", "signature/rsa-sha256", "jwt/ES384"} {
		for _, format := range []string{verify.KeysJWKS, verify.KeysJWK, verify.KeysPEM, verify.KeysCertificate, verify.KeysSPKI} {
			fetch = append(fetch, fetching(f, pairOf(f, name), verify.KeySource{Format: format, URLAt: "header:X-Cert"}))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		req := &verify.Request{Header: http.Header{}, Body: []byte("{}"), Now: receivedAt}
		for _, p := range pairs() {
			key, err := p.v.ParseKey(text)
			if err != nil || p.v.Sign(req, key) != nil {
				continue
			}
			if err := p.v.Verify(req, []verify.Key{key}); err != nil {
				t.Fatalf("%s: %v", p.name, err)
			}
		}
		for _, v := range fetch {
			keys, err := v.ParseFetched(&verify.KeyRef{}, []byte(text))
			if err != nil {
				continue
			}
			for _, key := range keys {
				if v.Sign(req, key) == nil {
					t.Fatalf("%s was fetched and signs", text)
				}
			}
		}
	})
}

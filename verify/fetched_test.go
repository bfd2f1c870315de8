package verify_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/verify"
)

// fetching compiles a scheme with the pair's algorithm that fetches its keys.
func fetching(t testing.TB, p *pair, keys verify.KeySource) *verify.Verifier {
	t.Helper()
	keys.Host = `keys\.example\.com`
	if keys.URLAt == "" {
		keys.URL = "https://keys.example.com/x"
	} else {
		keys.Path = "/.*"
	}
	s := withKeys(p.scheme, keys)
	if s.Family == verify.FamilySignature {
		s.KeyID = "header:X-Key-Id"
	}
	return mustCompile(t, s)
}

// TestParseFetched checks the accepted forms of a fetched document, and the refused ones.
func TestParseFetched(t *testing.T) {
	t.Parallel()
	p := pairOf(t, "signature/ecdsa-p256-sha256")
	key := privateKey(t, p)
	forms := publicForms(t, key)
	public := jwk(t, key) // includes the private member
	named := func(kid string, more map[string]any) map[string]any {
		members := without(public)
		members["kid"] = kid
		for name, value := range more {
			members[name] = value
		}
		return members
	}
	set := func(keys ...any) string { return jsonText(map[string]any{"keys": keys}) }
	other := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	otherNamed := without(jwk(t, other), "d")
	otherNamed["kid"] = "k2"
	jwks, spki := verify.KeySource{Format: verify.KeysJWKS}, verify.KeySource{Format: verify.KeysSPKI}
	single := verify.KeySource{Format: verify.KeysJWK, Member: "key"}
	inDocument := verify.KeySource{Format: verify.KeysPEM, Member: "config.notifications.public_key"}
	for _, c := range []struct {
		name string
		keys verify.KeySource
		data string
		want string // valid, none, or a part of the error
	}{
		{"a set", jwks, set(otherNamed, named("k1", nil)), "valid"},
		{"a set, without ids", jwks, set(public), "valid"},
		{"a set without the id", jwks, set(otherNamed, named("k3", nil)), "none"},
		{"a set whose key has the id", jwks, set(named("k1", map[string]any{"use": "enc"}), otherNamed), "none"},
		{"an empty set", jwks, set(), "lacks an ECDSA key"},
		{"a set with a member twice", jwks, `{"keys":[],"keys":[]}`, "cannot be read"},
		{"a page", jwks, "<html>", "cannot be read"},
		{"nothing", jwks, "", "cannot be read"},
		{"too much", jwks, strings.Repeat(" ", 300<<10), "longer than"},
		{"a key", single, jsonText(map[string]any{"key": named("k1", nil), "request_id": "x"}), "valid"},
		{"a key without id", single, jsonText(map[string]any{"key": public}), "valid"},
		{"the key of another id", single, jsonText(map[string]any{"key": named("k2", nil)}), "another id"},
		{"a key that is in use", single, jsonText(map[string]any{"key": named("k1", map[string]any{"expired_at": nil})}), "valid"},
		{"a key that expires later", single, jsonText(map[string]any{"key": named("k1", map[string]any{"expired_at": receivedAt.Unix() + 1})}), "valid"},
		{"a key that has expired", single, jsonText(map[string]any{"key": named("k1", map[string]any{"expired_at": receivedAt.Unix()})}), "expired"},
		{"a key with an unreadable expiry", single, jsonText(map[string]any{"key": named("k1", map[string]any{"expired_at": "x"})}), "expired"},
		{"a key elsewhere", single, jsonText(map[string]any{"keys": public}), "no member key"},
		{"a key that is text", single, jsonText(map[string]any{"key": jsonText(public)}), "valid"},
		{"PEM in a document", inDocument, jsonText(map[string]any{"config": map[string]any{"notifications": map[string]any{"public_key": forms["PEM in one line"]}}}), "valid"},
		{"PEM that is not text", inDocument, `{"config":{"notifications":{"public_key":1}}}`, "expected PEM"},
		{"no document", inDocument, `{"config":[]}`, "cannot be read"},
		{"PEM", verify.KeySource{Format: verify.KeysPEM}, forms["PEM"], "valid"},
		{"PEM of a certificate", verify.KeySource{Format: verify.KeysPEM}, forms["certificate"], "valid"},
		{"DER", spki, forms["base64 of DER"], "valid"},
		{"DER in a document", verify.KeySource{Format: verify.KeysSPKI, Member: "data.publicKey"}, jsonText(map[string]any{"data": map[string]any{"publicKey": forms["base64 of DER"]}}), "valid"},
		{"DER that is PEM", spki, forms["PEM"], "expected PEM"},
		{"DER of another kind", spki, publicForms(t, privateKey(t, pairOf(t, "signature/rsa-sha256")))["base64 of DER"], "not an ECDSA key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := fetching(t, p, c.keys)
			req := p.signed(t, []byte("{}"), receivedAt)
			req.Header.Set("X-Key-Id", "k1")
			ref := must(v.KeyRef(req))
			keys, err := v.ParseFetched(ref, []byte(c.data))
			switch {
			case c.want == "none":
				if len(keys) > 0 || err != nil {
					t.Fatalf("got %d keys, %v, want none", len(keys), err)
				}
			case c.want != "valid":
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("got %v, want an error with %q", err, c.want)
				}
			case err != nil:
				t.Fatal(err)
			default:
				wantVerdict(t, v.Verify(req, keys), "valid")
				if err := v.Sign(req, keys[0]); err == nil {
					t.Error("a fetched key signs")
				}
				req.Header.Set("X-Key-Id", "k9")
				if err := v.Verify(req, keys); c.keys.Format != verify.KeysJWKS && err == nil {
					t.Error("the key passes as one of another id")
				}
			}
		})
	}
}

// TestParseFetchedCertificate checks when a certificate is trusted.
func TestParseFetchedCertificate(t *testing.T) {
	t.Parallel()
	p := pairOf(t, "signature/rsa-sha256")
	key := privateKey(t, p)
	newKey := func() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) }
	rootKey, foreignKey := newKey(), newKey()
	root := certificate(t, rootKey, nil, nil, "root")
	foreign := certificate(t, foreignKey, nil, nil, "root")
	const name = "keys.example.com"
	leaf := pemText("CERTIFICATE", certificate(t, key, rootKey, root, name).Raw)
	own := pemText("CERTIFICATE", certificate(t, key, nil, nil, name).Raw)
	rootText := pemText("CERTIFICATE", root.Raw)
	pool := x509.NewCertPool()
	pool.AddCert(root)
	plain := verify.KeySource{URLAt: "header:X-Cert", Format: verify.KeysCertificate}
	chained := plain
	chained.Chain = name
	for _, c := range []struct {
		name string
		keys verify.KeySource
		data string
		at   time.Duration // relative to receivedAt
		want string
	}{
		{"self-signed", plain, own, 0, "valid"},
		{"not yet", plain, own, -time.Hour - time.Second, "not valid at this time"},
		{"no longer", plain, own, time.Hour + time.Second, "not valid at this time"},
		{"no certificate", plain, p.public, 0, "not a certificate"},
		{"no PEM", plain, "x", 0, "not a certificate"},
		{"nothing in it", plain, pemText("CERTIFICATE", []byte("x")), 0, "cannot be read"},
		{"of another kind", plain, rootText, 0, "not an RSA key"},
		{"of the root", chained, leaf, 0, "valid"},
		{"of the root, with it", chained, leaf + rootText, 0, "valid"},
		{"self-signed, but a root is demanded", chained, own, 0, "not trusted"},
		{"of a foreign root", chained, pemText("CERTIFICATE", certificate(t, key, foreignKey, foreign, name).Raw) + pemText("CERTIFICATE", foreign.Raw), 0, "not trusted"},
		{"for another name", chained, pemText("CERTIFICATE", certificate(t, key, rootKey, root, "evil.example").Raw), 0, "not trusted"},
		{"for a longer name", chained, pemText("CERTIFICATE", certificate(t, key, rootKey, root, name+".evil.example").Raw), 0, "not trusted"},
		{"with a key after it", chained, leaf + p.public, 0, "not a certificate"},
		{"of the root, no longer", chained, leaf, 2 * time.Hour, "not valid at this time"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := withKeys(p.scheme, c.keys)
			s.Keys.Host, s.Keys.Path = `keys\.example\.com`, "/.*"
			v := mustCompile(t, s)
			v.TrustOnly(pool)
			req := p.signed(t, []byte("{}"), receivedAt.Add(c.at))
			req.Header.Set("X-Cert", "https://keys.example.com/c.pem")
			keys, err := v.ParseFetched(must(v.KeyRef(req)), []byte(c.data))
			if c.want != "valid" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("got %v, want an error with %q", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			wantVerdict(t, v.Verify(req, keys), "valid")
		})
	}
	// By default only the roots of the system are trusted.
	s := withKeys(p.scheme, chained)
	s.Keys.Host, s.Keys.Path = `keys\.example\.com`, "/.*"
	v := mustCompile(t, s)
	req := &verify.Request{Header: http.Header{"X-Cert": {"https://keys.example.com/c.pem"}}, Now: receivedAt}
	if _, err := v.ParseFetched(must(v.KeyRef(req)), []byte(leaf+rootText)); err == nil {
		t.Error("a root outside of the system's is trusted")
	}
}

// TestGenerateKey checks that a generated key can be parsed, signs, and differs every time.
func TestGenerateKey(t *testing.T) {
	t.Parallel()
	schemes := []verify.Scheme{
		{ID: "v1", Family: verify.FamilyStandardWebhooks},
		{ID: "v1a", Family: verify.FamilyStandardWebhooks, Algorithm: verify.AlgorithmEd25519},
		{ID: "token", Family: verify.FamilyToken, Header: "X-Token"},
		{ID: "basic", Family: verify.FamilyBasic},
		signatureScheme("ed25519"), signatureScheme("ecdsa-p256-sha1"), detachedScheme("ed25519"), tokenScheme("HS256"), tokenScheme("ES384"),
	}
	for _, encoding := range []string{"raw", "base64", "hex", "whsec", "sha1", "nfkd", "html"} {
		s := schemeFor(encoding)
		s.ID = "hmac " + encoding
		schemes = append(schemes, s)
	}
	for _, s := range schemes {
		t.Run(fmt.Sprint(s.Family, " ", s.ID), func(t *testing.T) {
			t.Parallel()
			v := mustCompile(t, s)
			private, public, err := v.GenerateKey()
			if err != nil {
				t.Fatal(err)
			}
			if (public != "") != v.PublicKey() {
				t.Errorf("public half generated: %t, PublicKey: %t", public != "", v.PublicKey())
			}
			signs := mustKeys(t, v, private)
			verifies := signs
			if public != "" {
				verifies = mustKeys(t, v, public)
			}
			if signs[0].Weak() {
				t.Error("the generated key is weak")
			}
			wantVerdict(t, v.Verify(signedRequest(t, v, signs[0], "{}"), verifies), "valid")
			again, _, err := v.GenerateKey()
			if err != nil || again == private {
				t.Errorf("the second key equals the first, or error %v", err)
			}
		})
	}
	none := mustCompile(t, verify.Scheme{Family: verify.FamilyNone})
	if private, public, err := none.GenerateKey(); private != "" || public != "" || err != nil {
		t.Errorf("FamilyNone: %q, %q, %v", private, public, err)
	}
}

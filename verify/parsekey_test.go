package verify_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/verify"
)

// privateKey returns the private key of a pair.
func privateKey(t testing.TB, p *pair) crypto.Signer {
	t.Helper()
	block, _ := pem.Decode([]byte(p.private))
	if block == nil {
		t.Fatalf("%s has no PEM", p.name)
	}
	return must(x509.ParsePKCS8PrivateKey(block.Bytes)).(crypto.Signer)
}

func pemText(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// certificate returns a certificate of key, signed by parent, or self-signed if parent is nil.
func certificate(t testing.TB, key, parentKey crypto.Signer, parent *x509.Certificate, name string) *x509.Certificate {
	t.Helper()
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: receivedAt.Add(-time.Hour), NotAfter: receivedAt.Add(time.Hour),
		IsCA: parent == nil, BasicConstraintsValid: true,
	}
	if parent == nil {
		parent, parentKey = c, key
	}
	return must(x509.ParseCertificate(must(x509.CreateCertificate(rand.Reader, c, parent, key.Public(), parentKey))))
}

// octets encodes a number for a JWK.
func octets(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// jwk returns the members of a key's JWK, including the private ones.
func jwk(t testing.TB, key crypto.Signer) map[string]any {
	t.Helper()
	switch key := key.(type) {
	case ed25519.PrivateKey:
		return map[string]any{
			"kty": "OKP", "crv": "Ed25519", "x": octets(key.Public().(ed25519.PublicKey)), "d": octets(key.Seed()),
		}
	case *rsa.PrivateKey:
		return map[string]any{
			"kty": "RSA", "n": octets(key.N.Bytes()), "e": octets(big.NewInt(int64(key.E)).Bytes()), "d": octets(key.D.Bytes()),
			"p": octets(key.Primes[0].Bytes()), "q": octets(key.Primes[1].Bytes()),
		}
	case *ecdsa.PrivateKey:
		point := must(key.PublicKey.Bytes())
		size := len(point) / 2
		return map[string]any{
			"kty": "EC", "crv": key.Params().Name, "x": octets(point[1 : 1+size]), "y": octets(point[1+size:]), "d": octets(must(key.Bytes())),
		}
	}
	t.Fatalf("no JWK of %T", key)
	return nil
}

func without(members map[string]any, names ...string) map[string]any {
	left := map[string]any{}
	for name, value := range members {
		left[name] = value
	}
	for _, name := range names {
		delete(left, name)
	}
	return left
}

func jsonText(value any) string { return string(must(json.Marshal(value))) }

// publicForms returns all texts that stand for the public half of key.
func publicForms(t testing.TB, key crypto.Signer) map[string]string {
	t.Helper()
	spki := must(x509.MarshalPKIXPublicKey(key.Public()))
	text := pemText("PUBLIC KEY", spki)
	public := without(jwk(t, key), "d", "p", "q")
	forms := map[string]string{
		"PEM":                       text,
		"PEM with blanks around":    "\n " + text + "\n\n",
		"PEM in one line":           strings.ReplaceAll(text, "\n", ""),
		"PEM with escaped breaks":   strings.ReplaceAll(text, "\n", `\n`),
		"PEM with DOS breaks":       strings.ReplaceAll(text, "\n", "\r\n"),
		"base64 of DER":             base64.StdEncoding.EncodeToString(spki),
		"base64 of DER in lines":    strings.Join(strings.Split(text, "\n")[1:len(strings.Split(text, "\n"))-2], "\n"),
		"certificate":               pemText("CERTIFICATE", certificate(t, key, nil, nil, "example.com").Raw),
		"certificate and its chain": strings.Repeat(pemText("CERTIFICATE", certificate(t, key, nil, nil, "example.com").Raw), 2),
		"JWK":                       jsonText(public),
		"JWK set":                   jsonText(map[string]any{"keys": []any{map[string]any{"kty": "oct"}, public, map[string]any{"kty": "X"}}, "other": 1}),
	}
	switch key := key.(type) {
	case *rsa.PrivateKey:
		forms["PEM of PKCS 1"] = pemText("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(&key.PublicKey))
	case ed25519.PrivateKey:
		raw := key.Public().(ed25519.PublicKey)
		forms["hexadecimal digits"] = fmt.Sprintf("%x", []byte(raw))
		forms["base64"] = base64.StdEncoding.EncodeToString(raw)
		forms["base64url"] = octets(raw)
		forms["whpk_"] = "whpk_" + base64.StdEncoding.EncodeToString(raw)
	}
	return forms
}

// privateForms returns all texts that stand for a private key.
func privateForms(t testing.TB, key crypto.Signer) map[string]string {
	t.Helper()
	der := must(x509.MarshalPKCS8PrivateKey(key))
	forms := map[string]string{
		"PEM": pemText("PRIVATE KEY", der), "JWK": jsonText(jwk(t, key)), "base64 of DER": base64.StdEncoding.EncodeToString(der),
	}
	switch key := key.(type) {
	case *rsa.PrivateKey:
		forms["PEM of PKCS 1"] = pemText("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key))
	case *ecdsa.PrivateKey:
		forms["PEM of SEC 1"] = pemText("EC PARAMETERS", []byte{6, 8, 42, 134, 72, 206, 61, 3, 1, 7}) +
			pemText("EC PRIVATE KEY", must(x509.MarshalECPrivateKey(key)))
	case ed25519.PrivateKey:
		forms["whsk_"] = "whsk_" + base64.StdEncoding.EncodeToString(key.Seed())
	}
	return forms
}

// TestKeyForms checks that all forms of a key give the same key.
func TestKeyForms(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"signature/ed25519", "signature/ecdsa-p256-sha256", "signature/rsa-sha256", "jwt/ES384", "jwt/ES512"} {
		p := pairOf(t, name)
		key := privateKey(t, p)
		for form, private := range privateForms(t, key) {
			req := p.signed(t, []byte("{}"), receivedAt)
			if err := p.v.Sign(req, mustKeys(t, p.v, private)[0]); err != nil {
				t.Errorf("%s: %s does not sign: %v", name, form, err)
			}
			wantVerdict(t, p.v.Verify(req, p.verifies), "valid")
			wantVerdict(t, p.v.Verify(req, mustKeys(t, p.v, private)), "valid")
		}
		for form, public := range publicForms(t, key) {
			keys := mustKeys(t, p.v, public)
			if err := p.v.Verify(p.signed(t, []byte("{}"), receivedAt), keys); err != nil {
				t.Errorf("%s: %s: %v", name, form, err)
			}
			if err := p.v.Sign(&verify.Request{Now: receivedAt}, keys[0]); err == nil {
				t.Errorf("%s: %s signs", name, form)
			}
		}
	}
}

// TestKeyRefused checks which texts are not keys of a scheme, the error for each, and that no error
// repeats the key.
func TestKeyRefused(t *testing.T) {
	t.Parallel()
	rsaPair, edPair, ecPair := pairOf(t, "signature/rsa-sha256"), pairOf(t, "signature/ed25519"), pairOf(t, "signature/ecdsa-p256-sha256")
	rsaKey, edKey, ecKey := privateKey(t, rsaPair), privateKey(t, edPair), privateKey(t, ecPair)
	p384 := must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))
	ec, ed, rs := jwk(t, ecKey), jwk(t, edKey), jwk(t, rsaKey)
	with := func(members map[string]any, name string, value any) string {
		changed := without(members)
		changed[name] = value
		return jsonText(changed)
	}
	for _, c := range []struct {
		name, pair, text, want string
	}{
		{"empty", edPair.name, "", "empty"},
		{"blank", ecPair.name, " \n", "empty"},
		{"too long", ecPair.name, strings.Repeat("A", 300<<10), "longer than"},
		{"a weak RSA key", rsaPair.name, weakRSA, "has 1024 bits"},
		{"RSA for Ed25519", edPair.name, rsaPair.public, "not an Ed25519 key"},
		{"RSA for ECDSA", ecPair.name, rsaPair.public, "not an ECDSA key of the curve P-256"},
		{"Ed25519 for RSA", rsaPair.name, edPair.public, "not an RSA key"},
		{"Ed25519 for ECDSA", ecPair.name, edPair.public, "not an ECDSA key"},
		{"the 32 bytes for RSA", rsaPair.name, publicForms(t, edKey)["base64"], "not an RSA key"},
		{"another curve", ecPair.name, pemText("PUBLIC KEY", must(x509.MarshalPKIXPublicKey(p384.Public()))), "curve P-256"},
		{"another curve as JWK", ecPair.name, jsonText(jwk(t, p384)), "curve P-256"},
		{"an encrypted key", rsaPair.name, pemText("ENCRYPTED PRIVATE KEY", []byte("x")), "encrypted"},
		{"a key in old encrypted PEM", rsaPair.name, "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----", "encrypted"},
		{"two keys", rsaPair.name, rsaPair.public + rsaPair.public, "more than one key"},
		{"a certificate and a key", rsaPair.name, publicForms(t, rsaKey)["certificate"] + rsaPair.private, "more than one key"},
		{"text after PEM", rsaPair.name, rsaPair.public + "x", "expected PEM"},
		{"PEM of something else", rsaPair.name, pemText("CERTIFICATE REQUEST", []byte("x")), "expected PEM"},
		{"PEM without content", rsaPair.name, pemText("PUBLIC KEY", nil), "expected PEM"},
		{"not base64", rsaPair.name, "hunter2-hunter2!", "expected PEM"},
		{"all zero, of small order", edPair.name, strings.Repeat("00", 32), "small order"},
		{"one, of small order", edPair.name, "01" + strings.Repeat("00", 31), "small order"},
		{"with the sign bit, of small order", edPair.name, "ec" + strings.Repeat("ff", 31), "small order"},
		{"an empty JWK set", rsaPair.name, `{"keys":[]}`, "lacks an RSA key"},
		{"a JWK set without a list", rsaPair.name, `{"keys":{}}`, "no list"},
		{"a JWK set of other kinds", rsaPair.name, jsonText(map[string]any{"keys": []any{ec, ed}}), "not an RSA key"},
		{"a JWK set that is too large", rsaPair.name, `{"keys":[` + strings.Repeat(`{},`, 128) + `{}]}`, "more than 128"},
		{"a JWK of another kind", rsaPair.name, jsonText(ec), "not an RSA key"},
		{"a JWK for encryption", ecPair.name, with(ec, "use", "enc"), "not for signatures"},
		{"a JWK for another algorithm", rsaPair.name, with(rs, "alg", "PS256"), "algorithm other than"},
		{"a JWK for an unknown algorithm", rsaPair.name, with(rs, "alg", "RSA-OAEP"), "unknown algorithm"},
		{"a JWK of a secret", rsaPair.name, `{"kty":"oct","k":"c2VjcmV0"}`, "unknown kty"},
		{"a JWK with a member twice", ecPair.name, `{"kty":"EC",` + jsonText(ec)[1:], "cannot be read"},
		{"a JWK without y", ecPair.name, jsonText(without(ec, "y")), "incomplete"},
		{"a JWK off the curve", ecPair.name, with(ec, "y", ec["x"]), "incomplete"},
		{"a JWK with a short x", ecPair.name, with(ec, "x", "AA"), "incomplete"},
		{"a JWK with padding", edPair.name, with(ed, "x", fmt.Sprint(ed["x"], "=")), "incomplete"},
		{"a JWK with a number", edPair.name, with(ed, "x", 1), "incomplete"},
		{"a JWK with a long exponent", rsaPair.name, with(rs, "e", "AQAAAAAB"), "incomplete"},
		{"a JWK with an even exponent", rsaPair.name, with(without(rs, "d"), "e", "AA"), "even"},
		{"a JWK of two keys", edPair.name, with(ed, "d", octets(make([]byte, 32))), "do not belong"},
		{"an RSA JWK of two keys", rsaPair.name, with(rs, "d", octets([]byte{1})), "do not belong"},
		{"an ECDSA JWK of two keys", ecPair.name, with(ec, "d", octets(append(make([]byte, 31), 5))), "do not belong"},
		{"not JSON", rsaPair.name, `{`, "cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := pairOf(t, c.pair).v.ParseKey(c.text)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want an error with %q", err, c.want)
			}
			if secret := strings.TrimSpace(c.text); len(secret) > 6 && strings.Contains(err.Error(), secret) {
				t.Errorf("the error holds the key: %v", err)
			}
		})
	}
}

// TestParsePrivateKey checks that ParsePrivateKey accepts only keys that can sign.
func TestParsePrivateKey(t *testing.T) {
	t.Parallel()
	rsaPair, edPair := pairOf(t, "signature/rsa-sha256"), pairOf(t, "signature/ed25519")
	rsaKey := privateKey(t, rsaPair)
	hmac := must(verify.Compile(verify.Scheme{Family: verify.FamilyHMAC, Header: "X"}))
	for _, c := range []struct {
		name string
		v    *verify.Verifier
		text string
		want string // "" if the key can sign
	}{
		{"PKCS #8", rsaPair.v, rsaPair.private, ""},
		{"PKCS #1", rsaPair.v, pemText("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey.(*rsa.PrivateKey))), ""},
		{"base64 of DER", rsaPair.v, base64.StdEncoding.EncodeToString(must(x509.MarshalPKCS8PrivateKey(rsaKey))), ""},
		{"JWK", rsaPair.v, jsonText(jwk(t, rsaKey)), ""},
		{"Ed25519", edPair.v, edPair.private, ""},
		{"empty", rsaPair.v, " \n", "the key is empty"},
		{"the public half", rsaPair.v, rsaPair.public, "this is a public key, which cannot sign"},
		{"a certificate", rsaPair.v, publicForms(t, rsaKey)["certificate"], "this is a public key, which cannot sign"},
		{"of another kind", rsaPair.v, edPair.private, "not an RSA key"},
		{"encrypted", rsaPair.v, pemText("ENCRYPTED PRIVATE KEY", []byte("x")), "encrypted: decrypt it first"},
		{"no key", rsaPair.v, "hunter2-hunter2!", "expected PEM of a private key"},
		{"of a scheme without", hmac, rsaPair.private, "has no private key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			key, err := c.v.ParsePrivateKey(c.text)
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want == "":
				if err := c.v.Sign(&verify.Request{Now: receivedAt}, key); err != nil {
					t.Error(err)
				}
			case err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2"):
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

// weakRSA has 1024 bits.
const weakRSA = `-----BEGIN PUBLIC KEY-----
MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQC7VL680yY0NQA2ylM1mGG7dNqm
diOQBExrEjhn52gsXIP84FMXj31hLwTFOaV3Z4ovoaq2sK2FePikccsYS/fGhfF8
vSDxVSw2QzRWGKbK+8x7ZGQE/1jO0hAT0RyMduHkn6Il1oeW9NVDaaDY1KHsjFjc
yp5Dn57ZgpwCPBUQSwIDAQAB
-----END PUBLIC KEY-----`

// TestKeyIDs checks that a key is tried only if its id is the named one, or if it has none.
func TestKeyIDs(t *testing.T) {
	t.Parallel()
	p := pairOf(t, "jwt/ES256")
	private := jwk(t, privateKey(t, p))
	private["kid"] = "k1"
	public := func(kid string) map[string]any {
		members := without(private, "d", "kid")
		if kid != "" {
			members["kid"] = kid
		}
		return members
	}
	other := without(jwk(t, must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))), "d")
	other["kid"] = "k1"
	req := p.signed(t, []byte("{}"), receivedAt)
	if err := p.v.Sign(req, mustKeys(t, p.v, jsonText(private))[0]); err != nil {
		t.Fatal(err)
	}
	set := func(keys ...any) string { return jsonText(map[string]any{"keys": keys}) }
	for _, c := range []struct{ name, key, want string }{
		{"its own id", jsonText(public("k1")), "valid"},
		{"no id", jsonText(public("")), "valid"},
		{"another id", jsonText(public("k2")), "mismatch"},
		{"another key with the id", jsonText(other), "mismatch"},
		{"both keys with the id", set(other, public("k1")), "valid"},
		{"a set without the id", set(public("k2"), public("k3")), "mismatch"},
		{"a set with another key under the id", set(other, public("k2")), "mismatch"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			wantVerdict(t, p.v.Verify(req, mustKeys(t, p.v, c.key)), c.want)
		})
	}
	// A token that names no key may match any.
	wantVerdict(t, p.v.Verify(p.signed(t, []byte("{}"), receivedAt), mustKeys(t, p.v, set(other, public("k2")))), "valid")
}

package verify_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/verify"
)

func schemeFor(secretEncoding string) verify.Scheme {
	if secretEncoding == "ed25519" {
		return verify.Scheme{Family: verify.FamilyStandardWebhooks, Algorithm: "ed25519"}
	}
	return verify.Scheme{Family: verify.FamilyHMAC, Header: "X-Sig", SecretEncoding: secretEncoding}
}

// TestParseKeyRefuses checks which texts are not secrets, and that errors do not repeat them.
func TestParseKeyRefuses(t *testing.T) {
	t.Parallel()
	all := []string{"raw", "base64", "hex", "whsec", "ed25519"}
	for _, c := range []struct {
		name, secret string
		encodings    []string
	}{
		{"empty", "", all},
		{"blank", " \t ", all},
		{"only line breaks", "\r\n", all},
		{"bare whsec_", "whsec_", all},
		{"bare v1,whsec_", "v1,whsec_", all},
		{"bare whsec_ and a line break", "whsec_\n", all},
		{"bare whsec_ between blanks", " whsec_ ", all},
		{"a trailing line break", "c2VjcmV0LXNlY3JldC1zZWNyZXQ=\n", []string{"raw", "base64", "whsec", "hex"}},
		{"a line break inside", "c2VjcmV0\nLXNlY3JldC1zZWNyZXQ=", []string{"base64", "whsec", "hex", "ed25519"}},
		{"not base64", "hunter2-hunter2!", []string{"base64", "whsec", "hex", "ed25519"}},
		{"stray bits", "c2VjcmV0LXNlY3JldC1zZWNyZXR=", []string{"base64", "whsec"}},
		{"blank inside", "c2Vj cmV0", []string{"base64", "whsec", "hex"}},
		{"whsec_ in front of base64", "whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQ=", []string{"base64", "hex", "ed25519"}},
		{"odd hexadecimal", "abcdef0", []string{"hex", "ed25519"}},
		{"only padding", "====", []string{"base64", "whsec", "hex", "ed25519"}},
		{"whpk_ and 31 bytes", "whpk_" + base64.StdEncoding.EncodeToString(make([]byte, 31)), []string{"ed25519"}},
		{"whpk_ and 33 bytes", "whpk_" + base64.StdEncoding.EncodeToString(make([]byte, 33)), []string{"ed25519"}},
		{"whpk_ alone", "whpk_", []string{"ed25519"}},
		{"whsk_ alone", "whsk_", []string{"ed25519"}},
		{"whsk_ and 33 bytes", "whsk_" + base64.StdEncoding.EncodeToString(make([]byte, 33)), []string{"ed25519"}},
		{"whsk_ of two halves", "whsk_" + base64.StdEncoding.EncodeToString(make([]byte, 64)), []string{"ed25519"}},
		{"62 hexadecimal digits", strings.Repeat("ab", 31), []string{"ed25519"}},
		{"zero bytes", strings.Repeat("\x00", 32), []string{"raw", "sha1", "nfkd", "html"}},
		{"one zero byte", "\x00", []string{"raw", "sha1", "nfkd", "html"}},
		{"zero bytes, more than a block", strings.Repeat("\x00", 200), []string{"raw", "sha1", "nfkd", "html"}},
		{"zero bytes in base64", base64.StdEncoding.EncodeToString(make([]byte, 24)), []string{"base64", "whsec"}},
		{"zero bytes in base64 without padding", base64.RawStdEncoding.EncodeToString(make([]byte, 32)), []string{"base64", "whsec"}},
		{"whsec_ and zero bytes", "whsec_" + strings.Repeat("AAAA", 8), []string{"whsec"}},
		{"hexadecimal zeros", strings.Repeat("00", 32), []string{"hex"}},
		{"a public key", strings.TrimSpace(ecdsaPEM(t)), []string{"raw", "base64", "hex", "whsec", "sha1", "nfkd", "html"}},
		{"a public key after blanks", " " + strings.TrimSpace(ecdsaPEM(t)), []string{"raw", "sha1", "nfkd", "html"}},
		{"a certificate", "-----BEGIN CERTIFICATE-----\nMCow\n-----END CERTIFICATE-----", []string{"raw", "sha1", "nfkd", "html"}},
		{"a public key of RSA", "-----BEGIN RSA PUBLIC KEY-----\nMCow\n-----END RSA PUBLIC KEY-----", []string{"raw", "sha1", "nfkd", "html"}},
		{"PEM without an end", "-----BEGIN PUBLIC KEY-----\nMCow", []string{"ed25519"}},
		{"PEM of another kind", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})), []string{"ed25519"}},
		{"PEM of another algorithm", ecdsaPEM(t), []string{"ed25519"}},
	} {
		for _, encoding := range c.encodings {
			t.Run(c.name+"/"+encoding, func(t *testing.T) {
				t.Parallel()
				_, err := mustCompile(t, schemeFor(encoding)).ParseKey(c.secret)
				if err == nil {
					t.Fatal("the secret was accepted")
				}
				secret := strings.TrimSpace(c.secret)
				if len(secret) > 6 && strings.Contains(err.Error(), secret) {
					t.Errorf("the error holds the secret: %v", err)
				}
			})
		}
	}
}

func ecdsaPEM(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// TestParseKeyForms checks that all forms of a key give the same key.
func TestParseKeyForms(t *testing.T) {
	t.Parallel()
	raw := []byte("sixteen bytes at least")
	std := base64.StdEncoding.EncodeToString(raw)
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	spki, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	for encoding, secrets := range map[string][]string{
		"raw":    {string(raw)},
		"base64": {std, strings.TrimRight(std, "=")},
		"hex":    {fmt.Sprintf("%x", raw), fmt.Sprintf("%X", raw)},
		"whsec":  {"whsec_" + std, "v1,whsec_" + std, std, "whsec_" + strings.TrimRight(std, "=")},
		"ed25519": {
			"whsk_" + base64.StdEncoding.EncodeToString(private),
			"whsk_" + base64.StdEncoding.EncodeToString(private.Seed()),
			string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})),
			"whpk_" + base64.StdEncoding.EncodeToString(public),
			base64.StdEncoding.EncodeToString(public),
			fmt.Sprintf("%x", []byte(public)),
			fmt.Sprintf(" %X\n", []byte(public)),
			string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: spki})),
		},
	} {
		v := mustCompile(t, schemeFor(encoding))
		req := signedRequest(t, v, mustKeys(t, v, secrets[0])[0], "{}")
		for i, secret := range secrets {
			if err := v.Verify(req, mustKeys(t, v, secret)); err != nil {
				t.Errorf("%s, form %d: %v", encoding, i, err)
			}
		}
	}
}

func TestWeak(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		encoding, secret string
		want             bool
	}{
		{"raw", "fifteen bytes !", true},
		{"raw", "sixteen bytes !!", false},
		{"hex", "00112233445566778899aabbccddee", true},
		{"hex", "00112233445566778899aabbccddeeff", false},
		{"whsec", "whsec_c2VjcmV0", true},
		{"sha1", "fifteen bytes !", true},
		{"sha1", "sixteen bytes !!", false},
		{"ed25519", "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=", false},
	} {
		v := mustCompile(t, schemeFor(c.encoding))
		if got := mustKeys(t, v, c.secret)[0].Weak(); got != c.want {
			t.Errorf("%s: %t, want %t", c.encoding, got, c.want)
		}
	}
	basic := mustCompile(t, verify.Scheme{Family: verify.FamilyBasic})
	for secret, want := range map[string]bool{"a-long-user-name:fifteen bytes !": true, "u:sixteen bytes !!": false} {
		if got := mustKeys(t, basic, secret)[0].Weak(); got != want {
			t.Errorf("basic, %s: %t, want %t", secret, got, want)
		}
	}
	if (verify.Key{}).Weak() {
		t.Error("the zero Key is weak")
	}
}

// TestKeyNeverPrints prints keys in every way, also inside other values.
func TestKeyNeverPrints(t *testing.T) {
	t.Parallel()
	const canary = "canary-canary-canary"
	v := mustCompile(t, schemeFor("raw"))
	key := mustKeys(t, v, canary)[0]
	type holder struct {
		Key  verify.Key
		keys []verify.Key
		ptr  *verify.Key
		any  any
	}
	h := holder{key, []verify.Key{key}, &key, key}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		for _, value := range []any{key, &key, h, &h, []verify.Key{key}, map[string]verify.Key{"a": key}} {
			fmt.Fprintf(&out, verb+"\n", value)
		}
	}
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Info("x", "key", key, "ptr", &key, "holder", h, "keys", h.keys)
	}
	if err := json.NewEncoder(&out).Encode(h); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(&out, h.ptr, h.any, key.String(), key.GoString(), key.LogValue())
	for _, form := range []string{canary, fmt.Sprintf("%x", canary), fmt.Sprintf("%X", canary), fmt.Sprint([]byte(canary)), "0x63, 0x61"} {
		if strings.Contains(out.String(), form) {
			t.Errorf("the key was printed as %s", form)
		}
	}
	if !strings.Contains(out.String(), "<secret>") {
		t.Error("<secret> was not printed")
	}
}

func TestNoneVerifiesEverything(t *testing.T) {
	t.Parallel()
	v := mustCompile(t, verify.Scheme{Family: verify.FamilyNone})
	if err := v.Verify(&verify.Request{}, nil); err != nil {
		t.Error(err)
	}
	if err := v.Sign(&verify.Request{}, verify.Key{}); err != nil {
		t.Error(err)
	}
}

// TestKeyPairNeverPrints prints the keys of every algorithm.
func TestKeyPairNeverPrints(t *testing.T) {
	t.Parallel()
	for _, p := range pairs() {
		var out bytes.Buffer
		holder := struct {
			Key any
			v   *verify.Verifier
		}{p.signs, p.v}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
			fmt.Fprintf(&out, verb+verb, p.signs, holder)
		}
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "key", p.signs, "holder", holder)
		secret := []byte(p.private)
		if block, _ := pem.Decode(secret); block != nil {
			secret = block.Bytes[len(block.Bytes)-8:] // part of the private key
			switch key := privateKey(t, p).(type) {
			case ed25519.PrivateKey:
				secret = key[:8]
			case *ecdsa.PrivateKey:
				secret = must(key.Bytes())[:8]
			}
		}
		for _, form := range []string{string(secret), fmt.Sprintf("%x", secret), strings.Trim(fmt.Sprint(secret), "[]")} {
			if strings.Contains(out.String(), form) {
				t.Errorf("%s: the key was printed as %q", p.name, form)
			}
		}
	}
}

// TestHTMLSecrets signs as WooCommerce does, whose wp_specialchars_decode decodes each entity once, and
// with the secret as it is.
func TestHTMLSecrets(t *testing.T) {
	t.Parallel()
	v := mustCompile(t, verify.Scheme{Family: "hmac", Header: "X-Sig", SecretEncoding: "html"})
	raw := mustCompile(t, verify.Scheme{Family: "hmac", Header: "X-Sig"})
	for secret, signs := range map[string]string{
		"a-plain-secret-of-bytes":           "a-plain-secret-of-bytes",
		"Tom &amp; Jerry &lt;3&gt;":         "Tom & Jerry <3>",
		"&quot;it&#039;s&#x27;&#34;":        `"it's'"`,
		"&amp;lt; once, not twice":          "&lt; once, not twice",
		"&nbsp;&eacute; & others &amp":      "&nbsp;&eacute; & others &amp",
		"&#60;&#0062;&#38;&#X0026;&#34;":    `<>&&"`,
		"&#x3c;&#x3E;&AMP;&Lt;&apos; &amp;": "&#x3c;&#x3E;&AMP;&Lt;&apos; &",
	} {
		for _, with := range []string{secret, signs} {
			req := signedRequest(t, raw, mustKeys(t, raw, with)[0], "{}")
			wantVerdict(t, v.Verify(req, mustKeys(t, v, secret)), "valid")
		}
		req := signedRequest(t, v, mustKeys(t, v, secret)[0], "{}")
		wantVerdict(t, raw.Verify(req, mustKeys(t, raw, signs)), "valid")
		other := signedRequest(t, raw, mustKeys(t, raw, signs+"!")[0], "{}")
		wantVerdict(t, v.Verify(other, mustKeys(t, v, secret)), "mismatch")
	}
}

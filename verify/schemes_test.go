package verify_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/verify"
)

const (
	hmacSecret  = "a-secret-of-thirty-two-characters"
	whsecSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	whskSecret  = "whsk_6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg=="
)

var receivedAt = time.Unix(1_760_000_000, 0)

// shape is a scheme with a key that can sign, and the names of its headers.
type shape struct {
	name    string
	scheme  verify.Scheme
	secret  string
	headers []string // the headers that decide the verdict, the signature's first
}

// shapes returns one scheme of each kind.
func shapes() []shape {
	kvScheme := verify.Scheme{
		ID: "kv", Family: verify.FamilyHMAC, Header: "Stripe-Signature", Format: verify.FormatKV,
		SignatureKeys: []string{"v1"}, Content: "{timestamp}.{body}",
		Timestamp: &verify.Timestamp{At: "header:Stripe-Signature#t"},
	}
	trio := []string{"Webhook-Signature", "Webhook-Id", "Webhook-Timestamp"}
	return []shape{
		{
			"plain",
			verify.Scheme{ID: "plain", Family: verify.FamilyHMAC, Header: "X-Sig", Prefix: "sha256="},
			hmacSecret,
			[]string{"X-Sig"},
		},
		{"kv", kvScheme, hmacSecret, []string{"Stripe-Signature"}},
		{
			"separate",
			verify.Scheme{
				ID: "separate", Family: verify.FamilyHMAC, Header: "X-Sig", Encoding: verify.EncodingBase64,
				Algorithm: verify.AlgorithmSHA512, Content: "{header:X-Id}.{timestamp}.{url}.{body}",
				Timestamp: &verify.Timestamp{At: "header:X-Time", Format: verify.TimeUnixMS},
			},
			hmacSecret,
			[]string{"X-Sig", "X-Id", "X-Time"},
		},
		{
			"rfc3339",
			verify.Scheme{
				ID: "rfc3339", Family: verify.FamilyHMAC, Header: "X-Sig", Encoding: verify.EncodingBase64URL,
				Algorithm: verify.AlgorithmSHA1, Content: `{method}\n{timestamp}:{body}`,
				Timestamp: &verify.Timestamp{At: "header:X-Time", Format: verify.TimeRFC3339},
			},
			hmacSecret,
			[]string{"X-Sig", "X-Time"},
		},
		{"v1", verify.Scheme{ID: "v1", Family: verify.FamilyStandardWebhooks}, whsecSecret, trio},
		{
			"v1a",
			verify.Scheme{ID: "v1a", Family: verify.FamilyStandardWebhooks, Algorithm: verify.AlgorithmEd25519},
			whskSecret, trio,
		},
		{
			"untimed pairs",
			verify.Scheme{
				ID: "untimed", Family: verify.FamilyHMAC, Header: "X-Sig", Format: verify.FormatKV,
				SignatureKeys: []string{"s"}, Algorithm: verify.AlgorithmSHA384,
			},
			hmacSecret,
			[]string{"X-Sig"},
		},
	}
}

// signedRequest returns a request that v accepts with key.
func signedRequest(t testing.TB, v *verify.Verifier, key verify.Key, body string) *verify.Request {
	t.Helper()
	req := &verify.Request{
		Method: http.MethodPost, URL: "https://hooks.example.com/in", Body: []byte(body), Now: receivedAt,
		Header: http.Header{"X-Id": {"order-1"}, "Webhook-Id": {"msg_1"}},
	}
	if err := v.Sign(req, key); err != nil {
		t.Fatal(err)
	}
	return req
}

// TestHeadersExactlyOnce removes, empties and repeats every header that a scheme reads.
func TestHeadersExactlyOnce(t *testing.T) {
	t.Parallel()
	for _, s := range shapes() {
		v := mustCompile(t, s.scheme)
		keys := mustKeys(t, v, s.secret)
		for _, name := range s.headers {
			good := signedRequest(t, v, keys[0], `{"id":"a"}`).Header.Get(name)
			if good == "" {
				t.Fatalf("%s: Sign left %s empty", s.name, name)
			}
			for _, c := range []struct {
				name   string
				values []string
				want   string
			}{
				{"as signed", []string{good}, "valid"},
				{"absent", nil, "missing"},
				{"empty", []string{""}, "missing"},
				{"blank", []string{" \t "}, "missing"},
				{"good good", []string{good, good}, "repeated"},
				{"good bad", []string{good, "x"}, "repeated"},
				{"bad good", []string{"x", good}, "repeated"},
				{"good empty", []string{good, ""}, "repeated"},
			} {
				t.Run(s.name+"/"+name+"/"+c.name, func(t *testing.T) {
					t.Parallel()
					req := signedRequest(t, v, keys[0], `{"id":"a"}`)
					delete(req.Header, name)
					for _, value := range c.values {
						req.Header.Add(name, value)
					}
					wantVerdict(t, v.Verify(req, keys), c.want)
				})
			}
		}
	}
}

// TestSignatureForms changes the spelling of a right signature.
func TestSignatureForms(t *testing.T) {
	t.Parallel()
	s := shapes()[0]
	v := mustCompile(t, s.scheme)
	keys := mustKeys(t, v, s.secret)
	const prefix = "sha256="
	good := strings.TrimPrefix(signedRequest(t, v, keys[0], "{}").Header.Get("X-Sig"), prefix)
	for _, c := range []struct{ name, value, want string }{
		{"as signed", prefix + good, "valid"},
		{"upper case", prefix + strings.ToUpper(good), "valid"},
		{"64 zeros", prefix + strings.Repeat("0", 64), "mismatch"},
		{"cut to 31 bytes", prefix + good[:62], "malformed"},
		{"cut to 16 bytes", prefix + good[:32], "malformed"},
		{"cut to 1 byte", prefix + good[:2], "malformed"},
		{"cut to 0 bytes", prefix, "malformed"},
		{"one byte more", prefix + good + "00", "malformed"},
		{"twice", prefix + good + good, "malformed"},
		{"odd", prefix + good[:63], "malformed"},
		{"0x", prefix + "0x" + good[2:], "malformed"},
		{"not hexadecimal", prefix + "g" + good[1:], "malformed"},
		{"without prefix", good, "malformed"},
		{"prefix sha1=", "sha1=" + good, "malformed"},
		{"prefix twice", prefix + prefix + good, "malformed"},
		{"a blank after the prefix", prefix + " " + good, "malformed"},
		{"a list", prefix + good + "," + prefix + good, "malformed"},
		{"10,000 zeros", prefix + strings.Repeat("0", 10_000), "malformed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			req := signedRequest(t, v, keys[0], "{}")
			req.Header.Set("X-Sig", c.value)
			wantVerdict(t, v.Verify(req, keys), c.want)
		})
	}
}

// TestBase64Forms checks that a base64 signature has one spelling.
func TestBase64Forms(t *testing.T) {
	t.Parallel()
	v := mustCompile(t, verify.Scheme{ID: "b64", Family: verify.FamilyHMAC, Header: "X-Sig", Encoding: verify.EncodingBase64})
	keys := mustKeys(t, v, hmacSecret)
	good := signedRequest(t, v, keys[0], "{}").Header.Get("X-Sig")
	last := good[42] // 32 bytes leave two bits of it unused
	stray := string("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[strings.IndexByte(
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", last)|1])
	for name, value := range map[string]string{
		"line break instead": good[:20] + "\n" + good[21:],
		"stray bits":         good[:42] + stray + "=",
		"without padding":    good[:43],
		"more padding":       good + "=",
		"line break inside":  good[:20] + "\r\n" + good[20:],
		"line break for end": good[:42] + "\n=",
		"line feed at end":   good + "\n",
		"blank inside":       good[:20] + " " + good[20:],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := signedRequest(t, v, keys[0], "{}")
			wantVerdict(t, v.Verify(req, keys), "valid")
			req.Header.Set("X-Sig", value)
			wantVerdict(t, v.Verify(req, keys), "malformed")
		})
	}
}

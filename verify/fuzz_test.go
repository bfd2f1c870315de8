package verify_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/hookonce/hookonce/verify"
)

// FuzzHeaders verifies arbitrary headers with every scheme. Only the signed one may pass, and every
// refusal must be an *Error that matches exactly one of the package's errors.
func FuzzHeaders(f *testing.F) {
	f.Add("t=1760000000,v1=00", "1760000000", "msg_1", []byte("{}"))
	f.Add("sha256="+string(make([]byte, 64)), "2025-10-09T08:53:20Z", "a.b", []byte("[]"))
	f.Add("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= v2,x v1a,y", "0", "", []byte(nil))
	f.Add("v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg==", "1", "x", []byte("x"))
	f.Add("t=1,t=2,v1=,v1=\r\n", "99999999999999999999", " ", []byte("\xff"))
	f.Add("bm90aGluZw==", "1760000000", "x", []byte(`{"signature":{"value":"00","time":"1","token":"a"},"list":[{"id":1}]}`))
	f.Add("our-id|00&other|00", "any", "hash=1&sig=2&data.id=A", []byte("sig=our-id%7C00&payload=%26&time=1&token=a&a=b&a=%zz"))
	f.Add("eyJzaWduYXR1cmUiOiIwMCJ9", "x-contentful-signed-headers,x-contentful-timestamp", "data.id=%3B", []byte(`{"Message":"a","MessageId":"b","TopicArn":"c","Timestamp":"d","Type":"e","Signature":"00"}`))
	f.Add("1760000000000,00,00", "t=1,v1=00 t=2,v1=00", "token=a", []byte(`{"list":[]}`))
	all := compileAll(f)
	f.Fuzz(func(t *testing.T, signature, clock, id string, body []byte) {
		for _, c := range all {
			req := &verify.Request{
				Method: http.MethodPost, URL: "https://hooks.example.com/in", RawQuery: id, Body: body, Now: receivedAt,
				Header: http.Header{"X-Time": {clock}, "X-Id": {id}, "X-Version": {id}, "X-Kind": {id}, "X-Request-Id": {id}},
			}
			for _, name := range []string{"X-Sig", "Stripe-Signature", "Webhook-Signature", "X-Token", "Authorization"} {
				req.Header.Set(name, signature)
			}
			for _, name := range []string{"Webhook-Timestamp", "X-Contentful-Timestamp", "X-Contentful-Signed-Headers"} {
				req.Header.Set(name, clock)
			}
			req.Header.Set("Webhook-Id", id)
			err := c.v.Verify(req, c.keys)
			if err == nil {
				t.Fatalf("%s: a made-up signature passes", c.name)
			}
			var e *verify.Error
			known := 0
			for _, sentinel := range outcomes {
				if sentinel != nil && errors.Is(err, sentinel) {
					known++
				}
			}
			if !errors.As(err, &e) || known != 1 {
				t.Fatalf("%s: %v matches %d sentinels, want 1", c.name, err, known)
			}
		}
	})
}

// compiled is a scheme with a key.
type compiled struct {
	name string
	v    *verify.Verifier
	keys []verify.Key
}

func compileAll(t testing.TB) []compiled {
	t.Helper()
	var all []compiled
	for _, s := range shapes() {
		v := mustCompile(t, s.scheme)
		all = append(all, compiled{s.name, v, mustKeys(t, v, s.secret)})
	}
	for _, f := range families() {
		v := mustCompile(t, f.scheme)
		all = append(all, compiled{f.name, v, mustKeys(t, v, f.secret)})
	}
	return all
}

// FuzzParseKey checks that no text makes ParseKey panic, and that a parsed key signs and verifies.
func FuzzParseKey(f *testing.F) {
	for _, seed := range []string{whskSecret, whsecSecret, "whsec_", "whpk_", hmacSecret, "-----BEGIN PUBLIC KEY-----\nMCow\n-----END PUBLIC KEY-----"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, secret string) {
		for _, encoding := range []string{"raw", "base64", "hex", "whsec", "ed25519"} {
			v := mustCompile(t, schemeFor(encoding))
			key, err := v.ParseKey(secret)
			if err != nil {
				continue
			}
			req := &verify.Request{Header: http.Header{"Webhook-Id": {"a"}}, Body: []byte("{}"), Now: receivedAt}
			if err := v.Sign(req, key); err != nil {
				if encoding == "ed25519" {
					continue // a public key
				}
				t.Fatal(err)
			}
			if err := v.Verify(req, []verify.Key{key}); err != nil {
				t.Fatal(err)
			}
		}
	})
}

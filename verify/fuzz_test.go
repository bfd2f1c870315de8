package verify_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/hookonce/hookonce/verify"
)

// FuzzHeaders gives every scheme arbitrary headers. None may pass but the one
// that was signed, and every refusal is an *Error over one of the sentinels.
func FuzzHeaders(f *testing.F) {
	f.Add("t=1760000000,v1=00", "1760000000", "msg_1", []byte("{}"))
	f.Add("sha256="+string(make([]byte, 64)), "2025-10-09T08:53:20Z", "a.b", []byte("[]"))
	f.Add("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= v2,x v1a,y", "0", "", []byte(nil))
	f.Add("v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg==", "1", "x", []byte("x"))
	f.Add("t=1,t=2,v1=,v1=\r\n", "99999999999999999999", " ", []byte("\xff"))
	type compiled struct {
		shape
		v    *verify.Verifier
		keys []verify.Key
	}
	var all []compiled
	for _, s := range shapes() {
		v := mustCompile(f, s.scheme)
		all = append(all, compiled{s, v, mustKeys(f, v, s.secret)})
	}
	f.Fuzz(func(t *testing.T, signature, clock, id string, body []byte) {
		for _, c := range all {
			req := &verify.Request{
				Method: http.MethodPost, URL: "https://hooks.example.com/in", Body: body, Now: receivedAt,
				Header: http.Header{
					c.headers[0]: {signature}, "X-Time": {clock}, "Webhook-Timestamp": {clock}, "X-Id": {id}, "Webhook-Id": {id},
				},
			}
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

// FuzzParseKey holds that no text makes ParseKey panic, and that a key it
// returns signs and verifies.
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

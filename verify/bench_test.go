package verify_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/hookonce/hookonce/verify"
)

// BenchmarkVerify compares the verification of a 2 kB body with the bare HMAC.
func BenchmarkVerify(b *testing.B) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 128)
	b.Run("bare", func(b *testing.B) {
		sum := func() []byte {
			h := hmac.New(sha256.New, []byte(hmacSecret))
			h.Write(body)
			return h.Sum(nil)
		}
		text := hex.EncodeToString(sum())
		b.ReportAllocs()
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			want, err := hex.DecodeString(text)
			if err != nil || !hmac.Equal(sum(), want) {
				b.Fatal("mismatch")
			}
		}
	})
	for _, s := range shapes() {
		b.Run(s.name, func(b *testing.B) {
			v := mustCompile(b, s.scheme)
			keys := mustKeys(b, v, s.secret)
			req := signedRequest(b, v, keys[0], string(body))
			benchVerify(b, v, keys, req)
		})
	}
	b.Run("kv, two keys", func(b *testing.B) {
		s := shapes()[1]
		v := mustCompile(b, s.scheme)
		keys := []verify.Key{mustKeys(b, v, "another-secret-that-does-not-match")[0], mustKeys(b, v, s.secret)[0]}
		req := signedRequest(b, v, keys[1], string(body))
		benchVerify(b, v, keys, req)
	})
}

func benchVerify(b *testing.B, v *verify.Verifier, keys []verify.Key, req *verify.Request) {
	b.Helper()
	b.ReportAllocs()
	b.SetBytes(int64(len(req.Body)))
	for b.Loop() {
		if err := v.Verify(req, keys); err != nil {
			b.Fatal(err)
		}
	}
}

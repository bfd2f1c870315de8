package verify_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hookonce/hookonce/verify"
)

// drawRequest draws a request signed with s, and returns its key.
func drawRequest(t *rapid.T, s shape) (*verify.Verifier, []verify.Key, *verify.Request) {
	v, err := verify.Compile(s.scheme)
	if err != nil {
		t.Fatal(err)
	}
	key, err := v.ParseKey(s.secret)
	if err != nil {
		t.Fatal(err)
	}
	id := rapid.StringMatching(`[a-zA-Z0-9_-]{1,40}`).Draw(t, "id")
	req := &verify.Request{
		Method: http.MethodPost, URL: "https://hooks.example.com/in",
		Body:   rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "body"),
		Header: http.Header{"X-Id": {id}, "Webhook-Id": {id}, "X-Other": {"x"}},
		Now:    time.UnixMilli(rapid.Int64Range(1_000_000_000_000, 9_000_000_000_000).Draw(t, "now")),
	}
	if err := v.Sign(req, key); err != nil {
		t.Fatal(err)
	}
	return v, []verify.Key{key}, req
}

func drawShape(t *rapid.T) shape { return rapid.SampledFrom(shapes()).Draw(t, "shape") }

// TestSignedVerifies checks that a request from Sign verifies, over the whole tolerance.
func TestSignedVerifies(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v, keys, req := drawRequest(t, drawShape(t))
		req.Now = req.Now.Add(time.Duration(rapid.IntRange(-299, 299).Draw(t, "seconds")) * time.Second)
		if err := v.Verify(req, keys); err != nil {
			t.Fatal(err)
		}
	})
}

// TestEveryByteCounts changes single bytes of the body and of every header that the scheme reads.
// Only a change of the case of a hexadecimal digit may pass.
func TestEveryByteCounts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawShape(t)
		v, keys, req := drawRequest(t, s)
		flip := byte(1) << rapid.IntRange(0, 7).Draw(t, "bit")
		for i := range req.Body {
			req.Body[i] ^= flip
			if err := v.Verify(req, keys); !errors.Is(err, verify.ErrMismatch) {
				t.Fatalf("byte %d of the body: %v", i, err)
			}
			req.Body[i] ^= flip
		}
		for n, name := range s.headers {
			good := req.Header.Get(name)
			hexCase := n == 0 && s.scheme.Family == verify.FamilyHMAC && s.scheme.Encoding == "" && flip == 'a'^'A'
			for i := range good {
				bad := []byte(good)
				bad[i] ^= flip
				req.Header[name] = []string{string(bad)}
				if hexCase && strings.EqualFold(good, string(bad)) && strings.ContainsRune("abcdefABCDEF", rune(good[i])) {
					continue // may be a digit of the signature or its prefix
				}
				if err := v.Verify(req, keys); err == nil {
					t.Fatalf("header %s: %q passes as %q", name, good, bad)
				}
			}
			req.Header[name] = []string{good}
		}
		if err := v.Verify(req, keys); err != nil {
			t.Fatalf("after undoing the changes: %v", err)
		}
	})
}

// TestSignatureLength cuts and extends signatures by whole bytes. A comparison up to the shorter
// length would accept them.
func TestSignatureLength(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawShape(t)
		v, keys, req := drawRequest(t, s)
		good := req.Header.Get(s.headers[0])
		bad := good[:rapid.IntRange(0, len(good)-1).Draw(t, "cut")]
		if rapid.Bool().Draw(t, "lengthen") {
			bad = good + rapid.StringMatching(`[0-9a-fA-Z=]{1,90}`).Draw(t, "more")
		}
		bare := strings.TrimRight(good, "=")
		samePadded := s.scheme.Encoding == verify.EncodingBase64URL && strings.TrimRight(bad, "=") == bare && (bad == bare || len(bad)%4 == 0 && len(bad) < len(bare)+4)
		req.Header.Set(s.headers[0], bad)
		if err := v.Verify(req, keys); (err == nil) != samePadded {
			t.Fatalf("%q for %q: %v", bad, good, err)
		}
	})
}

// TestBytesDoNotMove checks that no byte can move between the signed id, the signed time and the
// body under the same signature.
func TestBytesDoNotMove(t *testing.T) {
	t.Parallel()
	for _, s := range shapes() {
		if len(s.headers) < 2 {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				v, keys, req := drawRequest(t, s)
				names := s.headers[1:]
				var values []string
				for _, name := range names {
					values = append(values, req.Header.Get(name))
				}
				separators := map[string]string{"separate": "." + req.URL + ".", "rfc3339": ":", "v1": ".", "v1a": "."}
				signed := strings.Join(values, ".") + separators[s.name] + string(req.Body)
				// Any other way to cut the same bytes into the same number of pieces.
				first := rapid.IntRange(0, len(signed)).Draw(t, "first cut")
				second := rapid.IntRange(first, len(signed)).Draw(t, "second cut")
				pieces := []string{signed[:first], strings.TrimPrefix(signed[first:second], "."), signed[second:]}
				body := strings.TrimPrefix(pieces[len(pieces)-1], separators[s.name])
				if len(names) == 1 {
					pieces[0], body = signed[:first], strings.TrimPrefix(signed[first:], separators[s.name])
				}
				same := body == string(req.Body)
				for i, name := range names {
					same = same && pieces[i] == values[i]
					req.Header[name] = []string{pieces[i]}
				}
				req.Body = []byte(body)
				if err := v.Verify(req, keys); (err == nil) != same {
					t.Fatalf("pieces %q, body %q: %v", pieces, body, err)
				}
			})
		})
	}
}

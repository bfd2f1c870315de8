package verify_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hookonce/hookonce/verify"
)

// drawFamilyRequest draws a request for the scheme of f.
func drawFamilyRequest(t *rapid.T, f *family) *verify.Request {
	req := &verify.Request{
		Method: http.MethodPost, URL: "https://hooks.example.com/in",
		Body:   rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "body"),
		Header: http.Header{"X-Id": {drawWord(t, "id")}},
		Now:    time.UnixMilli(rapid.Int64Range(1_000_000_000_000, 9_000_000_000_000).Draw(t, "now")),
	}
	if f.fill != nil {
		f.fill(t, req)
	}
	return req
}

// checkFamilies checks a property for every family. The request is signed with the first of two
// keys.
func checkFamilies(t *testing.T, property func(t *rapid.T, f *family, v *verify.Verifier, keys []verify.Key, req *verify.Request)) {
	t.Helper()
	for _, f := range families() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			v := mustCompile(t, f.scheme)
			keys := mustKeys(t, v, f.secret, "other:another-secret-that-is-long-enough")
			rapid.Check(t, func(t *rapid.T) {
				req := drawFamilyRequest(t, &f)
				if err := v.Sign(req, keys[0]); err != nil {
					t.Fatal(err)
				}
				property(t, &f, v, keys, req)
			})
		})
	}
}

// TestFamilies checks that a request from Sign verifies, and that it does not after any signed byte
// changed.
func TestFamilies(t *testing.T) {
	t.Parallel()
	checkFamilies(t, func(t *rapid.T, f *family, v *verify.Verifier, keys []verify.Key, req *verify.Request) {
		if err := v.Verify(req, keys[:1]); err != nil {
			t.Fatalf("as signed: %v\n%q", err, req.Body)
		}
		flip := byte(1) << rapid.IntRange(0, 7).Draw(t, "bit")
		for _, r := range f.signed {
			tryFlips(t, v, keys[:1], req, r, flip)
		}
	})
}

// TestFamiliesOtherKeys checks that a request does not verify with another key, and does if one of
// several keys is right.
func TestFamiliesOtherKeys(t *testing.T) {
	t.Parallel()
	checkFamilies(t, func(t *rapid.T, _ *family, v *verify.Verifier, keys []verify.Key, req *verify.Request) {
		for _, both := range [][]verify.Key{{keys[0], keys[1]}, {keys[1], keys[0]}} {
			if err := v.Verify(req, both); err != nil {
				t.Fatalf("with both keys: %v", err)
			}
		}
		wantErr(t, v.Verify(req, keys[1:]), verify.ErrMismatch)
	})
}

// TestFamiliesInTime checks the tolerance of every family with a signed time.
func TestFamiliesInTime(t *testing.T) {
	t.Parallel()
	checkFamilies(t, func(t *rapid.T, f *family, v *verify.Verifier, keys []verify.Key, req *verify.Request) {
		signedAt := req.Now
		for seconds, want := range map[int]error{
			-299: nil, 299: nil, 301: verify.ErrTooOld, -302: verify.ErrTooNew, 1e8: verify.ErrTooOld, -1e9: verify.ErrTooNew,
		} {
			if f.scheme.Timestamp == nil {
				want = nil
			}
			req.Now = signedAt.Add(time.Duration(seconds) * time.Second)
			wantErr(t, v.Verify(req, keys), want)
		}
	})
}

// tryFlips flips bits in every byte of one region.
func tryFlips(t *rapid.T, v *verify.Verifier, keys []verify.Key, req *verify.Request, r region, flip byte) {
	good := r.get(req)
	if good == "" && r.name != "body" {
		t.Fatalf("%s is empty", r.name)
	}
	for i := range good {
		bad := []byte(good)
		bad[i] ^= flip
		r.set(req, string(bad))
		if err := v.Verify(req, keys); err == nil && (r.alike == nil || !r.alike(good, string(bad))) {
			t.Fatalf("%s: %q passes as %q", r.name, good, bad)
		}
	}
	r.set(req, good)
	if err := v.Verify(req, keys); err != nil {
		t.Fatalf("after undoing the changes: %v", err)
	}
}

func wantErr(t *rapid.T, err, want error) {
	if want == nil && err != nil || want != nil && !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
}

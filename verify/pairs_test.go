package verify_test

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/hookonce/hookonce/verify"
)

// pair is a scheme with the keys of the sender and the receiver. For a shared secret they are
// equal.
type pair struct {
	name, kind      string
	scheme          verify.Scheme
	private, public string
	other           string // the receiver's half of another key
	v               *verify.Verifier
	signs           verify.Key
	verifies        []verify.Key
}

// signatureScheme returns a scheme that signs "{timestamp}.{body}".
func signatureScheme(algorithm string) verify.Scheme {
	return verify.Scheme{
		ID: algorithm, Family: verify.FamilySignature, Header: "X-Sig", Algorithm: algorithm, Encoding: verify.EncodingBase64,
		Content: "{timestamp}.{body}", Timestamp: &verify.Timestamp{At: "header:X-Time"},
	}
}

func detachedScheme(algorithm string) verify.Scheme {
	s := signatureScheme(algorithm)
	s.Family, s.Encoding = verify.FamilyJWS, ""
	return s
}

func tokenScheme(algorithm string) verify.Scheme {
	return verify.Scheme{
		ID: algorithm, Family: verify.FamilyJWT, Header: "X-Sig", Timestamp: &verify.Timestamp{At: "jwt:iat"},
		JWT: &verify.JWT{Algorithms: []string{algorithm}, Claims: []verify.Claim{{Name: "sha256", Equals: "{sha256:body}"}}},
	}
}

// pairs returns a pair for every algorithm of every family with keys. They are made once, because
// an RSA key takes a while.
var pairs = sync.OnceValue(func() []*pair {
	var all []*pair
	add := func(kind string, scheme verify.Scheme) {
		all = append(all, &pair{name: string(scheme.Family) + "/" + scheme.ID, kind: kind, scheme: scheme})
	}
	for kind, algorithms := range map[string]string{
		"ed25519": "ed25519", "p256": "ecdsa-p256-sha256 ecdsa-p256-sha1",
		"rsa": "rsa-sha1 rsa-sha256 rsa-sha512 rsa-pss-sha512",
	} {
		for algorithm := range strings.FieldsSeq(algorithms) {
			add(kind, signatureScheme(algorithm))
			if !strings.HasSuffix(algorithm, "sha1") {
				add(kind, detachedScheme(algorithm))
			}
		}
	}
	for kind, algorithms := range map[string]string{
		"secret": "HS256 HS384 HS512", "rsa": "RS256 RS384 RS512 PS256 PS384 PS512",
		"p256": "ES256", "p384": "ES384", "p521": "ES512", "ed25519": "EdDSA Ed25519",
	} {
		for algorithm := range strings.FieldsSeq(algorithms) {
			add(kind, tokenScheme(algorithm))
		}
	}
	made := map[string]*pair{}
	for _, p := range all {
		p.v = must(verify.Compile(p.scheme))
		if first := made[p.kind]; first != nil {
			p.private, p.public, p.other = first.private, first.public, first.other
		} else {
			made[p.kind] = p
			p.private, p.public, _ = p.v.GenerateKey()
			secret, public, _ := p.v.GenerateKey()
			p.other = cmp.Or(public, secret)
		}
		p.signs = must(p.v.ParseKey(p.private))
		p.verifies = []verify.Key{p.signs}
		if p.public != "" {
			p.verifies[0] = must(p.v.ParseKey(p.public))
		}
	}
	return all
})

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// pairOf returns the pair with the given name.
func pairOf(t testing.TB, name string) *pair {
	t.Helper()
	for _, p := range pairs() {
		if p.name == name {
			return p
		}
	}
	t.Fatalf("no pair is named %q", name)
	return nil
}

func (p *pair) signed(t rapid.TB, body []byte, now time.Time) *verify.Request {
	t.Helper()
	req := &verify.Request{Method: http.MethodPost, URL: "https://hooks.example.com/in", Body: body, Header: http.Header{}, Now: now}
	if err := p.v.Sign(req, p.signs); err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	return req
}

// TestPairsVerify checks that a request signed with the private half verifies with the public half,
// over the whole tolerance and no longer.
func TestPairsVerify(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom(pairs()).Draw(t, "pair")
		body := rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "body")
		req := p.signed(t, body, time.Unix(rapid.Int64Range(1_000_000_000, 9_000_000_000).Draw(t, "now"), 0))
		seconds := rapid.IntRange(-600, 600).Draw(t, "seconds")
		req.Now = req.Now.Add(time.Duration(seconds) * time.Second)
		want := "valid"
		switch {
		case seconds > 300:
			want = "too old"
		case seconds < -300:
			want = "too new"
		}
		if err := p.v.Verify(req, p.verifies); !verdictIs(err, want) {
			t.Fatalf("%s, %d s later: %v, want %s", p.name, seconds, err, want)
		}
	})
}

// TestPairsEveryByteCounts flips a bit in every byte of the body, the signature or token, and the
// signed time.
func TestPairsEveryByteCounts(t *testing.T) {
	t.Parallel()
	for _, p := range pairs() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			req := p.signed(t, []byte(`{"id":"evt_1"}`), receivedAt)
			for i := range req.Body {
				req.Body[i] ^= 1 << (i % 8)
				wantVerdict(t, p.v.Verify(req, p.verifies), "mismatch")
				req.Body[i] ^= 1 << (i % 8)
			}
			for name, values := range req.Header {
				good := values[0]
				for i := range len(good) {
					bad := []byte(good)
					bad[i] ^= 1 << (i % 8)
					req.Header[name] = []string{string(bad)}
					if err := p.v.Verify(req, p.verifies); err == nil {
						t.Fatalf("%s: %q passes as %q", name, good, bad)
					}
				}
				for _, bad := range []string{good[1:], good[:len(good)-1], good + "A", good + "=", " " + good, good + "\n"} {
					req.Header[name] = []string{bad}
					if err := p.v.Verify(req, p.verifies); err == nil {
						t.Fatalf("%s: %q passes as %q", name, good, bad)
					}
				}
				req.Header[name] = []string{good}
			}
			wantVerdict(t, p.v.Verify(req, p.verifies), "valid")
		})
	}
}

// TestPairsOtherKeys checks that a signature does not verify with another key or as another scheme.
func TestPairsOtherKeys(t *testing.T) {
	t.Parallel()
	for _, p := range pairs() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			others := mustKeys(t, p.v, p.other)
			req := p.signed(t, []byte("{}"), receivedAt)
			wantVerdict(t, p.v.Verify(req, others), "mismatch")
			wantVerdict(t, p.v.Verify(req, append(others, p.verifies...)), "valid")
			wantVerdict(t, p.v.Verify(req, nil), "no keys")
			wantVerdict(t, p.v.Verify(req, []verify.Key{{}}), "no keys")
			for _, o := range pairs() {
				if o.scheme.Family != p.scheme.Family || o.name == p.name || p.kind == "ed25519" && o.kind == "ed25519" {
					continue
				}
				if err := o.v.Verify(req, o.verifies); err == nil {
					t.Errorf("the signature passes as one of %s", o.name)
				}
				if err := p.v.Verify(req, o.verifies); err == nil && o.kind != p.kind {
					t.Errorf("the signature passes with a key of %s", o.name)
				}
			}
		})
	}
}

// verdictIs reports whether err is the verdict named by word.
func verdictIs(err error, word string) bool {
	if want := outcomes[word]; want != nil {
		return errors.Is(err, want)
	}
	return err == nil && word == "valid"
}

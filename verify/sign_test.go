package verify_test

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/verify"
)

// TestSignSetsHeaders compares the headers with those that another program computed.
func TestSignSetsHeaders(t *testing.T) {
	t.Parallel()
	v := mustCompile(t, verify.Scheme{Family: verify.FamilyStandardWebhooks})
	req := &verify.Request{
		Header: http.Header{
			"Webhook-Id": {"msg_p5jXN8AQM9LWM0D4loKWxJek"}, "Webhook-Signature": {"old"}, "X-Other": {"kept"},
			"Svix-Id": {"a"}, "Svix-Timestamp": {"1"}, "Svix-Signature": {"v1,x"},
		},
		Body: []byte(`{"test": 2432232314}`), Now: receivedAt.Add(1_614_265_330_000_000_000 - 1_760_000_000_000_000_000),
	}
	if err := v.Sign(req, mustKeys(t, v, whsecSecret)[0]); err != nil {
		t.Fatal(err)
	}
	want := http.Header{
		"Webhook-Id": {"msg_p5jXN8AQM9LWM0D4loKWxJek"}, "Webhook-Timestamp": {"1614265330"},
		"Webhook-Signature": {"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="}, "X-Other": {"kept"},
	}
	if diff := cmp.Diff(want, req.Header); diff != "" {
		t.Error(diff)
	}
}

// TestSignWithoutHeader checks that Sign creates a nil Request.Header.
func TestSignWithoutHeader(t *testing.T) {
	t.Parallel()
	for _, s := range shapes()[:2] {
		v := mustCompile(t, s.scheme)
		keys := mustKeys(t, v, s.secret)
		req := &verify.Request{Body: []byte("{}"), Now: receivedAt}
		if err := v.Sign(req, keys[0]); err != nil {
			t.Fatal(err)
		}
		wantVerdict(t, v.Verify(req, keys), "valid")
	}
}

func TestSignRefuses(t *testing.T) {
	t.Parallel()
	byName := map[string]shape{}
	for _, s := range shapes() {
		byName[s.name] = s
	}
	own := byName["separate"]
	own.scheme.Timestamp = &verify.Timestamp{At: "header:X-Other#t"}
	byName["a time in a list of its own"] = own
	for _, c := range []struct {
		name, shape, secret string
		header              http.Header
		url                 string
		want                error // nil for an error that matches none of the package's errors
	}{
		{"no id", "v1", whsecSecret, nil, "", verify.ErrMissing},
		{"empty id", "v1", whsecSecret, http.Header{"Webhook-Id": {""}}, "", verify.ErrMissing},
		{"two ids", "v1", whsecSecret, http.Header{"Webhook-Id": {"a", "b"}}, "", verify.ErrRepeated},
		{"id with a point", "v1", whsecSecret, http.Header{"Webhook-Id": {"a.b"}}, "", verify.ErrMalformed},
		{"zero key", "v1", "", http.Header{"Webhook-Id": {"a"}}, "", verify.ErrNoKeys},
		{"public key", "v1a", "whpk_1SiA4o9hyqTCpIqC5V9HUakiiaeACeqfZTInDBbOir4=", http.Header{"Webhook-Id": {"a"}}, "", nil},
		{"no signed header", "separate", hmacSecret, nil, "https://x", verify.ErrMissing},
		{"no URL", "separate", hmacSecret, http.Header{"X-Id": {"a"}}, "", verify.ErrNoURL},
		{"separator in a signed header", "separate", hmacSecret, http.Header{"X-Id": {"a.b"}}, "https://x", verify.ErrMalformed},
		{"a list that is not ours", "a time in a list of its own", hmacSecret, http.Header{"X-Id": {"a"}}, "https://x", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := byName[c.shape]
			v := mustCompile(t, s.scheme)
			var key verify.Key
			if c.secret != "" {
				key = mustKeys(t, v, c.secret)[0]
			}
			req := &verify.Request{Header: c.header, URL: c.url, Now: receivedAt}
			err := v.Sign(req, key)
			if err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Fatalf("got %v, want an error that matches %v", err, c.want)
			}
			if req.Header.Get(s.headers[0]) != "" {
				t.Error("a signature was set despite the error")
			}
		})
	}
}

// TestErrorsHoldNoValues checks that errors hold no sent value, no key and no expected signature.
func TestErrorsHoldNoValues(t *testing.T) {
	t.Parallel()
	for _, s := range shapes() {
		v := mustCompile(t, s.scheme)
		keys := mustKeys(t, v, s.secret)
		for _, name := range s.headers {
			for _, value := range []string{"canary", "canary,canary=canary", "t=canary,v1=canary", "v1,canary", "v1a,canary", "ca.nary"} {
				req := signedRequest(t, v, keys[0], "{}")
				right := req.Header.Get(s.headers[0])
				req.Header.Set(name, value)
				err := v.Verify(req, keys)
				if err == nil {
					t.Fatalf("%s: %s: %s passes", s.name, name, value)
				}
				for _, secret := range []string{"canary", right, s.secret} {
					if strings.Contains(err.Error(), secret) {
						t.Errorf("%s: the error holds %q: %v", s.name, secret, err)
					}
				}
			}
		}
	}
}

// One key serves several schemes at once, each with its own algorithm. Each signature is that of a new
// key.
func TestKeyOfSeveralSchemes(t *testing.T) {
	t.Parallel()
	algorithms := []string{verify.AlgorithmMD5, verify.AlgorithmSHA1, verify.AlgorithmSHA256, verify.AlgorithmSHA384, verify.AlgorithmSHA512}
	var verifiers []*verify.Verifier
	for _, algorithm := range algorithms {
		scheme := verify.Scheme{ID: algorithm, Family: verify.FamilyHMAC, Header: "X-Sig", Algorithm: algorithm, Content: "{header:X-Id}.{body}"}
		verifiers = append(verifiers, mustCompile(t, scheme))
	}
	shared := mustKeys(t, verifiers[0], hmacSecret)
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range 200 {
				v := verifiers[(worker+i)%len(verifiers)]
				id := strings.Repeat("x", 300*(i%3)) + strconv.Itoa(worker)
				req := &verify.Request{Header: http.Header{"X-Id": {id}}, Body: []byte(strconv.Itoa(i)), Now: receivedAt}
				if err := v.Sign(req, mustKeys(t, v, hmacSecret)[0]); err != nil {
					t.Error(err)
				}
				if err := v.Verify(req, shared); err != nil {
					t.Errorf("%s: %v", algorithms[(worker+i)%len(verifiers)], err)
				}
				req.Body = append(req.Body, '0')
				if err := v.Verify(req, shared); !errors.Is(err, verify.ErrMismatch) {
					t.Errorf("another body: %v", err)
				}
			}
		})
	}
	wg.Wait()
}

package provider

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/locate"
	"github.com/hookonce/hookonce/verify"
)

// signedCase is a request of testdata/signed.json. A program that does not know the catalog signed
// it, from the provider's documentation: it notices a changed header or content in the catalog. A
// case without a scheme is not signed, and only its event is checked; other cases test its scheme.
type signedCase struct {
	Provider Name `json:"provider"`
	vectorCase
	Expires bool        `json:"expires"` // whether it is refused days later
	Event   *foundEvent `json:"event"`   // the expected event; nil: not checked
}

func readSigned(t *testing.T) []signedCase {
	t.Helper()
	var cases []signedCase
	readJSON(t, "signed.json", &cases)
	return cases
}

// TestSignedByOthers checks that each request verifies only with its own key, only while fresh, and
// only unchanged.
func TestSignedByOthers(t *testing.T) {
	t.Parallel()
	for _, c := range readSigned(t) {
		t.Run(path.Join(string(c.Provider), c.Scheme, c.Name), func(t *testing.T) {
			t.Parallel()
			spec, err := Lookup(c.Provider)
			if err != nil {
				t.Fatal(err)
			}
			if c.Scheme != "" {
				testSignedByOthers(t, spec, &c)
			}
			if c.Event != nil {
				testFound(t, spec, &c)
			}
		})
	}
}

func testSignedByOthers(t *testing.T, spec *Spec, c *signedCase) {
	v, req, keys, err := c.prepare(t, spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Verify(req, keys); err != nil {
		t.Fatal(err)
	}
	if _, other := newKey(t, v); v.Verify(req, []verify.Key{other}) == nil {
		t.Error("another key accepts it")
	}
	req.Now = req.Now.Add(49 * time.Hour)
	if v.Verify(req, keys) == nil && c.Expires {
		t.Error("it is accepted two days later")
	}
	scheme, _ := spec.Scheme(c.Scheme) // prepare has found it
	for _, bad := range c.changes(t, v, &scheme) {
		if v.Verify(bad, keys) == nil {
			t.Errorf("accepted after a change: %s %v %s", bad.URL, bad.Header, bad.Body)
		}
	}
}

// changes returns copies of the request, each with one byte of the body changed. A token or
// password does not cover the body, so its own bytes change instead.
func (c *signedCase) changes(t *testing.T, v *verify.Verifier, scheme *verify.Scheme) []*verify.Request {
	t.Helper()
	if v.Partial() != "" {
		t.Fatalf("the scheme does not sign %s, so a change of the body proves nothing: move the case to testdata/requests", v.Partial())
	}
	switch scheme.Family {
	case verify.FamilyToken:
		secret := []byte(c.Secret)
		secret[len(secret)-1] ^= 1
		other := *c
		replace := strings.NewReplacer(c.Secret, string(secret)).Replace
		other.URL, other.Body, other.Headers = replace(c.URL), replace(c.Body), map[string]string{}
		for name, value := range c.Headers {
			other.Headers[name] = replace(value)
		}
		return []*verify.Request{other.request()}
	case verify.FamilyBasic:
		bad := c.request()
		bad.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(c.Secret+"x")))
		return []*verify.Request{bad}
	}
	var changed []*verify.Request
	for i := range len(c.Body) {
		bad := c.request()
		bad.Body[i] ^= 1
		changed = append(changed, bad)
	}
	return changed
}

func testFound(t *testing.T, spec *Spec, c *signedCase) {
	t.Helper()
	if spec.Event.ID == "" {
		t.Fatal("the catalog no longer knows its event id")
	}
	req := c.request()
	in := &locate.Input{Header: req.Header, Body: req.Body, RawQuery: req.RawQuery}
	if d := diff(found{Events: []foundEvent{*c.Event}}, find(t, spec, in)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// TestEveryIDIsLookedAt checks that every id location of the catalog has a request with an expected
// id.
func TestEveryIDIsLookedAt(t *testing.T) {
	t.Parallel()
	looked := map[Name]bool{}
	for _, c := range readSigned(t) {
		looked[c.Provider] = looked[c.Provider] || c.Event != nil
	}
	var samples []sample
	readJSON(t, "events.json", &samples)
	for _, s := range samples {
		looked[s.Provider] = true
	}
	for _, name := range Names() {
		spec, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		if spec.Event.ID != "" && !looked[name] {
			t.Errorf("%s: no event in testdata/signed.json or testdata/events.json", name)
		}
	}
}

// TestEverySchemeIsSignedByOthers checks that each scheme with keys has a valid request that
// another program signed. Otherwise this project would sign by a wrong catalog entry, and verify
// its own signature.
func TestEverySchemeIsSignedByOthers(t *testing.T) {
	t.Parallel()
	signed := map[[2]string]bool{}
	for _, c := range readSigned(t) {
		signed[[2]string{string(c.Provider), c.Scheme}] = true
	}
	for _, file := range readVectors(t, filepath.Join("testdata", "requests")) {
		for _, c := range file.Cases {
			if c.Expect == "valid" {
				signed[[2]string{string(file.Provider), c.Scheme}] = true
			}
		}
	}
	for _, name := range Names() {
		spec, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, scheme := range spec.Schemes {
			of := [2]string{string(name), scheme.ID}
			if scheme.Family != verify.FamilyNone && !signed[of] && !savedByVerify(t, of) {
				t.Errorf("%s, scheme %s: no valid request in testdata/signed.json, testdata/requests or ../verify/testdata", of[0], of[1])
			}
		}
	}
}

// savedByVerify reports whether package verify has a valid saved request for the scheme.
func savedByVerify(t *testing.T, of [2]string) bool {
	t.Helper()
	directories := []string{of[0] + "-" + of[1]}
	for directory, other := range ofScheme {
		if other == of {
			directories = append(directories, directory)
		}
	}
	for _, directory := range directories {
		data, err := os.ReadFile(filepath.Join("..", "verify", "testdata", directory, "cases.json"))
		if os.IsNotExist(err) {
			continue
		}
		var cases []struct{ Want string }
		if err == nil {
			err = json.Unmarshal(data, &cases)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			if c.Want == "valid" {
				return true
			}
		}
	}
	return false
}

package inbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/internal/test/vectors"
	"github.com/hookonce/hookonce/observe"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// shakeSecret is the shared secret of a case in testdata/handshakes.json that names none.
const shakeSecret = "a-secret-of-the-handshake-tests"

// shakeCase is one request of testdata/handshakes.json, with the expected answer.
type shakeCase struct {
	Provider provider.Name     `json:"provider"`
	Name     string            `json:"name"`
	Params   map[string]string `json:"params"`
	URL      string            `json:"url"`
	Secret   string            `json:"secret"` // "" for shakeSecret

	Method string            `json:"method"`
	Query  string            `json:"query"`
	Header map[string]string `json:"header"`
	Body   string            `json:"body"`
	Sign   bool              `json:"sign"` // sign the request as the provider does
	Arm    bool              `json:"arm"`  // arm the source first

	Status     int               `json:"status"`
	Want       *string           `json:"want"`
	WantJSON   any               `json:"want_json"`
	WantType   string            `json:"want_type"`
	WantHeader map[string]string `json:"want_header"`
}

// source returns a source of a name for the case, and a function that signs requests for it.
func (c *shakeCase) source(t *testing.T, name string) (hookonce.Source, func(*verify.Request)) {
	t.Helper()
	spec, err := provider.Lookup(c.Provider)
	if err != nil {
		t.Fatal(err)
	}
	src := hookonce.Source{Name: name, Provider: c.Provider, Params: map[string]string{}, URL: c.URL, AckTimeout: 30 * time.Second}
	maps.Copy(src.Params, c.Params)
	scheme, err := spec.ChooseScheme("")
	if err != nil {
		src.Scheme = spec.Schemes[0].ID
		if scheme, err = spec.ChooseScheme(src.Scheme); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range spec.ParamsOf(&scheme) {
		if src.Params[p.Name] == "" && p.Need != verify.NeedOptional {
			src.Params[p.Name] = "another value"
		}
	}
	if err := spec.SetParams(&scheme, src.Params); err != nil {
		t.Fatal(err)
	}
	if spec.Event.ID == "" {
		src.Event.ID = "header:X-Test-Id"
		if spec.Event.Batch != "" {
			src.Event.ID = "item:id"
		}
	}
	v, err := verify.Compile(scheme)
	if err != nil {
		t.Fatal(err)
	}
	if v.NeedsURL() && src.URL == "" {
		src.URL = "https://hooks.example.com/" + name
	}
	text := c.Secret
	if text == "" {
		text = shakeSecret
	}
	switch {
	case !v.NeedsKeys():
		return src, func(*verify.Request) {}
	case v.PublicKey():
		text, src.Key = keyPair(t, v)
	default:
		if _, err := v.ParseKey(text); err != nil {
			text, _ = keyPair(t, v)
		}
		src.Secrets = hookonce.StaticSecrets(text)
	}
	scheme.Require = nil // Sign would add the required parts
	if v, err = verify.Compile(scheme); err != nil {
		t.Fatal(err)
	}
	key, err := v.ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return src, func(r *verify.Request) {
		if err := v.Sign(r, key); err != nil {
			t.Fatalf("signing: %v", err)
		}
	}
}

// keyPairs holds a [2]string{private, public} for each kind of public key. The tests share them, because
// generating an RSA key takes long.
var (
	keyPairsMu sync.Mutex
	keyPairs   [][2]string
)

// keyPair returns a secret that is new, and "", or a pair of keys.
func keyPair(t *testing.T, v *verify.Verifier) (private, public string) {
	t.Helper()
	keyPairsMu.Lock()
	defer keyPairsMu.Unlock()
	if v.PublicKey() {
		for _, pair := range keyPairs {
			_, privateErr := v.ParseKey(pair[0])
			if _, publicErr := v.ParseKey(pair[1]); privateErr == nil && publicErr == nil {
				return pair[0], pair[1]
			}
		}
	}
	private, public, err := v.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	if public != "" {
		keyPairs = append(keyPairs, [2]string{private, public})
	}
	return private, public
}

// request returns the request of the case.
func (c *shakeCase) request(sign func(*verify.Request), src *hookonce.Source) *http.Request {
	header := http.Header{}
	for name, value := range c.Header {
		header.Set(name, value)
	}
	r := &verify.Request{Method: c.Method, URL: src.URL, RawQuery: c.Query, Header: header, Body: []byte(c.Body), Now: time.Now()}
	if c.Sign {
		sign(r)
	}
	req := httptest.NewRequest(r.Method, "/webhooks/"+src.Name+"?"+r.RawQuery, bytes.NewReader(r.Body))
	req.Header = r.Header
	return req
}

// check checks the answer: the parts that every answer to a handshake has, and those of the case.
func (c *shakeCase) check(t *testing.T, w *httptest.ResponseRecorder, outcome string) {
	t.Helper()
	got, body := w.Result(), w.Body.String()
	if got.StatusCode != c.Status {
		t.Fatalf("answer %d %s, want %d", got.StatusCode, body, c.Status)
	}
	if c.Status < 300 && (outcome != "handshake" || got.Header.Get("Cache-Control") != "no-store") {
		t.Errorf("outcome %q, header %v; want a handshake that is not cached", outcome, got.Header)
	}
	if got.Header.Get("X-Content-Type-Options") != "nosniff" || got.Header.Get("Content-Type") == "" {
		t.Errorf("header %v lacks nosniff or a Content-Type", got.Header)
	}
	if c.Want != nil && body != *c.Want {
		t.Errorf("body %q, want %q", body, *c.Want)
	}
	if c.WantJSON != nil {
		var v any
		if err := json.Unmarshal([]byte(body), &v); err != nil {
			t.Errorf("body %q: %v", body, err)
		}
		if diff := cmp.Diff(c.WantJSON, v); diff != "" {
			t.Errorf("body (-want +got):\n%s", diff)
		}
		c.WantType = "application/json"
	}
	if c.WantType != "" && got.Header.Get("Content-Type") != c.WantType {
		t.Errorf("Content-Type %q, want %q", got.Header.Get("Content-Type"), c.WantType)
	}
	for name, value := range c.WantHeader {
		if got.Header.Get(name) != value {
			t.Errorf("header %s: %q, want %q", name, got.Header.Get(name), value)
		}
	}
}

// runShakes sends each request to an engine of its own, all on one store, and checks the answers.
func runShakes(t *testing.T, cases []shakeCase) {
	store := rig.OpenSQLite(t)
	t.Run("each", func(t *testing.T) {
		for i := range cases {
			c := &cases[i]
			t.Run(string(c.Provider)+"/"+c.Name, func(t *testing.T) {
				t.Parallel()
				src, sign := c.source(t, fmt.Sprint("s", i))
				var outcome string
				in := newEngine(t, store, func(cfg *hookonce.Config) {
					cfg.Sources = []hookonce.Source{src}
					cfg.Observer = &observe.Observer{Delivery: func(d observe.Delivery) { outcome = d.Outcome }}
				})
				if c.Arm {
					if _, err := in.Arm(t.Context(), src.Name, time.Minute, false); err != nil {
						t.Fatal(err)
					}
				}
				w := answered(in, c.request(sign, &src))
				c.check(t, w, outcome)
			})
		}
	})
	nothingStored(t, store)
}

// nothingStored checks that a store has no events and an empty quarantine.
func nothingStored(t *testing.T, store driver.Store) {
	t.Helper()
	events, err := store.Events(t.Context(), &driver.EventFilter{})
	if err != nil {
		t.Fatal(err)
	}
	kept, err := store.Quarantined(t.Context(), &driver.QuarantineFilter{})
	if err != nil {
		t.Fatal(err)
	}
	if len(events.Events)+len(kept.Requests) > 0 {
		t.Errorf("the store has %d events and %d quarantined requests, want none", len(events.Events), len(kept.Requests))
	}
}

// savedShakes returns the cases of testdata/handshakes.json.
func savedShakes(t *testing.T) []shakeCase {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "handshakes.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []shakeCase
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

func TestHandshakes(t *testing.T) {
	t.Parallel()
	runShakes(t, savedShakes(t))
}

// The cases of TestHandshakes cover the catalog: each handshake is answered, and refused if its
// signature is missing or wrong. Handshakes that the engine confirms have no case here: it would fetch
// a URL of the provider. The tests of the root replace the fetcher.
func TestEveryHandshakeHasCases(t *testing.T) {
	t.Parallel()
	type of struct {
		provider provider.Name
		id       string
	}
	answered, unverified := map[of]bool{}, map[of]bool{}
	cases := savedShakes(t)
	for i := range cases {
		c := &cases[i]
		shake := c.match(t)
		if shake == nil {
			continue
		}
		switch {
		case c.Status < 300:
			answered[of{c.Provider, shake.ID()}] = true
		case c.Status == http.StatusUnauthorized && !c.Sign:
			unverified[of{c.Provider, shake.ID()}] = true
		}
	}
	for _, name := range provider.Names() {
		spec, err := provider.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range spec.Handshakes {
			h := &spec.Handshakes[i]
			if !answered[of{name, h.ID}] && h.Confirm == "" {
				t.Errorf("%s: no case answers the handshake %s", name, h.ID)
			}
			if h.Signed != "" && !unverified[of{name, h.ID}] {
				t.Errorf("%s: no case refuses the handshake %s because of its signature", name, h.ID)
			}
		}
	}
}

// match returns the handshake that matches the request before it is signed, or nil.
func (c *shakeCase) match(t *testing.T) *provider.Shake {
	t.Helper()
	spec, err := provider.Lookup(c.Provider)
	if err != nil {
		t.Fatal(err)
	}
	shakes, err := provider.CompileHandshakes(spec.Handshakes)
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{}
	for name, value := range c.Header {
		header.Set(name, value)
	}
	return shakes.Match(&provider.HandshakeRequest{Method: c.Method, RawQuery: c.Query, Header: header, Body: []byte(c.Body)})
}

// Without a secret the engine signs nothing: everyone knows the empty secret.
func TestHandshakeWithoutASecret(t *testing.T) {
	t.Parallel()
	for name, secrets := range map[string][]string{"none": nil, "empty": {""}} {
		store := rig.OpenSQLite(t)
		in := newEngine(t, store, func(cfg *hookonce.Config) {
			cfg.Sources = []hookonce.Source{{
				Name: "s", Provider: provider.X, AckTimeout: 30 * time.Second,
				Secrets: hookonce.SecretsFunc(func(context.Context, *http.Request) ([]string, error) { return secrets, nil }),
			}}
		})
		w := answered(in, httptest.NewRequest(http.MethodGet, "/webhooks/s?crc_token=abc", http.NoBody))
		if w.Code != http.StatusForbidden || strings.Contains(w.Body.String(), "sha256=") {
			t.Errorf("%s: answer %d %s, want 403 without a signature", name, w.Code, w.Body)
		}
		nothingStored(t, store)
	}
}

// TestHandshakeVectors replays the recorded handshakes in the folders HOOKONCE_TEST_VECTORS.
func TestHandshakeVectors(t *testing.T) {
	t.Parallel()
	var cases []shakeCase
	for _, file := range vectors.Files(t) {
		cases = append(cases, readShakes(t, &file)...)
	}
	runShakes(t, cases)
}

// recordedShake is a handshake of a file of recorded requests.
type recordedShake struct {
	Name    string            `json:"name"`
	Secret  string            `json:"secret"`
	Params  map[string]string `json:"params"`
	Request struct {
		Method, URL, Body string
		Headers           map[string]string
	} `json:"request"`
	Response struct {
		Status  int               `json:"status"`
		Headers map[string]string `json:"headers"`
		Body    *string           `json:"body"`
		JSON    any               `json:"json"`
	} `json:"expect_response"`
}

// readShakes reads the handshakes of one file of recorded requests.
func readShakes(t *testing.T, file *vectors.File) []shakeCase {
	t.Helper()
	name := provider.Name(file.Provider)
	spec, err := provider.Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	var cases []shakeCase
	for _, r := range vectors.Cases[recordedShake](t, file.Handshakes) {
		_, query, _ := strings.Cut(r.Request.URL, "?")
		c := &shakeCase{
			Provider: name, Name: r.Name, Secret: r.Secret, Params: r.Params,
			Method: r.Request.Method, Query: query, Header: r.Request.Headers, Body: r.Request.Body,
			Status: r.Response.Status, Want: r.Response.Body, WantJSON: r.Response.JSON, WantHeader: r.Response.Headers,
		}
		if c.Params == nil {
			c.Params = map[string]string{}
		}
		// For some providers the recorded secret is a token parameter.
		for _, p := range spec.Params {
			if strings.HasSuffix(p.Name, "_token") {
				c.Params[p.Name], c.Secret = r.Secret, ""
			}
		}
		c.URL = c.Params["endpoint"]
		delete(c.Params, "endpoint")
		if strings.Contains(r.Request.Body, `"passcode"`) {
			c.Secret = "pass1"
		}
		shake := c.match(t)
		if shake == nil {
			t.Fatalf("%s/%s matches no handshake", c.Provider, c.Name)
		}
		i := slices.IndexFunc(spec.Handshakes, func(h provider.Handshake) bool { return h.ID == shake.ID() })
		if spec.Handshakes[i].Confirm != "" {
			continue // see TestEveryHandshakeHasCases
		}
		c.complete(spec, shake)
		cases = append(cases, *c)
	}
	return cases
}

// complete adds the parts of the request that a recording leaves out.
func (c *shakeCase) complete(spec *provider.Spec, shake *provider.Shake) {
	c.Arm = slices.ContainsFunc(spec.Handshakes, func(h provider.Handshake) bool { return h.Delivers != "" })
	isSigned := false
	for name := range c.Header {
		isSigned = isSigned || strings.EqualFold(name, spec.Schemes[0].Header)
	}
	if shake.Signed() != provider.SignedAlways || isSigned || strings.Contains(c.Body, `"passcode"`) {
		return
	}
	c.Sign = true
	if c.Header == nil {
		c.Header = map[string]string{}
	}
	if c.Provider == "twitch" {
		c.Header["Twitch-Eventsub-Message-Id"] = "m1"
	}
}

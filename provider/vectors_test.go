package provider

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/vectors"
	"github.com/hookonce/hookonce/verify"
)

// vectorFile is a collection of saved requests of one provider, made by others.
type vectorFile struct {
	Provider Name         `json:"provider"`
	Cases    []vectorCase `json:"cases"`
}

type vectorCase struct {
	Name    string            `json:"name"`
	Scheme  string            `json:"scheme"`
	Expect  string            `json:"expect"` // "valid" or "invalid"
	Secret  string            `json:"secret"`
	Params  map[string]string `json:"params"`
	Key     *vectorKey        `json:"key"`
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	Now     int64             `json:"now"`
}

type vectorKey struct {
	Type    string          `json:"type"`
	Value   json.RawMessage `json:"value"`    // a text or a JWKS
	CertURL string          `json:"cert_url"` // the address of the certificate in the collection
}

// otherVerdicts lists the requests with a verdict other than the collection's, and the reason.
var otherVerdicts = map[string]string{
	"contentful-canonical/too old":     "a clock may be wrong by a minute, where the provider's own library allows 30 s",
	"contentful/generated-valid/stale": "a clock may be wrong by a minute, where the provider's own library allows 30 s",
	"paddle/generated-valid/stale":     "a clock may be wrong by a minute, where the provider's own library allows 5 s",
	"paypal/sdk-2015-sandbox-event":    "the certificate of 2015 is not part of the collection",
	"easypost/sdk-valid-nfkd":          "secrets outside of ASCII are refused instead of normalized",
}

// TestSavedRequests verifies requests that another program signed.
func TestSavedRequests(t *testing.T) {
	t.Parallel()
	runVectors(t, readVectors(t, filepath.Join("testdata", "requests")))
}

// TestVectors runs the saved requests in the folders HOOKONCE_TEST_VECTORS.
func TestVectors(t *testing.T) {
	t.Parallel()
	runVectors(t, moreVectors(t))
}

// moreVectors returns the saved requests in the folders HOOKONCE_TEST_VECTORS, or skips the test.
func moreVectors(t *testing.T) []vectorFile {
	t.Helper()
	var all []vectorFile
	for _, file := range vectors.Files(t) {
		all = append(all, vectorFile{Name(file.Provider), vectors.Cases[vectorCase](t, file.Cases)})
	}
	return all
}

func runVectors(t *testing.T, files []vectorFile) {
	ran := 0
	for _, file := range files {
		spec, err := Lookup(file.Provider)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, c := range file.Cases {
			ran++
			t.Run(string(spec.Name)+"/"+c.Name, func(t *testing.T) {
				t.Parallel()
				if c.Expect != "valid" && c.Expect != "invalid" {
					t.Fatalf("expect is %q", c.Expect)
				}
				want := c.Expect == "valid"
				reason := otherVerdicts[string(spec.Name)+"/"+c.Name]
				if err := verdict(t, spec, &c); (err == nil) != (want != (reason != "")) {
					t.Errorf("got %v, want %s %s", err, c.Expect, reason)
				}
			})
		}
	}
	t.Logf("%d requests", ran)
}

func readVectors(t *testing.T, dir string) []vectorFile {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no *.json in %s: %v", dir, err)
	}
	read := make([]vectorFile, len(files))
	for i, file := range files {
		data, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(data, &read[i])
		}
		if err != nil || read[i].Provider == "" {
			t.Fatalf("%s names no provider: %v", file, err)
		}
	}
	return read
}

// verdict returns nil if the request is valid. It fails the test on a fault of the case or the
// catalog.
func verdict(t *testing.T, spec *Spec, c *vectorCase) error {
	t.Helper()
	v, req, keys, err := c.prepare(t, spec)
	if err != nil {
		return err
	}
	return v.Verify(req, keys)
}

// prepare returns the request of the case, its verifier and its keys. An error is about the key.
func (c *vectorCase) prepare(t *testing.T, spec *Spec) (*verify.Verifier, *verify.Request, []verify.Key, error) {
	t.Helper()
	scheme, ok := spec.Scheme(c.Scheme)
	if !ok {
		t.Fatalf("scheme %q is not in the catalog", c.Scheme)
	}
	scheme.Values = c.values(&scheme)
	v, err := verify.Compile(scheme)
	if err != nil {
		t.Fatal(err)
	}
	req := c.request()
	keys, err := c.keys(t, v, spec, &scheme, req)
	return v, req, keys, err
}

// values returns the values of the scheme's parameters. The collection's params also hold expected
// results.
func (c *vectorCase) values(scheme *verify.Scheme) map[string]string {
	values := map[string]string{}
	for _, p := range scheme.Params {
		if value, ok := c.Params[p.Name]; ok {
			values[p.Name] = value
		}
	}
	return values
}

func (c *vectorCase) request() *verify.Request {
	req := &verify.Request{Method: c.Method, URL: c.URL, Header: http.Header{}, Body: []byte(c.Body), Now: time.Unix(c.Now, 0)}
	if u, err := url.Parse(c.URL); err == nil {
		req.RawQuery = u.RawQuery
	}
	for name, value := range c.Headers {
		req.Header.Set(name, value)
	}
	return req
}

// keys returns the key of the case. For a key that the provider publishes it checks that KeyRef
// accepts the request's reference, and parses the key as if it had been fetched.
func (c *vectorCase) keys(t *testing.T, v *verify.Verifier, spec *Spec, scheme *verify.Scheme, req *verify.Request) ([]verify.Key, error) {
	t.Helper()
	if !v.NeedsKeys() {
		return nil, nil
	}
	text := c.Secret
	if c.Key != nil {
		text = string(c.Key.Value)
		if c.Key.Value[0] == '"' {
			if err := json.Unmarshal(c.Key.Value, &text); err != nil {
				t.Fatal(err)
			}
		}
	}
	if c.Key != nil && c.Key.CertURL != "" {
		ref, err := v.KeyRef(req)
		if err != nil {
			return nil, err
		}
		if ref == nil || ref.URL != c.Key.CertURL {
			t.Fatalf("got %+v, want a reference to %s", ref, c.Key.CertURL)
		}
		// The certificates of the collection are self-signed.
		if scheme.Keys.Chain == "" {
			keys, err := v.ParseFetched(ref, []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			return keys, nil
		}
	}
	key, err := v.ParseKey(text)
	switch {
	case err == nil:
	case errors.Is(err, verify.ErrZeroSecret), otherVerdicts[string(spec.Name)+"/"+c.Name] != "":
		return nil, err
	default:
		t.Fatal(err)
	}
	return []verify.Key{key}, nil
}

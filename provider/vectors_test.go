package provider

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hookonce/hookonce/verify"
)

const vectorsVariable = "HOOKONCE_TEST_VECTORS"

// vectorFile is a collection of saved requests of one provider, made by
// others.
type vectorFile struct {
	Cases []struct {
		Name    string            `json:"name"`
		Scheme  string            `json:"scheme"`
		Expect  string            `json:"expect"` // "valid" or "invalid"
		Secret  string            `json:"secret"`
		Key     *vectorKey        `json:"key"`
		Method  string            `json:"method"`
		URL     string            `json:"url"`
		Headers map[string]string `json:"headers"`
		Body    string            `json:"body"`
		Now     int64             `json:"now"`
	} `json:"cases"`
}

type vectorKey struct {
	Value string `json:"value"`
}

// TestVectors runs every *.json of the directory that HOOKONCE_TEST_VECTORS
// names whose provider is in the catalog.
func TestVectors(t *testing.T) {
	t.Parallel()
	dir := os.Getenv(vectorsVariable)
	if dir == "" {
		t.Skipf("set %s to a directory of test requests to run them", vectorsVariable)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no *.json in %s: %v", dir, err)
	}
	ran := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var head struct {
			Provider Name `json:"provider"`
		}
		if err := json.Unmarshal(data, &head); err != nil || head.Provider == "" {
			t.Fatalf("%s names no provider: %v", file, err)
		}
		spec, err := Lookup(head.Provider)
		if errors.Is(err, ErrUnknown) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var vectors vectorFile
		if err := json.Unmarshal(data, &vectors); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		ran += runVectors(t, spec, &vectors)
	}
	if ran == 0 {
		t.Fatalf("no test request in %s is of a provider of the catalog", dir)
	}
	t.Logf("%d requests", ran)
}

func runVectors(t *testing.T, spec *Spec, vectors *vectorFile) int {
	for _, c := range vectors.Cases {
		t.Run(string(spec.Name)+"/"+c.Name, func(t *testing.T) {
			t.Parallel()
			scheme, ok := spec.Scheme(c.Scheme)
			if !ok {
				t.Fatalf("scheme %q is not in the catalog", c.Scheme)
			}
			v, err := verify.Compile(scheme)
			if err != nil {
				t.Fatal(err)
			}
			secret := c.Secret
			if c.Key != nil {
				secret = c.Key.Value
			}
			key, err := v.ParseKey(secret)
			if err != nil {
				t.Fatal(err)
			}
			req := &verify.Request{
				Method: c.Method, URL: c.URL, Header: http.Header{}, Body: []byte(c.Body), Now: time.Unix(c.Now, 0),
			}
			for name, value := range c.Headers {
				req.Header.Set(name, value)
			}
			err = v.Verify(req, []verify.Key{key})
			if c.Expect != "valid" && c.Expect != "invalid" {
				t.Fatalf("expect is %q", c.Expect)
			}
			if (err == nil) != (c.Expect == "valid") {
				t.Errorf("got %v, want %s", err, c.Expect)
			}
		})
	}
	return len(vectors.Cases)
}

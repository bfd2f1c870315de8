package verify_test

import (
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/vectors"
	"github.com/hookonce/hookonce/verify"
)

// vector is one case of a file with published or generated requests.
type vector struct {
	Name    string            `json:"name"`
	Scheme  string            `json:"scheme"`
	Expect  string            `json:"expect"`
	Secret  string            `json:"secret"`
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	Now     int64             `json:"now"`
	Params  map[string]string `json:"params"`
}

// TestVectors runs the vectors of the providers that have a scheme of the same name in testdata.
// Package provider runs those with public keys.
func TestVectors(t *testing.T) {
	t.Parallel()
	files := vectors.Files(t)
	dirs, err := filepath.Glob("testdata/*")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, dir := range dirs {
		name := filepath.Base(dir)
		for i := range files {
			scheme, ok := strings.CutPrefix(name, files[i].Provider+"-")
			if !ok {
				continue
			}
			for _, c := range vectors.Cases[vector](t, files[i].Cases) {
				if c.Scheme == scheme && c.Secret != "" {
					ran++
					t.Run(name+"/"+c.Name, func(t *testing.T) {
						t.Parallel()
						c.run(t, dir)
					})
				}
			}
		}
	}
	if ran < 100 {
		t.Errorf("only %d vectors were run", ran)
	}
}

func (c *vector) run(t *testing.T, dir string) {
	t.Helper()
	var scheme verify.Scheme
	readJSON(t, filepath.Join(dir, "scheme.json"), &scheme)
	scheme.Values = c.Params
	v := mustCompile(t, scheme)
	u, err := url.Parse(c.URL)
	if err != nil {
		t.Fatal(err)
	}
	req := &verify.Request{Method: c.Method, URL: c.URL, RawQuery: u.RawQuery, Header: http.Header{}, Body: []byte(c.Body), Now: time.Unix(c.Now, 0)}
	for name, value := range c.Headers {
		req.Header.Set(name, value)
	}
	err = v.Verify(req, mustKeys(t, v, c.Secret))
	if (err == nil) != (c.Expect == "valid") {
		t.Errorf("got %v, want %s", err, c.Expect)
	}
}

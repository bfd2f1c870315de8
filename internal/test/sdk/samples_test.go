package sdk

import (
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/sdk/providers"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

// unfit lists the schemes that sign other products of their provider than those of the samples.
var unfit = map[string]string{
	"adyen/platform-body": "the samples are payments, whose items are signed",
	"mailgun/form":        "the samples are JSON",
	"twilio/json-body":    "the samples are forms",
}

// TestSamples checks that the SDKs accept every sample as "hookonce send --sample" sends it, and read it
// into their types. A provider without an SDK here must give a reason in the catalog.
func TestSamples(t *testing.T) {
	binary := program(t)
	files, err := filepath.Glob("../../../cmd/hookonce/internal/samples/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			judges := slices.DeleteFunc(slices.Clone(subjects), func(s *providers.Subject) bool {
				return s.Provider != name || s.Variant != "" || unfit[name+"/"+s.Scheme] != ""
			})
			spec, err := provider.Lookup(provider.Name(name))
			if err != nil {
				t.Fatal(err)
			}
			if len(judges) == 0 && spec.Evidence.Reason == "" {
				t.Error("no SDK judges the samples, and the catalog gives no reason")
			}
			for _, s := range judges {
				t.Run(cmp.Or(s.Scheme, "default")+"/"+s.SDK, func(t *testing.T) {
					g, err := newGuard(s, nil)
					if err != nil {
						t.Fatal(err)
					}
					for _, sample := range sampleNames(t, file) {
						g.checkSample(t, binary, sample)
					}
				})
			}
		})
	}
}

// sampleNames returns the names of the samples in a file.
func sampleNames(t *testing.T, file string) []string {
	t.Helper()
	var all []struct{ Name string }
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil || len(all) == 0 {
		t.Fatalf("%s has no samples: %v", file, err)
	}
	var names []string
	for _, one := range all {
		names = append(names, one.Name)
	}
	return names
}

// checkSample sends a sample and holds the request against the SDK, and against its type for the event.
func (g *guard) checkSample(t *testing.T, binary, sample string) {
	t.Helper()
	s := g.subject
	r := g.sendSample(t, binary, sample)
	if err := g.accept(r); err != nil {
		t.Errorf("%s: %v", sample, err)
	}
	if s.Read == nil {
		return
	}
	if err := s.Read(r, &g.key.text); err != nil {
		t.Errorf("%s: %s cannot read it: %v\n%s", sample, s.SDK, err, show(r))
	}
}

// sendSample runs "hookonce send --sample" and returns the request that arrives.
func (g *guard) sendSample(t *testing.T, binary, sample string) *providers.Request {
	t.Helper()
	s := g.subject
	arrived := make(chan *providers.Request, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		arrived <- plain(&verify.Request{
			Method: req.Method, URL: publicURL(s), RawQuery: req.URL.RawQuery, Header: req.Header, Body: body, Now: time.Now(),
		})
	}))
	defer server.Close()
	args := []string{"send", server.URL, "--provider", s.Provider, "--url", publicURL(s), "--sample", sample}
	if s.Scheme != "" {
		args = append(args, "--scheme", s.Scheme)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Params)) {
		args = append(args, "--param", name+"="+s.Params[name])
	}
	if key := g.key.text; key.Secret != "" {
		args = append(args, "--secret", key.Secret)
	} else {
		file := filepath.Join(t.TempDir(), "private.pem")
		if err := os.WriteFile(file, []byte(key.Private), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, "--key", file)
	}
	if out, err := exec.CommandContext(t.Context(), binary, args...).CombinedOutput(); err != nil {
		t.Fatalf("hookonce %s: %v\n%s", args, err, out)
	}
	return <-arrived
}

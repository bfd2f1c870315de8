package provider

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookonce/hookonce/internal/locate"
)

// found is the expected result of a provider's rules for one request.
type found struct {
	Events    []foundEvent `json:"events"`
	Malformed int          `json:"malformed"` // number of requests or items without an id
	Why       string       `json:"why"`       // for readers: why there is no id
}

type foundEvent struct {
	ID   []string `json:"id"` // the parts
	Type string   `json:"type"`
}

// sample is a request made up from the provider's documentation.
type sample struct {
	Provider Name              `json:"provider"`
	Name     string            `json:"name"`
	Headers  map[string]string `json:"headers"`
	Body     string            `json:"body"`
	found
}

// rulesOf returns the provider's rules, completed by its hints. Only tests may use hints.
func rulesOf(spec *Spec) EventRules { return spec.Event.Or(spec.Hint) }

func find(t *testing.T, spec *Spec, in *locate.Input) found {
	t.Helper()
	x, err := CompileRules(rulesOf(spec))
	if err != nil {
		t.Fatal(err)
	}
	events, bad := x.Extract(in)
	got := found{Malformed: len(bad)}
	for _, e := range events {
		got.Events = append(got.Events, foundEvent{e.IDParts, e.Type})
	}
	return got
}

func diff(want, got found) string {
	return cmp.Diff(want, got, cmpopts.IgnoreFields(found{}, "Why"), cmpopts.EquateEmpty())
}

func readJSON(t *testing.T, name string, to any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err == nil {
		err = json.Unmarshal(data, to)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// TestIDs extracts the events of samples: a retry has the id of the first attempt, and different
// events have different ids.
func TestIDs(t *testing.T) {
	t.Parallel()
	var samples []sample
	readJSON(t, "events.json", &samples)
	sampled := map[Name]bool{}
	for _, s := range samples {
		sampled[s.Provider] = true
		t.Run(string(s.Provider)+"/"+s.Name, func(t *testing.T) {
			t.Parallel()
			spec, err := Lookup(s.Provider)
			if err != nil {
				t.Fatal(err)
			}
			in := &locate.Input{Header: http.Header{}, Body: []byte(s.Body)}
			for name, value := range s.Headers {
				in.Header.Set(name, value)
			}
			if d := diff(s.found, find(t, spec, in)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
	for _, name := range Names() {
		spec, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		if (spec.Event.Batch != "" || spec.Event.Document != "") && rulesOf(spec).ID != "" && !sampled[name] {
			t.Errorf("%s sends batches or other documents than JSON: it needs a sample in testdata/events.json", name)
		}
	}
}

// TestVectorIDs extracts the events of the collection's valid requests.
func TestVectorIDs(t *testing.T) {
	t.Parallel()
	files := moreVectors(t)
	var want map[Name]map[string]found
	readJSON(t, "ids.json", &want)
	for _, v := range files {
		spec, err := Lookup(v.Provider)
		if err != nil {
			t.Error(err)
			continue
		}
		if rulesOf(spec).ID == "" {
			continue
		}
		cases := want[v.Provider]
		for _, c := range v.Cases {
			if c.Expect != "valid" {
				continue
			}
			expected, ok := cases[c.Name]
			if !ok {
				t.Errorf("testdata/ids.json has no entry for %s/%s", v.Provider, c.Name)
				continue
			}
			delete(cases, c.Name)
			t.Run(string(v.Provider)+"/"+c.Name, func(t *testing.T) {
				t.Parallel()
				req := c.request()
				in := &locate.Input{Header: req.Header, Body: req.Body, RawQuery: req.RawQuery}
				if d := diff(expected, find(t, spec, in)); d != "" {
					t.Errorf("-want +got:\n%s", d)
				}
			})
		}
	}
	for provider, cases := range want {
		if left := slices.Sorted(maps.Keys(cases)); len(left) > 0 {
			t.Errorf("no such requests of %s in the collection, or no rules for them: %q", provider, left)
		}
	}
}

package provider

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/verify"
)

// TestCatalog holds for every entry what the rest of the program relies on.
func TestCatalog(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			spec, err := Lookup(name)
			if err != nil {
				t.Fatal(err)
			}
			if spec.Name != name || spec.Title == "" {
				t.Errorf("name %q, title %q", spec.Name, spec.Title)
			}
			if u, err := url.Parse(spec.Docs); spec.Docs != "" && (err != nil || u.Scheme != "https" || u.Host == "") {
				t.Errorf("docs %q is no https URL", spec.Docs)
			}
			ids := map[string]bool{}
			for _, scheme := range spec.Schemes {
				if scheme.ID == "" || ids[scheme.ID] {
					t.Errorf("scheme id %q is empty or not unique", scheme.ID)
				}
				ids[scheme.ID] = true
				if _, err := verify.Compile(scheme); err != nil {
					t.Errorf("scheme %s: %v", scheme.ID, err)
				}
			}
			if spec.Event != (EventRules{}) {
				if _, err := CompileRules(spec.Event); err != nil {
					t.Errorf("event rules: %v", err)
				}
			}
			if spec.MaxBody < 0 || spec.Retry.Window < 0 || spec.Retry.Timeout < 0 {
				t.Error("a negative limit")
			}
		})
	}
}

// TestKnownProviders holds the facts of the first entries.
func TestKnownProviders(t *testing.T) {
	t.Parallel()
	want := []Name{GitHub, HMAC, None, StandardWebhooks, Stripe}
	for _, name := range want {
		if !slices.Contains(Names(), name) {
			t.Errorf("%s is missing", name)
		}
	}
	if !slices.IsSorted(Names()) {
		t.Errorf("%v is not sorted", Names())
	}
	type facts struct {
		Schemes     []string
		Event       EventRules
		Window, Ack time.Duration
		MaxBody     int64
	}
	for name, want := range map[Name]facts{
		Stripe: {[]string{"v1"}, EventRules{ID: "body:id", Type: "body:type", Time: "body:created"}, 72 * time.Hour, 0, 0},
		GitHub: {
			[]string{"sha256", "sha1"},
			EventRules{ID: "header:X-GitHub-Delivery", Type: "header:X-GitHub-Event"},
			0, 10 * time.Second, 25 << 20,
		},
		StandardWebhooks: {
			[]string{"v1", "v1a"},
			EventRules{ID: "header:webhook-id | header:svix-id", Type: "body:type", Time: "body:timestamp"},
			0, 0, 0,
		},
		HMAC: {},
		None: {Schemes: []string{"none"}},
	} {
		spec, err := Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		got := facts{Event: spec.Event, Window: spec.Retry.Window, Ack: spec.Retry.Timeout, MaxBody: spec.MaxBody}
		for _, s := range spec.Schemes {
			got.Schemes = append(got.Schemes, s.ID)
			if s.Timestamp != nil && s.Timestamp.Tolerance != 5*time.Minute {
				t.Errorf("%s: tolerance %s", name, s.Timestamp.Tolerance)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestScheme(t *testing.T) {
	t.Parallel()
	spec, err := Lookup(GitHub)
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{"": "sha256", "sha1": "sha1", "sha256": "sha256", "md5": ""} {
		if got, ok := spec.Scheme(id); got.ID != want || ok != (want != "") {
			t.Errorf("scheme %q: got %q, %t", id, got.ID, ok)
		}
	}
	if _, ok := (&Spec{}).Scheme(""); ok {
		t.Error("a scheme of none")
	}
}

func TestLookupUnknown(t *testing.T) {
	t.Parallel()
	for name, hint := range map[Name]string{
		"strpe": "did you mean stripe", "Stripe": "did you mean stripe", "git": "did you mean github",
		"github-app": "did you mean github", "standardwebhooks": "did you mean standard-webhooks",
		"non": "did you mean none", "sesmetric": "github, hmac, none", "": "github, hmac, none",
	} {
		_, err := Lookup(name)
		if !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), hint) {
			t.Errorf("%q: got %v, want a hint %q", name, err, hint)
		}
	}
}

// TestLoadRefuses holds that a faulty file is never half of an entry.
func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	for name, file := range map[string]string{
		"empty":                  ``,
		"not JSON":               `{"name":"x"`,
		"another name":           `{"name":"y"}`,
		"unknown field":          `{"name":"x","color":"x"}`,
		"unknown scheme field":   `{"name":"x","schemes":[{"id":"a","heaedr":"b"}]}`,
		"unknown time field":     `{"name":"x","schemes":[{"id":"a","timestamp":{"att":"b"}}]}`,
		"unknown retry field":    `{"name":"x","retry":{"windwo":"1h"}}`,
		"unknown event field":    `{"name":"x","event":{"ids":"body:id"}}`,
		"number as duration":     `{"name":"x","retry":{"window":72}}`,
		"text as duration":       `{"name":"x","retry":{"window":"3 days"}}`,
		"something behind":       `{"name":"x"}{}`,
		"duration as scheme's":   `{"name":"x","schemes":[{"id":"a","timestamp":{"at":"b","tolerance":300}}]}`,
		"retry that is no table": `{"name":"x","retry":"3 days"}`,
	} {
		specs, err := load(fstest.MapFS{"catalog/x.json": {Data: []byte(file)}})
		if err == nil || !strings.Contains(err.Error(), "catalog/x.json") || specs != nil {
			t.Errorf("%s: got %v, %v", name, specs, err)
		}
	}
	specs, err := load(fstest.MapFS{"catalog/x.json": {Data: []byte(
		`{"name":"x","schemes":[{"id":"a","family":"hmac","timestamp":{"at":"header:T","tolerance":"90s"}}],"retry":{"window":"1h","timeout":"1500ms","note":"n"}}`)}})
	if err != nil {
		t.Fatal(err)
	}
	want := &Spec{
		Name:    "x",
		Schemes: []verify.Scheme{{ID: "a", Family: "hmac", Timestamp: &verify.Timestamp{At: "header:T", Tolerance: 90 * time.Second}}},
		Retry:   Retry{Window: time.Hour, Timeout: 1500 * time.Millisecond, Note: "n"},
	}
	if diff := cmp.Diff(want, specs["x"]); diff != "" {
		t.Error(diff)
	}
}

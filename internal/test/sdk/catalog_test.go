package sdk

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/internal/test/sdk/providers"
	"github.com/hookonce/hookonce/provider"
)

var update = flag.Bool("update", false, "write the evidence into the catalog")

// others holds the packages that belong to no provider, or to the named one only. For every other
// provider such a package is a third-party verifier, or a part of a documented procedure.
var others = map[string]provider.Name{
	"@alexasomba/paystack-node":         "",
	"@hookflo/tern":                     "",
	"@pipedream/launchdarkly":           "",
	"express-basic-auth":                "",
	"front-sdk":                         "",
	"github.com/go-playground/webhooks": "",
	"github.com/google/go-github":       "",
	"github.com/nicklaw5/helix":         "",
	"github.com/slack-go/slack":         "",
	"grammy":                            "",
	"jose":                              "",
	"n8n-nodes-base":                    "",
	"nuxt-webhook-validators":           "",
	"quickbooks-node-promise":           "",
	"standardwebhooks":                  provider.StandardWebhooks,
	"svix":                              provider.Svix,
	"verify-paddle-webhook":             "",
	"wechatpay-node-v3":                 "",
	"whatsapp-api-js":                   "",
	"x-hub-signature":                   "",
}

// majorVersion is the end of the path of a Go module.
var majorVersion = regexp.MustCompile(`/v\d+$`)

// kindOf returns the kind of evidence that a subject is.
func kindOf(s *providers.Subject) string {
	owner, listed := others[majorVersion.ReplaceAllString(s.SDK, "")]
	switch {
	case s.Documented:
		return provider.ByProcedure
	case listed && owner != provider.Name(s.Provider):
		return provider.ByVerifier
	}
	return provider.BySDK
}

// packagePattern finds packages in Evidence.Source.
var packagePattern = regexp.MustCompile(`\b(npm|go):[^\s,]+`)

// TestCatalog checks that the evidence of every provider of the catalog names the packages that
// judge it here, and that the other providers have a reason. With -update it writes the evidence
// into the catalog; the reasons are written by hand.
func TestCatalog(t *testing.T) {
	of := map[provider.Name][]*providers.Subject{}
	for _, s := range subjects {
		of[provider.Name(s.Provider)] = append(of[provider.Name(s.Provider)], s)
	}
	for _, name := range provider.Names() {
		spec, err := provider.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		got, want := spec.Evidence, evidence(t, of[name], spec.Evidence)
		switch {
		case got != want && *update:
			writeEvidence(t, name, want)
		case got != want:
			t.Errorf("%s has the evidence %s, want %s; write it, or run: go test -run TestCatalog -update", name, object(got), object(want))
		}
		if want.By != "" && of[name] == nil && want.Reason == "" {
			t.Errorf("%s is judged by no package: write evidence.reason", name)
		}
	}
}

// evidence returns the evidence that the catalog should have: the strongest kind, and all packages
// of the subjects, the provider's own first. Without subjects it is documentation, unless a request
// or a vector is known.
func evidence(t *testing.T, subjects []*providers.Subject, listed provider.Evidence) provider.Evidence {
	t.Helper()
	byKind := map[string][]string{}
	for _, s := range subjects {
		kind := kindOf(s)
		byKind[kind] = append(byKind[kind], sourceOf(t, s))
	}
	want := provider.Evidence{Reason: listed.Reason}
	var packages []string
	for _, kind := range []string{provider.BySDK, provider.ByVerifier, provider.ByProcedure} {
		if byKind[kind] == nil {
			continue
		}
		want.By = cmp.Or(want.By, kind)
		slices.Sort(byKind[kind])
		for _, source := range byKind[kind] {
			if !slices.Contains(packages, source) {
				packages = append(packages, source)
			}
		}
	}
	saved := listed.By == provider.ByRequest || listed.By == provider.ByVector
	switch {
	case want.By == provider.BySDK:
		want.Reason = ""
	case saved: // it is stronger than packages of others, which follow it
		want.By = listed.By
		packages = append(published(listed.Source), packages...)
	case want.By == "" && listed.By != "":
		want.By = provider.ByDocumentation
	}
	want.Source = strings.Join(packages, ", ")
	return want
}

// published returns the source of a request or a vector without packages.
func published(source string) []string {
	source = strings.Trim(packagePattern.ReplaceAllString(source, ""), ", ")
	if source == "" {
		return nil
	}
	return []string{source}
}

// writeEvidence replaces the line of the catalog.
func writeEvidence(t *testing.T, name provider.Name, e provider.Evidence) {
	t.Helper()
	file := filepath.Join("../../../provider/catalog", string(name)+".json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`"evidence": \{[^}]*\}`)
	if len(line.FindAll(text, -1)) != 1 {
		t.Fatalf("%s: want one evidence", file)
	}
	text = line.ReplaceAllLiteral(text, []byte(`"evidence": `+object(e)))
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// object returns the evidence as JSON in the form of the catalog's files.
func object(e provider.Evidence) string {
	var fields []string
	for _, field := range [][2]string{{"by", e.By}, {"source", e.Source}, {"reason", e.Reason}} {
		if field[1] != "" {
			fields = append(fields, fmt.Sprintf("%q: %q", field[0], field[1]))
		}
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

// isGo reports whether a subject's SDK is a Go module.
func isGo(s *providers.Subject) bool { return slices.Contains(providers.All(), s) }

// sourceOf returns the package of a subject with its version.
func sourceOf(t *testing.T, s *providers.Subject) string {
	t.Helper()
	if !isGo(s) {
		return "npm:" + s.SDK + "@" + dependencies(t)[s.SDK]
	}
	data, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^\s+` + regexp.QuoteMeta(s.SDK) + ` (v\S+)$`).FindSubmatch(data)
	if found == nil {
		t.Fatalf("go.mod does not require %s", s.SDK)
	}
	return "go:" + s.SDK + "@" + string(found[1])
}

// dependencies returns the versions of npm/package.json by package.
func dependencies(t *testing.T) map[string]string {
	t.Helper()
	var manifest struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	data, err := os.ReadFile("npm/package.json")
	if err == nil {
		err = json.Unmarshal(data, &manifest)
	}
	if err != nil {
		t.Fatal(err)
	}
	return manifest.Dependencies
}

// TestSubjects checks that names are unique, and that SDKs and packages belong together.
func TestSubjects(t *testing.T) {
	var names, used []string
	for _, s := range subjects {
		if _, err := provider.Lookup(provider.Name(s.Provider)); err != nil {
			t.Error(err)
		}
		if slices.Contains(names, s.Name()) {
			t.Errorf("two subjects are named %s: set variant", s.Name())
		}
		names = append(names, s.Name())
		if !isGo(s) {
			used = append(used, s.SDK)
		}
	}
	packages := dependencies(t)
	exact := regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.]+)?$`)
	for name, version := range packages {
		if !exact.MatchString(version) {
			t.Errorf("npm/package.json has %s %s: name one version", name, version)
		}
		if !slices.Contains(used, name) && !imported(t, name) {
			t.Errorf("npm/package.json has %s, which no file in npm/providers uses", name)
		}
	}
	for _, name := range used {
		if packages[name] == "" {
			t.Errorf("npm/package.json lacks %s", name)
		}
	}
}

// imported reports whether a file in npm/providers imports a package.
func imported(t *testing.T, name string) bool {
	t.Helper()
	files, err := filepath.Glob("npm/providers/*.mjs")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && bytes.Contains(text, []byte(`"`+name+`"`))
	})
}

// TestEvidence checks which evidence subjects make.
func TestEvidence(t *testing.T) {
	packages := dependencies(t)
	own := &providers.Subject{Provider: "stripe", SDK: "stripe"}
	third := &providers.Subject{Provider: "stripe", SDK: "x-hub-signature"}
	general := &providers.Subject{Provider: "stripe", SDK: "jose", Documented: true}
	npm := func(name string) string { return "npm:" + name + "@" + packages[name] }
	vector := provider.Evidence{By: provider.ByVector, Source: "github:x/y, its tests, npm:old@1.0.0", Reason: "none"}
	for _, test := range []struct {
		subjects     []*providers.Subject
		listed, want provider.Evidence
	}{
		{listed: provider.Evidence{}, want: provider.Evidence{}},
		{listed: provider.Evidence{By: provider.BySDK, Source: "npm:old@1.0.0"}, want: provider.Evidence{By: provider.ByDocumentation}},
		{listed: vector, want: provider.Evidence{By: provider.ByVector, Source: "github:x/y, its tests", Reason: "none"}},
		{
			[]*providers.Subject{general, third, own, own},
			vector,
			provider.Evidence{By: provider.BySDK, Source: npm("stripe") + ", " + npm("x-hub-signature") + ", " + npm("jose")},
		},
		{
			[]*providers.Subject{third},
			vector,
			provider.Evidence{By: provider.ByVector, Source: "github:x/y, its tests, " + npm("x-hub-signature"), Reason: "none"},
		},
		{
			[]*providers.Subject{general, third},
			provider.Evidence{By: provider.BySDK},
			provider.Evidence{By: provider.ByVerifier, Source: npm("x-hub-signature") + ", " + npm("jose")},
		},
		{[]*providers.Subject{general}, provider.Evidence{}, provider.Evidence{By: provider.ByProcedure, Source: npm("jose")}},
	} {
		if got := evidence(t, test.subjects, test.listed); got != test.want {
			t.Errorf("listed %s: got %s, want %s", object(test.listed), object(got), object(test.want))
		}
	}
}

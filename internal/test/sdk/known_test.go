package sdk

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/internal/test/sdk/providers"
	"github.com/hookonce/hookonce/provider"
)

var update = flag.Bool("update", false, "write known.json")

// known says how a provider of the catalog is checked here.
type known struct {
	SDK        []string `json:"sdk,omitempty"`        // its own packages or well-kept verifiers: npm:NAME@VERSION or go:PATH@VERSION
	Documented []string `json:"documented,omitempty"` // libraries of others, which its documentation verifies with
	Vectors    bool     `json:"vectors,omitempty"`    // genuine signed requests are checked
	Recorded   bool     `json:"recorded,omitempty"`   // recorded payloads are delivered
	None       string   `json:"none,omitempty"`       // why it is not checked here
}

const knownFile = "known.json"

// TestCatalog checks that known.json says of every provider of the catalog how it is checked here,
// or why it is not. With -update it writes the first; the reasons are written by hand.
func TestCatalog(t *testing.T) {
	data, err := os.ReadFile(knownFile)
	if err != nil {
		t.Fatal(err)
	}
	var listed map[string]known
	if err := json.Unmarshal(data, &listed); err != nil {
		t.Fatal(err)
	}
	want := map[string]known{}
	for _, s := range subjects {
		want[s.Provider] = want[s.Provider].with(s, sourceOf(t, s))
	}
	for _, name := range provider.Names() {
		name := string(name)
		if _, ok := want[name]; !ok {
			want[name] = known{None: listed[name].None}
			if want[name].None == "" {
				t.Errorf("%s is checked by no SDK: write the reason into %s", name, knownFile)
			}
		}
		if !*update && !reflect.DeepEqual(listed[name], want[name]) {
			t.Errorf("%s says %+v of %s, want %+v; run: go test -run TestCatalog -update", knownFile, listed[name], name, want[name])
		}
		delete(listed, name)
	}
	for name := range listed {
		t.Errorf("%s is not in the catalog: take it out of %s", name, knownFile)
	}
	if *update {
		writeKnown(t, want)
	}
}

func (k known) with(s *providers.Subject, source string) known {
	if s.Documented {
		k.Documented = insert(k.Documented, source)
	} else {
		k.SDK = insert(k.SDK, source)
	}
	k.Vectors = k.Vectors || s.Vectors != nil
	k.Recorded = k.Recorded || s.Recorded != nil
	return k
}

func insert(list []string, text string) []string {
	list = append(list, text)
	slices.Sort(list)
	return slices.Compact(list)
}

// writeKnown writes one line for each provider, so that changes of several people seldom meet.
func writeKnown(t *testing.T, all map[string]known) {
	t.Helper()
	var b bytes.Buffer
	b.WriteString("{")
	for i, name := range provider.Names() {
		var line bytes.Buffer
		encoder := json.NewEncoder(&line)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(all[string(name)]); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s\n  %q: %s", map[bool]string{false: ","}[i == 0], name, strings.TrimSpace(line.String()))
	}
	b.WriteString("\n}\n")
	if err := os.WriteFile(knownFile, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
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

package deps

import (
	"bytes"
	"path"
	"slices"
	"testing"
)

// Modules of Go and projects of npm. Each has dependencies that the library and the gateway must not
// have, so a new one needs a reason.
var (
	modules = []string{
		"bench/dbos/go.mod", "bench/river/go.mod", "examples/behind/go/go.mod", "go.mod", "internal/release/go.mod", "internal/test/acme/go.mod",
		"internal/test/browser/go.mod", "internal/test/orm/go.mod", "internal/test/sdk/go.mod",
	}
	projects = []string{
		"examples/behind/express/package.json", "examples/node/package.json", "internal/test/receivers/node/package.json",
		"internal/test/sdk/npm/package.json",
	}
)

func TestModules(t *testing.T) {
	t.Parallel()
	for base, want := range map[string][]string{"go.mod": modules, "package.json": projects} {
		var found []string
		for _, f := range files(t, func(name string) bool { return path.Base(name) == base }) {
			found = append(found, f.name)
		}
		slices.Sort(found)
		if !slices.Equal(found, want) {
			t.Errorf("the project has %v, want %v: a module or npm project brings dependencies", found, want)
		}
	}
}

// TestNoRegistry checks that lock files name no address to fetch from: the user's settings decide.
func TestNoRegistry(t *testing.T) {
	t.Parallel()
	for _, f := range files(t, func(name string) bool { return path.Base(name) == "package-lock.json" }) {
		for _, word := range []string{`"resolved"`, "registry."} {
			if bytes.Contains(f.text, []byte(word)) {
				t.Errorf("%s holds %s: run npm install where .npmrc leaves addresses out", f.name, word)
			}
		}
	}
}

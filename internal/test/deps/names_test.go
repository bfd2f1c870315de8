package deps

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// maxRootFiles is how many files, tests apart, the root may have. It is the thin face: code that does
// not speak with a sender or a user belongs below it.
const maxRootFiles = 28

// withoutNamesake are the test files of the root that need no file of the same name.
var withoutNamesake = []string{"example_test.go", "export_test.go"}

func TestTestFilesOfTheRootHaveNamesakes(t *testing.T) {
	t.Parallel()
	var names []string
	for _, f := range files(t, isRootGo) {
		names = append(names, f.name)
	}
	for _, name := range strangers(names) {
		t.Errorf("%s: there is no file that it tests: name it X_test.go or X_topic_test.go after the file X.go", name)
	}
	for _, name := range withoutNamesake {
		if !slices.Contains(names, name) {
			t.Errorf("withoutNamesake: there is no %s: remove it from the list", name)
		}
	}
}

// strangers returns the test files that are named after none of the other files.
func strangers(names []string) []string {
	var found []string
	for _, name := range names {
		if isTest(name) && !slices.Contains(withoutNamesake, name) && !hasNamesake(name, names) {
			found = append(found, name)
		}
	}
	return found
}

// hasNamesake reports whether names hold X.go for a test file named X_test.go or X_topic_test.go.
func hasNamesake(test string, names []string) bool {
	parts := strings.Split(strings.TrimSuffix(test, "_test.go"), "_")
	for n := range parts {
		if slices.Contains(names, strings.Join(parts[:n+1], "_")+".go") {
			return true
		}
	}
	return false
}

func TestStrangersFinds(t *testing.T) {
	t.Parallel()
	got := strangers([]string{
		"mux.go", "key_source.go", "mux_test.go", "mux_stale_test.go", "mux_two_words_test.go", "key_source_test.go", "export_test.go",
		"muxer_test.go", "stale_mux_test.go", "key_test.go", "export_more_test.go",
	})
	want := []string{"muxer_test.go", "stale_mux_test.go", "key_test.go", "export_more_test.go"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestTheRootHasFewFiles(t *testing.T) {
	t.Parallel()
	n := len(files(t, func(name string) bool { return isRootGo(name) && !isTest(name) }))
	if t.Logf("the root has %d files", n); n > maxRootFiles {
		t.Errorf("the root has %d files, more than %d: move code below it, into a package of internal", n, maxRootFiles)
	}
}

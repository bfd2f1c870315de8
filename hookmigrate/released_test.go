package hookmigrate_test

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// freeze is for a release. CONTRIBUTING.md says when.
var freeze = flag.Bool("freeze", false, "write the hashes of all steps, and databases of this build, into testdata")

// releasedSums lists the steps of releases, as sha256sum prints them.
const releasedSums = "testdata/released.sum"

// steps are the files of all steps, by folder and number.
func steps(t *testing.T) []string {
	t.Helper()
	names, err := fs.Glob(os.DirFS("."), "*/[0-9]*.sql")
	if err != nil || len(names) == 0 {
		t.Fatal("no steps: ", err)
	}
	return names
}

// A step that a release has applied to databases never changes.
func TestReleasedSteps(t *testing.T) {
	t.Parallel()
	sums, err := os.ReadFile(releasedSums)
	if errors.Is(err, fs.ErrNotExist) && !*freeze {
		t.Skip("no release has frozen the schema: " + releasedSums + " does not exist")
	}
	if err != nil && !*freeze {
		t.Fatal(err)
	}
	for _, fault := range changedSteps(os.DirFS("."), string(sums)) {
		t.Error(fault)
	}
	if !*freeze || t.Failed() {
		return
	}
	var list strings.Builder
	for _, name := range steps(t) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&list, "%x  %s\n", sha256.Sum256(text), name)
	}
	put(t, releasedSums, list.String())
}

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// changedSteps returns a fault for each listed file that is gone or has another hash.
func changedSteps(files fs.FS, sums string) (faults []string) {
	for line := range strings.Lines(sums) {
		sum, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			faults = append(faults, fmt.Sprintf("%s: %q is no line of sha256sum", releasedSums, line))
			continue
		}
		text, err := fs.ReadFile(files, name)
		switch {
		case err != nil:
			faults = append(faults, fmt.Sprintf("%s is released, and may not go: %v", name, err))
		case fmt.Sprintf("%x", sha256.Sum256(text)) != sum:
			faults = append(faults, name+" is released, and may not change: add a step")
		}
	}
	return faults
}

func TestChangedSteps(t *testing.T) {
	t.Parallel()
	const sums = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08  sqlite/0001_init.sql\n"
	for name, c := range map[string]struct {
		files  fstest.MapFS
		sums   string
		faults int
	}{
		"as released":       {fstest.MapFS{"sqlite/0001_init.sql": {Data: []byte("test")}}, sums, 0},
		"with another step": {fstest.MapFS{"sqlite/0001_init.sql": {Data: []byte("test")}, "sqlite/0002_more.sql": {}}, sums, 0},
		"edited":            {fstest.MapFS{"sqlite/0001_init.sql": {Data: []byte("test\n")}}, sums, 1},
		"removed":           {fstest.MapFS{"sqlite/0002_more.sql": {Data: []byte("test")}}, sums, 1},
		"a broken list":     {fstest.MapFS{}, "9f86d081\n", 1},
	} {
		if got := changedSteps(c.files, c.sums); len(got) != c.faults {
			t.Errorf("%s: %q", name, got)
		}
	}
}

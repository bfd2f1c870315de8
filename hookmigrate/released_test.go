package hookmigrate

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// releasedSums lists the steps of releases, as sha256sum prints them. CONTRIBUTING.md says when it is written.
const releasedSums = "testdata/released.sum"

// A step that a release has applied to databases never changes.
func TestReleasedSteps(t *testing.T) {
	t.Parallel()
	sums, err := os.ReadFile(releasedSums)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("no release has frozen the schema: " + releasedSums + " does not exist")
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range changedSteps(embedded, string(sums)) {
		t.Error(fault)
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

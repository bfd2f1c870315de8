package config

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what Check says into testdata/bad")

const separator = "\n----------\n"

// Each file of testdata/bad is named for the fault it holds: settings, the
// separator, and what Check says of them.
func TestBadSettings(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/bad/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			input, want, found := strings.Cut(string(data), separator)
			if !found && !*update {
				t.Fatalf("%s has no separator %q", file, strings.TrimSpace(separator))
			}
			got, ok := Check(LoadOptions{Dir: dirWith(t, input+"\n"), Environ: environ("SET=a-value-of-a-variable", "EMPTY=")})
			if ok {
				t.Errorf("%s is accepted", file)
			}
			if *update {
				if err := os.WriteFile(file, []byte(strings.TrimSuffix(input, "\n")+separator+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", file, diff)
			}
		})
	}
}

// dirWith returns a folder that holds the settings, and files for secrets.
func dirWith(t *testing.T, settings string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		DefaultFile: settings, "secret": "a-secret-out-of-a-file\n", "empty": "\n", "large": strings.Repeat("x", maxSecretFile+1),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func environ(entries ...string) func() []string {
	return func() []string { return entries }
}

package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/provider"
)

// The settings for each provider can be used once the variables of .env.example are set, and miss only
// those before. .env.example names each variable once.
func TestInitForEveryProvider(t *testing.T) {
	t.Parallel()
	for _, name := range provider.Names() {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			spec, err := provider.Lookup(name)
			if err != nil {
				t.Fatal(err)
			}
			b := &beginning{providers: []string{string(name)}, database: config.DefaultDatabase, forward: "http://127.0.0.1:3000/a?b=c"}
			w, err := b.settings()
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "hookonce.yaml")
			if err := os.WriteFile(file, []byte(w.yaml()), 0o600); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(w.yaml() + w.env()) {
				if n := len([]rune(line)) - 1; n > 80 && strings.HasPrefix(strings.TrimSpace(line), "# ") && strings.Count(line, " ") > 12 {
					t.Errorf("a comment of %d columns: %s", n, line)
				}
			}
			environ := snippetEnviron(t, spec, factsOf(spec))
			if said, ok := config.Check(config.LoadOptions{File: file, Environ: func() []string { return environ }}); !ok {
				t.Errorf("%s\n%s", said, w.yaml())
			}
			_, faults := config.Load(config.LoadOptions{File: file, Environ: func() []string { return nil }})
			if others := besidesUnset(faults); others != nil {
				t.Errorf("faults besides variables: %v\n%s", others, w.yaml())
			}
			var unset []string
			for i := 0; faults != nil && i < len(faults.List); i++ {
				if v := faults.List[i].Unset; v != "" && !slices.Contains(unset, v) {
					unset = append(unset, v)
				}
			}
			var named []string
			for line := range strings.Lines(w.env()) {
				if v, is := strings.CutSuffix(line, "=\n"); is {
					named = append(named, v)
				}
			}
			if !slices.Equal(named, unset) {
				t.Errorf(".env.example names %v, the settings %v", named, unset)
			}
		})
	}
}

// A file that cannot be written leaves none of the others.
func TestWriteNewWritesAllOrNone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("b"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := writeNew([]file{{at("a"), []byte("1")}, {at("b"), []byte("2")}})
	if !errors.Is(err, fs.ErrExist) {
		t.Errorf("the error is %v", err)
	}
	if text, err := os.ReadFile(at("b")); string(text) != "mine" {
		t.Errorf("b holds %q: %v", text, err)
	}
	undo, err := writeNew([]file{{at("a"), []byte("1")}, {at("c"), []byte("2")}})
	if err != nil {
		t.Fatal(err)
	}
	if err := undo(); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"a", "c"} {
		if _, err := os.Stat(at(name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there: %v", name, err)
		}
	}
}

// Package vectors finds saved requests of providers that are too large for the repository.
package vectors

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Variable names the folders with a file PROVIDER.json for each provider, as a list like PATH. A
// case of a later folder replaces the case of the same provider and name in earlier ones.
const Variable = "HOOKONCE_TEST_VECTORS"

// File is the file of one provider, with the cases of all folders.
type File struct {
	Provider   string            `json:"provider"`
	Cases      []json.RawMessage `json:"cases"`
	Handshakes []json.RawMessage `json:"handshake_cases"`
}

// Files returns the files of all folders, sorted by provider. It skips the test if Variable names
// no folder.
func Files(t *testing.T) []File {
	t.Helper()
	folders := filepath.SplitList(os.Getenv(Variable))
	if len(folders) == 0 {
		t.Skipf("set %s to folders of saved requests to run them", Variable)
	}
	var files []File
	for _, folder := range folders {
		paths, err := filepath.Glob(filepath.Join(folder, "*.json"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("no *.json in %s: %v", folder, err)
		}
		for _, path := range paths {
			file := read(t, path)
			i, found := slices.BinarySearchFunc(files, file.Provider, func(f File, name string) int {
				return strings.Compare(f.Provider, name)
			})
			if !found {
				files = slices.Insert(files, i, file)
				continue
			}
			files[i].Cases = replace(t, files[i].Cases, file.Cases)
			files[i].Handshakes = replace(t, files[i].Handshakes, file.Handshakes)
		}
	}
	return files
}

func read(t *testing.T, path string) File {
	t.Helper()
	var file File
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &file)
	}
	if err != nil || file.Provider == "" {
		t.Fatalf("%s names no provider: %v", path, err)
	}
	return file
}

// replace returns cases with those of later in the places of the same names, or at the end.
func replace(t *testing.T, cases, later []json.RawMessage) []json.RawMessage {
	t.Helper()
	for _, c := range later {
		name := nameOf(t, c)
		i := slices.IndexFunc(cases, func(old json.RawMessage) bool { return nameOf(t, old) == name })
		if i < 0 {
			cases = append(cases, c)
		} else {
			cases[i] = c
		}
	}
	return cases
}

func nameOf(t *testing.T, data json.RawMessage) string {
	t.Helper()
	var c struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(data, &c); err != nil || c.Name == "" {
		t.Fatalf("a case has no name: %v", err)
	}
	return c.Name
}

// Cases decodes the cases of a file.
func Cases[T any](t *testing.T, cases []json.RawMessage) []T {
	t.Helper()
	decoded := make([]T, len(cases))
	for i, data := range cases {
		if err := json.Unmarshal(data, &decoded[i]); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
	}
	return decoded
}

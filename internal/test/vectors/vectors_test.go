package vectors_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/internal/test/vectors"
)

// TestFiles checks that a later folder corrects the cases of an earlier one, and adds others.
func TestFiles(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{
		filepath.Join(first, "b.json"):  `{"provider":"b","cases":[{"name":"1","body":"old"},{"name":"2","body":"kept"}]}`,
		filepath.Join(first, "c.json"):  `{"provider":"c","handshake_cases":[{"name":"1"}]}`,
		filepath.Join(second, "a.json"): `{"provider":"a","cases":[{"name":"1","body":"other"}]}`,
		filepath.Join(second, "b.json"): `{"provider":"b","cases":[{"name":"3","body":"added"},{"name":"1","body":"new"}]}`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(vectors.Variable, first+string(os.PathListSeparator)+second)
	got := map[string][]string{}
	for _, file := range vectors.Files(t) {
		for _, c := range vectors.Cases[struct{ Name, Body string }](t, append(file.Cases, file.Handshakes...)) {
			got[file.Provider] = append(got[file.Provider], c.Name+" "+c.Body)
		}
	}
	if diff := cmp.Diff(map[string][]string{"a": {"1 other"}, "b": {"1 new", "2 kept", "3 added"}, "c": {"1 "}}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

package sqlitestore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Both calls of the system, the second one for sandboxes, identify a file alike.
func TestLookAt(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "file")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, look := range map[string]func(string) (file, int64, error){"statx": lookAt, "stat": lookAtAll} {
		write("four")
		first, size, err := look(path)
		if err != nil || size != 4 {
			t.Errorf("%s: %d bytes, error %v", name, size, err)
		}
		if same, _, err := lookAt(path); err != nil || !same.is(first) {
			t.Errorf("%s: the file is another one, error %v", name, err)
		}
		if err := os.Rename(path, path+".moved"); err != nil {
			t.Fatal(err)
		}
		if _, _, err := look(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s of a file that was moved: %v", name, err)
		}
		write("more")
		if other, _, err := look(path); err != nil || other.is(first) {
			t.Errorf("%s: another file in its place counts as the same one, error %v", name, err)
		}
	}
}

package settingfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

func TestRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, size := range map[string]int{"full": 8, "large": 9} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "full"): "", filepath.Join(dir, "large"): "more than 8 bytes", dir: "not a regular file",
		filepath.Join(dir, "none"): fs.ErrNotExist.Error(), os.DevNull: "not a regular file",
	} {
		file, err := Read(path, 8)
		if want == "" && err == nil && len(file.Data) == 8 {
			continue
		}
		if err == nil || !errors.Is(err, fs.ErrNotExist) && !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), dir) {
			t.Errorf("%s: error %v, want %q without the path", path, err, want)
		}
	}
	if file, err := ReadAny(os.DevNull, 8); err != nil || len(file.Data) != 0 {
		t.Errorf("an empty device: %v, %v", file, err)
	}
}

// A disk that does not answer holds one thread for each path, however often it is tried.
func TestReadingEndsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		var calls atomic.Int64
		hang := func() (*File, error) {
			calls.Add(1)
			<-answer
			return new(File), nil
		}
		for range 3 {
			if _, err := within("a", hang); !errors.Is(err, errLate) {
				t.Errorf("error %v, want %v", err, errLate)
			}
		}
		if _, err := within("b", func() (*File, error) { return new(File), nil }); err != nil || calls.Load() != 1 {
			t.Errorf("error of another path %v; %d readings of the first one, want 1", err, calls.Load())
		}
		close(answer)
		if _, err := within("a", hang); err != nil || calls.Load() != 2 {
			t.Errorf("error %v after %d readings, want none after 2", err, calls.Load())
		}
	})
}

func TestShared(t *testing.T) {
	t.Parallel()
	for mode, want := range map[fs.FileMode][2]string{
		0o660: {}, 0o664: {"read"}, 0o662: {"change", "change"}, 0o666: {"read and change", "change"},
	} {
		secret, _ := (&File{mode: mode}).shared(true)
		public, _ := (&File{mode: mode}).shared(false)
		if diff := cmp.Diff(want, [2]string{secret, public}); diff != "" {
			t.Errorf("%o, a secret and a public file (-want +got):\n%s", mode, diff)
		}
	}
}

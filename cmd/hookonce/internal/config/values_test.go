package config

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestWorldReadableSecret(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("files have no permissions for others on Windows")
	}
	dir := dirWith(t, "admin: {token: 'file:secret'}\n")
	if err := os.Chmod(filepath.Join(dir, "secret"), 0o604); err != nil {
		t.Fatal(err)
	}
	text, ok := Check(LoadOptions{Dir: dir, Environ: environ()})
	want := "hookonce.yaml:1:16: warning: admin.token: every user of this machine can read the file that file: names; forbid that with chmod o-r\n"
	if !ok || text != want {
		t.Errorf("got %v, %s", ok, text)
	}
}

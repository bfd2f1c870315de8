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

// Defaults hold no braces; braces around variables, and escaped ones, are plain text.
func TestExpand(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"${SET}":                 "value",
		"{${SET}}":               "{value}",
		"{${UNSET:-x}.{body}}":   "{x.{body}}",
		"}${UNSET:-x}":           "}x",
		"a${UNSET:-}b":           "ab",
		"${SET}}":                "value}",
		"$${SET}":                "${SET}",
		"$${A:-${SET}}":          "${A:-value}",
		"$${A:-${UNSET:-x}}":     "${A:-x}",
		"$SET $ {SET}":           "$SET $ {SET}",
		"${UNSET:-a:-b}":         "a:-b",
		"${LITERAL} ${UNSET:-$}": "${SET} $",
	} {
		l := &loader{env: map[string]string{"SET": "value", "LITERAL": "${SET}"}, used: make(map[string]bool)}
		if got, ok := l.expand(&node{kind: kindText, raw: raw}); got != want || !ok {
			t.Errorf("%s is %q, %t (%v), want %q", raw, got, ok, l.faults, want)
		}
	}
	for _, raw := range []string{
		"${UNSET:-${SET}}", "${SET:-${SET}}", "${UNSET:-{x}}", "${UNSET:-a}b}", "{${UNSET:-a}b}}", "${UNSET:-a", "${", "${SET${SET}}", "${UNSET-x}",
	} {
		l := &loader{env: map[string]string{"SET": "value"}, used: make(map[string]bool)}
		if got, ok := l.expand(&node{kind: kindText, raw: raw, line: 3, col: 7}); ok || len(l.faults) == 0 || l.faults[0].Line != 3 || l.faults[0].Col != 7 {
			t.Errorf("%s is %q, %t, with the faults %v; want a fault at 3:7", raw, got, ok, l.faults)
		}
	}
}

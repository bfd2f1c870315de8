package config

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"

	"github.com/hookonce/hookonce/internal/test/brokertest"
)

// Config check warns of files that others can read though they are secret, or change.
func TestFilesThatOthersShare(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("files have no permissions for others on Windows")
	}
	const (
		admin = "hookonce.yaml:1:16: warning: admin.token: every user of this machine can "
		named = " the file that file: names; forbid that with "
	)
	dir := dirWith(t, "admin: {token: 'file:secret'}\n")
	for mode, want := range map[os.FileMode]string{
		0o660: "", 0o604: admin + "read" + named + "chmod o-r\n", 0o602: admin + "change" + named + "chmod o-w\n",
	} {
		if err := os.Chmod(filepath.Join(dir, "secret"), mode); err != nil {
			t.Fatal(err)
		}
		if text, ok := Check(LoadOptions{Dir: dir, Environ: environ()}); !ok || text != want {
			t.Errorf("%o: got %v, %s, want %s", mode, ok, text, want)
		}
	}
}

// A missing file is named, also if nothing mounted its folder. What may be a secret behind file: is not.
func TestMissingSecretFileIsNamed(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for path, named := range map[string]bool{
		folder + "/none": true, folder + "/none/none": true, "/no-such-root/c2VjcmV0/none": false, "/c2VjcmV0": false, "c2VjcmV0": false,
	} {
		dir := dirWith(t, "admin: {token: 'file:"+path+"'}\n")
		text, ok := Check(LoadOptions{Dir: dir, Environ: environ()})
		if ok || strings.Contains(text, path) != named || !strings.Contains(text, "cannot be read: no such file or directory") {
			t.Errorf("%s: %v, %s", path, ok, text)
		}
	}
}

// The files that the URL of a broker names are checked like secrets.
func TestFilesOfBrokers(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("files have no permissions for others on Windows")
	}
	ca, _ := brokertest.Certificate(t)
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	creds := filepath.Join(t.TempDir(), "creds")
	text := "-----BEGIN NATS USER JWT-----\na.b.c\n------END NATS USER JWT------\n\n" +
		"-----BEGIN USER NKEY SEED-----\n" + string(seed) + "\n------END USER NKEY SEED------\n"
	if err := os.WriteFile(creds, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{ca: 0o646, creds: 0o644} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	for query, want := range map[string]string{
		"ca=" + ca:            "warning: destinations.a.url: every user of this machine can change the file of its ca; forbid that with chmod o-w",
		"creds=" + creds:      "warning: destinations.a.url: every user of this machine can read the file of its creds; forbid that with chmod o-r",
		"ca=" + os.DevNull:    "the file of the URL's ca, " + os.DevNull + ", cannot be read: it is not a regular file",
		"creds=" + os.DevNull: "the file of the URL's creds, " + os.DevNull + ", cannot be read: it is not a regular file",
		"creds=" + ca:         "the file of the URL's creds holds no credentials of a NATS user",
	} {
		dir := dirWith(t, "destinations: {a: {url: 'nats://h/s?"+query+"'}}\n")
		got, _ := Check(LoadOptions{Dir: dir, Environ: environ()})
		if !strings.Contains(got, want) || strings.Contains(got, string(seed)) {
			t.Errorf("%s: got %s, want %s", query, got, want)
		}
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

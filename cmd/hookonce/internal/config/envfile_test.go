package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The file of env_file is beside the settings, wherever the process runs, and is read again with them. It
// wins over the environment, which a running process keeps.
func TestEnvFile(t *testing.T) {
	t.Parallel()
	dir, text := t.TempDir(), "env_file: env\nsources: {a: {provider: github, secrets: ['${A_SECRET}']}, b: {provider: github, secrets: ['${B_SECRET}']}}"
	settings, env := filepath.Join(dir, "hookonce.yaml"), filepath.Join(dir, "env")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(settings, text)
	opts := LoadOptions{File: settings, Dir: t.TempDir(), Environ: environ("A_SECRET=of-the-environment", "B_SECRET=another-of-the-environment")}
	reads := func(a string, kept ...string) {
		t.Helper()
		s := mustLoad(t, opts)
		if got := secretsOf(t, &s.Engine); got["a"][0] != a || got["b"][0] != "another-of-the-environment" || !slices.Equal(s.FromEnvironment, kept) {
			t.Errorf("secrets %q, kept %q; want %q and %q", got, s.FromEnvironment, a, kept)
		}
	}
	reads("of-the-environment", "A_SECRET", "B_SECRET")
	write(env, "# the first secret\nexport A_SECRET=the-first-one-of-the-file\n")
	reads("the-first-one-of-the-file", "B_SECRET")
	write(env, "\nA_SECRET='the next one; $of the file'\r\nOTHER=\n")
	reads("the next one; $of the file", "B_SECRET")
	write(env, "\ufeffA_SECRET=behind-a-mark\n")
	reads("behind-a-mark", "B_SECRET")

	opts.Environ = environ("A_SECRET=of-the-environment")
	if _, faults := Load(opts); faults == nil || !strings.Contains(faults.Error(), "B_SECRET is not set (set it in "+env+", or ") {
		t.Errorf("a variable that is nowhere: %v", faults)
	}
	for _, line := range []string{"A SECRET=hidden", "hidden", "A='hid'den'", `A="hidden$b"`, "A=hidden # text", "A='hidden", "A='"} {
		write(env, "A_SECRET=x\n"+line)
		_, faults := Load(opts)
		if faults == nil || !strings.Contains(faults.Error(), ":1:11: env_file: "+env+":2: ") || strings.Contains(faults.Error(), "hid") {
			t.Errorf("%q: %v", line, faults)
		}
	}
	for _, text := range []string{"\xff\xfeA\x00=\x00x\x00", "\xfe\xff\x00A\x00=\x00x", "A\x00=\x00x\x00", "\xff\xfe"} {
		write(env, text)
		if _, faults := Load(opts); faults == nil || !strings.Contains(faults.Error(), "env_file: the file "+env+" is in UTF-16, or holds NUL bytes") {
			t.Errorf("%q: %v", text, faults)
		}
	}
	write(settings, "env_file: .")
	if _, faults := Load(opts); faults == nil || !strings.Contains(faults.Error(), "env_file: the file "+dir+" cannot be read: it is not a regular file") {
		t.Errorf("a folder: %v", faults)
	}
}

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// published makes a folder with a release of one program, and the script that installs it.
func published(t *testing.T, version, says string) (folder, script string) {
	t.Helper()
	folder = t.TempDir()
	r := &release{version: version, snapshot: true}
	key, err := r.signingKey(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("hookonce_%s_%s_%s", version[1:], runtime.GOOS, runtime.GOARCH)
	program := entry{name: name + "/hookonce", mode: 0o755, data: []byte("#!/bin/sh\necho " + says + "\n")}
	archive, err := tarGzipped(withFolders([]entry{program}), "", time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, name+".tar.gz"), archive)
	if err := r.sign(t.Context(), folder, key); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../deploy/package/install.sh")
	if err != nil {
		t.Fatal(err)
	}
	script = filepath.Join(t.TempDir(), "install.sh")
	write(t, script, []byte(strings.NewReplacer("@VERSION@", version, "@KEY@", r.key).Replace(string(text))))
	return folder, script
}

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// install.sh installs only a program that is signed for its version. Otherwise it leaves the old program alone.
func TestInstall(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("minisign"); err != nil {
		t.Fatal("install minisign")
	}
	change := func(name string, change func([]byte) []byte) func(*testing.T, string) {
		return func(t *testing.T, folder string) {
			t.Helper()
			files, err := filepath.Glob(filepath.Join(folder, name))
			if err != nil || len(files) != 1 {
				t.Fatal(files, err)
			}
			data, err := os.ReadFile(files[0])
			if err != nil {
				t.Fatal(err)
			}
			write(t, files[0], change(data))
		}
	}
	replaced := func(names ...string) func(*testing.T, string) {
		return func(t *testing.T, folder string) {
			t.Helper()
			other, _ := published(t, "v1.2.3", "evil")
			for _, name := range names {
				change(name, func([]byte) []byte {
					files, _ := filepath.Glob(filepath.Join(other, name))
					data, err := os.ReadFile(files[0])
					if err != nil {
						t.Fatal(err)
					}
					return data
				})(t, folder)
			}
		}
	}
	for name, c := range map[string]struct {
		harm  func(t *testing.T, folder string)
		fault string // "" if it installs
	}{
		"as published": {},
		"a corrupted archive": {
			change("*.tar.gz", func(data []byte) []byte { data[len(data)/2] ^= 1; return data }), "is not the signed file",
		},
		"an archive that is cut off": {
			change("*.tar.gz", func(data []byte) []byte { return data[:len(data)-9] }), "is not the signed file",
		},
		"other checksums": {
			change("SHA256SUMS", func(data []byte) []byte { data[0] ^= 1; return data }), "not signed by the key",
		},
		"an archive and checksums of a stranger":     {replaced("*.tar.gz", "SHA256SUMS"), "not signed by the key"},
		"a whole release that a stranger has signed": {replaced("*.tar.gz", "SHA256SUMS", "SHA256SUMS.minisig"), "not signed by the key"},
		"another version in the signed comment": {
			change("SHA256SUMS.minisig", func(data []byte) []byte {
				return []byte(strings.Replace(string(data), "hookonce v1.2.3", "hookonce v1.2.4", 1))
			}), "not signed by the key",
		},
		"no signature": {
			func(t *testing.T, folder string) {
				t.Helper()
				if err := os.Remove(filepath.Join(folder, "SHA256SUMS.minisig")); err != nil {
					t.Fatal(err)
				}
			}, "cannot fetch",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder, script := published(t, "v1.2.3", "new")
			if c.harm != nil {
				c.harm(t, folder)
			}
			installed(t, folder, script, c.fault)
		})
	}
}

// The files of an old release, signed by the right key, are no new release.
func TestInstallOld(t *testing.T) {
	t.Parallel()
	folder, script := published(t, "v1.2.3", "old")
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	write(t, script, []byte(strings.ReplaceAll(string(text), "v1.2.3", "v1.3.0")))
	names, err := filepath.Glob(filepath.Join(folder, "*.tar.gz"))
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	if err := os.Rename(names[0], strings.Replace(names[0], "1.2.3", "1.3.0", 1)); err != nil {
		t.Fatal(err)
	}
	installed(t, folder, script, `are those of "hookonce v1.2.3"`)
}

// installed runs the script over an old program, and checks which program is there afterwards.
func installed(t *testing.T, folder, script, fault string) {
	t.Helper()
	into := t.TempDir()
	program := filepath.Join(into, "hookonce")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho before\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", script)
	cmd.Env = append(os.Environ(), "HOOKONCE_INTO="+into, "HOOKONCE_FROM=file://"+folder)
	said, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) || (err == nil) != (fault == "") || !strings.Contains(string(said), fault) {
		t.Errorf("install.sh: %v, want the fault %q\n%s", err, fault, said)
	}
	want := "new"
	if fault != "" {
		want = "before"
	}
	if now, err := exec.CommandContext(t.Context(), program).Output(); err != nil || strings.TrimSpace(string(now)) != want {
		t.Errorf("the program says %q, %v, want %s", now, err, want)
	}
	if left, err := os.ReadDir(into); err != nil || len(left) != 1 {
		t.Errorf("the folder has %v, %v", left, err)
	}
}

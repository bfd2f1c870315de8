//go:build unix

package app

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// The address in a lock file counts only while a process holds the lock, and only in a file that
// other users can neither write nor read.
func TestAnnouncedAddress(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "test.db")
	lock, err := lockInstance(path)
	if err != nil {
		t.Fatal(err)
	}
	want := func(when, address string) {
		t.Helper()
		if got, own := announced(path); got != address || own != (address != "") {
			t.Errorf("%s: %q, own: %t; want %q", when, got, own, address)
		}
	}
	want("before it listens", "")
	p := &presence{lock: lock}
	if err := p.announce(&net.TCPAddr{IP: net.IPv6unspecified, Port: 8081}); err != nil {
		t.Fatal(err)
	}
	want("while it runs", "http://[::1]:8081")
	if who, serves, err := whoServes(path); !serves || who == "" || err != nil {
		t.Errorf("the holder is %q, %t, %v", who, serves, err)
	}
	if err := os.Chmod(path+lockSuffix, 0o640); err != nil {
		t.Fatal(err)
	}
	want("a file that the group reads", "")
	if err := os.Chmod(path+lockSuffix, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.release(); err != nil {
		t.Fatal(err)
	}
	// A program that another test is starting holds the lock for a moment, until its exec.
	eventually.True(t, "nothing is announced after it ended", func() bool {
		address, _ := announced(path)
		return address == ""
	})
	again, err := lockInstance(path) // accepts its own kind of content
	if err != nil {
		t.Fatal(err)
	}
	defer again.release()
	want("before the next one listens", "")
}

func TestParseLock(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		pid   int
		admin string
		ok    bool
	}{
		"12\n":                                 {12, "", true},
		"12":                                   {12, "", true},
		"12\nhttp://127.0.0.1:8081\n":          {12, "http://127.0.0.1:8081", true},
		"12\nhttp://127.0.0.1:80":              {12, "", true}, // being written
		"12\nhtt":                              {12, "", true},
		"12\nhttp://[::1]:8081\n":              {12, "http://[::1]:8081", true},
		"12\nhttp://evil.example:8081\n":       {},
		"12\nhttp://127.0.0.1:8081/path\n":     {},
		"12\nhttps://127.0.0.1:8081\n":         {},
		"12\nhttp://u:p@127.0.0.1:8081\n":      {},
		"12\nhttp://127.0.0.1:8081\nanother\n": {},
		"12\nthe file of another program":      {},
		"":                                     {},
	} {
		pid, admin, ok := parseLock(text)
		if ok != want.ok || ok && (pid != want.pid || admin != want.admin) {
			t.Errorf("%q: %d, %q, %t; want %+v", text, pid, admin, ok, want)
		}
	}
}

// The folder for presence files must not be one that another user can write to.
func TestFolderOfPresences(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	own, open, link := filepath.Join(dir, "own"), filepath.Join(dir, "open"), filepath.Join(dir, "link")
	if err := makePrivateFolder(own); err != nil {
		t.Fatal(err)
	}
	if err := makePrivateFolder(own); err != nil {
		t.Errorf("a second time: %v", err)
	}
	if err := os.Mkdir(open, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(own, link); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{open, link} {
		if makePrivateFolder(folder) == nil || checkPrivateFolder(folder) == nil {
			t.Errorf("%s is accepted", folder)
		}
	}
}

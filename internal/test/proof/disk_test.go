package proof

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/internal/test/dbtest"
)

// disk is a file system in a file. A power cut leaves the blocks in the file: all that were flushed, and perhaps others.
// Blocks that only the kernel's memory held are gone.
type disk struct {
	folder string // where it is mounted
	images string // the folder of the files
	cuts   int
}

func newDisk(t testing.TB) *disk {
	t.Helper()
	d := &disk{folder: filepath.Join(dbtest.Folder(t, "hookonce-disk-"), "disk"), images: dbtest.Folder(t, "hookonce-images-")}
	if err := os.Mkdir(d.folder, 0o755); err != nil {
		t.Fatal(err)
	}
	d.must(t, "truncate", "--size=1G", d.image())
	// Without the options the kernel would go on preparing the file system in the background.
	d.must(t, "mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0,root_owner=0:0", d.image())
	d.mount(t)
	t.Cleanup(func() { d.must(t, "umount", "--lazy", d.folder) })
	if err := os.Chmod(d.folder, 0o777); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *disk) image() string { return filepath.Join(d.images, fmt.Sprint(d.cuts)) }

func (d *disk) mount(t testing.TB) {
	t.Helper()
	d.must(t, "mount", "-o", "loop,noatime", d.image(), d.folder)
}

// cut replaces the disk by the one that a power cut would leave. No process may be writing: frozen ones keep the old disk,
// and are killed next.
func (d *disk) cut(t testing.TB) {
	t.Helper()
	device := filepath.Base(strings.TrimSpace(d.must(t, "findmnt", "--noheadings", "--output", "SOURCE", d.folder)))
	old := d.image()
	d.cuts++
	for before := writes(t, device); ; {
		d.must(t, "cp", "--sparse=always", old, d.image())
		after := writes(t, device)
		if after == before {
			break // otherwise the kernel has written in the middle, and the copy is of no moment
		}
		before = after
	}
	d.must(t, "umount", "--lazy", d.folder)
	d.mount(t)
	if err := os.Remove(old); err != nil { // its device keeps it
		t.Fatal(err)
	}
}

// writes returns how often a device was written to, and how many writes are in progress.
func writes(t testing.TB, device string) string {
	t.Helper()
	text, err := os.ReadFile("/sys/block/" + device + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text)) // see Documentation/block/stat.rst of the kernel
	return fields[4] + " " + fields[6] + " " + fields[8]
}

func (d *disk) must(t testing.TB, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}

//go:build linux || darwin

package hooksql_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hooksql"
)

// childIOError makes a child get an I/O error in the middle of a COMMIT: the kernel refuses to let
// the log grow, with another error than that of a full disk.
const childIOError = "HOOKONCE_TEST_CHILD_IOERROR"

func init() {
	if path := os.Getenv(childIOError); path != "" {
		ioErrorChild(path)
		os.Exit(0)
	}
}

func ioErrorChild(path string) {
	signal.Ignore(syscall.SIGXFSZ) // so that the write fails instead
	store, err := hooksql.OpenSQLite("sqlite", path)
	if err != nil {
		panic(err)
	}
	// Otherwise the next commits overwrite the log, which opening has copied into the database.
	if _, err := store.Writer().Exec(`PRAGMA wal_checkpoint(TRUNCATE)`); err != nil {
		panic(err)
	}
	report := func(id string) {
		err := claim(context.Background(), store, id)
		fmt.Println(id, err == nil, errors.Is(err, driver.ErrCommitUnknown), errors.Is(err, driver.ErrUnavailable))
	}
	report("before")
	info, err := os.Stat(path + "-wal")
	if err != nil {
		panic(err)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		panic(err)
	}
	unlimited := limit.Cur
	limitFileSize := func(size uint64) {
		limit.Cur = size
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			panic(err)
		}
	}
	limitFileSize(uint64(info.Size()) + 2000) // within the first page of the next commit
	report("during")
	limitFileSize(unlimited)
	report("after")
	if err := store.Close(); err != nil {
		panic(err)
	}
}

// TestIOErrorInCommitIsUnknown: the store reports an unknown outcome, and works again when the disk
// does.
func TestIOErrorInCommitIsUnknown(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hookonce.db")
	store := openMigrated(t, path)
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childIOError+"="+path)
	var out, complaints bytes.Buffer
	child.Stdout, child.Stderr = &out, &complaints
	if err := child.Run(); err != nil {
		t.Fatalf("child: %v\n%s", err, complaints.String())
	}
	// id, claimed, outcome unknown, unavailable
	want := "before true false false\nduring false true false\nafter true false false\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
	for _, id := range []string{"before", "after"} {
		if !has(t, store, id) {
			t.Errorf("event %s was acknowledged and is lost", id)
		}
	}
}

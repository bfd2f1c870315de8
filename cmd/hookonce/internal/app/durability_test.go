package app

import (
	"path/filepath"
	"testing"
)

func TestSharedFileSystemsAreRefused(t *testing.T) {
	t.Parallel()
	wantHint(t, judgeFileSystem("/mnt/x.db", "NFS", []string{"fsync"}), "/mnt/x.db is on a file system that other machines may share (NFS)",
		"allow_unsafe: [shared_filesystem]")
	if err := judgeFileSystem("/mnt/x.db", "NFS", []string{"shared_filesystem"}); err != nil {
		t.Error(err)
	}
	if err := judgeFileSystem("/var/x.db", "", nil); err != nil {
		t.Error(err)
	}
	if _, err := sharedFileSystem(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a missing folder has a file system")
	}
}

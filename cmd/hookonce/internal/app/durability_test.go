package app

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/group"
)

func TestFileSystemsAreRefused(t *testing.T) {
	t.Parallel()
	nfs, tmpfs := fileSystem{"NFS", placeShared}, fileSystem{"tmpfs", placeMemory}
	wantHint(t, judgeFileSystem("/mnt/x.db", nfs, []string{"fsync", "volatile_filesystem"}),
		"/mnt/x.db is on a file system that other machines may share (NFS)", "allow_unsafe: [shared_filesystem]")
	wantHint(t, judgeFileSystem("/run/x.db", tmpfs, []string{"shared_filesystem"}),
		"/run/x.db is in memory (tmpfs): commits do not survive a restart", "allow_unsafe: [volatile_filesystem]")
	for _, found := range []fileSystem{nfs, tmpfs, {}, {"overlay", placeLayer}} {
		if err := judgeFileSystem("/mnt/x.db", found, []string{"shared_filesystem", "volatile_filesystem"}); err != nil {
			t.Errorf("%v: %v", found, err)
		}
	}
	if _, err := fileSystemOf(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a missing folder has a file system")
	}
}

// TestDoctorOnNeon has the settings of Neon, where fsync is always off.
func TestDoctorOnNeon(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	server := dbtest.StartServer(t, &dbtest.Options{Config: []string{
		"fsync=off", "neon.tenant_id=t", "neon.timeline_id=l", "synchronous_standby_names=walproposer",
	}})
	server.ReceiveLog(t, "walproposer")
	s := settings(t, "database: "+server.DSN())
	serve(t, s).await(t, "admin")
	_, checks := statuses(t, s)
	want := Check{Name: "durability", Status: StatusOK, Seen: []string{"Neon: fsync is off, as always there; its safekeepers store the log"}}
	if diff := cmp.Diff(want, check(t, checks, "durability")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

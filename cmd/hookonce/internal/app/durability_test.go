package app

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/internal/test/dbtest"
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

// TestDoctorOnNeon has the settings of Neon, where fsync is always off.
func TestDoctorOnNeon(t *testing.T) {
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

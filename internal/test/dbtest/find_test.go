package dbtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestRefuseServices(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "policy")
	refuse := func() func() {
		t.Helper()
		allow, err := refuseServices(path)
		if err != nil {
			t.Fatal(err)
		}
		return allow
	}
	wantCode := func(want int) {
		t.Helper()
		cmd := exec.Command("sh", path)
		_ = cmd.Run() // its code counts
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("the policy ends with %d, want %d", got, want)
		}
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	allow := refuse()
	wantCode(101)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	allow()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the policy still exists: %v", err)
	}

	// The policy of a process that was killed forbids nothing, and is replaced.
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	write(strings.Replace(string(text), fmt.Sprint(os.Getpid()), fmt.Sprint(ended.Process.Pid), 1))
	wantCode(0)
	allow = refuse()
	wantCode(101)
	allow()

	write("exit 7\n") // the host's own
	refuse()()
	wantCode(7)
}

// Programs of a package can be there before the user that they run as: nothing is looked for while another test binary
// installs.
func TestInstallWaitsForOthers(t *testing.T) {
	t.Parallel()
	if !canInstall() {
		t.Skip("only root of a Debian installs packages")
	}
	err := install(func() error {
		if unlock, err := lockFile(aptLock(), lockExclusive|lockNow); err == nil {
			unlock()
			t.Error("another test binary could install during the look")
		}
		return nil
	}, nil)
	if err != nil {
		t.Error(err)
	}
}

package packaging

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestUnit holds the unit of the deb against systemd, and the gateway against the unit's filter of system calls. No
// systemd runs here, so strace records the calls.
func TestUnit(t *testing.T) {
	tools(t, "systemd-analyze=systemd", "strace=strace", "ip=iproute2", "minisign=minisign")
	folder := t.TempDir()
	must(t, "dpkg-deb", "-x", one(t, release(t, "v0.0.1"), "*.deb"), folder)
	program, file := filepath.Join(folder, "usr/bin/hookonce"), filepath.Join(folder, "hookonce.service")
	text, err := os.ReadFile(filepath.Join(folder, "usr/lib/systemd/system/hookonce.service"))
	if err != nil {
		t.Fatal(err)
	}
	unit := strings.ReplaceAll(string(text), "/usr/bin/hookonce", program)
	for name, text := range map[string]string{file: unit, folder + "/hookonce.yaml": settings, folder + "/env": environment} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if said := must(t, "systemd-analyze", "verify", "--man=no", file); said != "" {
		t.Errorf("systemd-analyze verify: %s", said)
	}
	must(t, "systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold=15", file) // of 100; a unit without any has 96

	may := map[string]bool{}
	for _, line := range regexp.MustCompile(`(?m)^SystemCallFilter=(~?)(.*)$`).FindAllStringSubmatch(unit, -1) {
		for _, name := range strings.Fields(line[2]) {
			mark(t, may, name, line[1] == "")
		}
	}
	may["fchown"] = true // SQLite calls it as root alone, as here
	// The same event twice; one forward, and its answer.
	must(t, "unshare", "--net", "timeout", "100", "sh", "-ec", `cd "$1"; ip link set lo up; . ./env
strace -f -qq -o calls "$0" serve --config hookonce.yaml & gateway=$!
until "$0" ready --admin-url http://127.0.0.1:8081; do kill -0 $gateway; done
"$0" `+strings.Join(sending, " ")+` --secret $GITHUB_WEBHOOK_SECRET
kill -TERM $(cat /proc/$gateway/task/$gateway/children); wait $gateway`, program, folder)
	calls, err := os.ReadFile(folder + "/calls")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, call := range regexp.MustCompile(`(?m)^\d+ +(\w+)\(`).FindAllStringSubmatch(string(calls), -1) {
		if !seen[call[1]] && !may[call[1]] {
			t.Errorf("the unit forbids the system call %s", call[1])
		}
		seen[call[1]] = true
	}
	if !seen["fdatasync"] && !seen["fsync"] || !seen["accept4"] || !seen["connect"] {
		t.Errorf("the test is void: the gateway has stored or forwarded nothing; its calls are %v", seen)
	}
	t.Logf("%d kinds of system calls", len(seen))
}

// mark sets whether a system call, or each of a group, is permitted.
func mark(t *testing.T, may map[string]bool, name string, permitted bool) {
	t.Helper()
	if !strings.HasPrefix(name, "@") {
		may[name] = permitted
		return
	}
	for line := range strings.Lines(must(t, "systemd-analyze", "syscall-filter", "--no-pager", name)) {
		if member := strings.TrimSpace(line); member != name && member != "" && !strings.HasPrefix(member, "#") {
			mark(t, may, member, permitted)
		}
	}
}

package cli_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// ready finds the gateway of the database by itself, also with settings that cannot be used otherwise,
// and with --admin-url without any. It goes off first, so that load balancers send nothing more before the gateway refuses
// deliveries. A second signal ends the delay; acknowledged events are kept.
func TestReady(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "hookonce.yaml")
	writeFile(t, file, "shutdown_delay: 5m\nsources: {gh: {provider: github, secrets: ["+githubSecret+"]}}\n")
	g := startGateway(t, dir)
	isReady := func(dir string, args ...string) {
		t.Helper()
		if stdout, stderr, code := run(t, dir, append([]string{"ready"}, args...)...); code != 0 || stdout != "ready\n" || stderr != "" {
			t.Errorf("ready %v: code %d: %s%s", args, code, stdout, stderr)
		}
	}
	isReady(dir)
	isReady(t.TempDir(), "--admin-url", g.admin)
	writeFile(t, file, "sources: {gh: {provider: github, secrets: [\"${HOOKONCE_TEST_UNSET}\"]}}\n")
	isReady(dir)
	isReady(dir, "--admin-url", g.admin)

	g.signal(t, syscall.SIGTERM)
	g.poll(t, "readiness is off", func() bool { return g.ready(t) == http.StatusServiceUnavailable })
	_, isNot, code := run(t, dir, "ready", "--admin-url", g.admin)
	if got := g.deliver(t, "late"); code != 1 || got != "ok" {
		t.Errorf("ready exits with %d, and a delivery within shutdown_delay is %q", code, got)
	}
	_, after, _ := strings.Cut(isNot, "cannot claim deliveries now; its log has the reason under \"")
	id, _, _ := strings.Cut(after, `"`)
	g.signal(t, syscall.SIGTERM)
	g.wait(t)
	if g.cmd.ProcessState.Success() {
		t.Error("a forced stop exits with 0")
	}
	writeFile(t, file, "{}\n")
	success(t, dir, "events", "show", "gh", "late")
	if id == "" || !strings.Contains(g.stderr.String(), id) {
		t.Errorf("the log has no error id of %q:\n%s", isNot, g.stderr)
	}
}

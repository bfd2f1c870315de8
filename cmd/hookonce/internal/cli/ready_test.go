package cli_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// ready finds the gateway of the database by itself, also with settings that cannot be used otherwise,
// and with --admin-url without any.
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
	isNot := notReadyOf(t, dir, "--admin-url", g.admin)
	_, after, _ := strings.Cut(isNot, "cannot claim deliveries now; its log has the reason under \"")
	id, _, _ := strings.Cut(after, `"`)
	g.signal(t, syscall.SIGTERM)
	g.wait(t)
	if id == "" || !strings.Contains(g.stderr.String(), id) {
		t.Errorf("the log has no error id of %q:\n%s", isNot, g.stderr)
	}
}

// notReadyOf runs ready, which must exit with 1 and give the reason and the remedy in one line each.
func notReadyOf(t *testing.T, dir string, args ...string) string {
	t.Helper()
	stdout, stderr, code := run(t, dir, append([]string{"ready"}, args...)...)
	if code != 1 || stdout != "" || strings.Count(stderr, "\n") != 2 || !strings.HasPrefix(stderr, "Error: ") || !strings.Contains(stderr, "\nTry: ") {
		t.Errorf("ready %v: code %d: %s%s", args, code, stdout, stderr)
	}
	return stderr
}

// Without an answer of a gateway, ready reports its findings.
func TestReadyWithoutAGateway(t *testing.T) {
	t.Parallel()
	hangs := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/page/readyz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) })
	mux.HandleFunc("/hangs/readyz", func(http.ResponseWriter, *http.Request) { <-hangs })
	other := httptest.NewServer(mux)
	t.Cleanup(other.Close)
	t.Cleanup(func() { close(hangs) })
	closed := httptest.NewServer(nil)
	closed.Close()
	dir := t.TempDir()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "no gateway of this user serves sqlite:hookonce.db\nTry: start it with hookonce serve, or name the gateway by --admin-url\n"},
		{[]string{"--admin-url", closed.URL}, "connection refused\nTry: check that the gateway runs, and its address\n"},
		{[]string{"--admin-url", other.URL + "/page"}, "is not an admin API of hookonce"},
		{[]string{"--admin-url", other.URL + "/page"}, "\nTry: use the address of admin.listen, the dashboard's\n"},
		{[]string{"--admin-url", other.URL + "/hangs", "--timeout", "50ms"}, "did not answer within 50ms\nTry: look at the log of that gateway;"},
	} {
		if got := notReadyOf(t, dir, tt.args...); !strings.Contains(got, tt.want) {
			t.Errorf("ready %v lacks %q: %s", tt.args, tt.want, got)
		}
	}
	for _, args := range [][]string{
		{"--admin-url", ""}, {"--admin-url", "nonsense"}, {"--admin-url", other.URL, "--database", "sqlite:x.db"}, {"--timeout", "0s"}, {"--database", "x"},
	} {
		if _, stderr, code := run(t, dir, append([]string{"ready"}, args...)...); code != 2 || !strings.Contains(stderr, "\nTry: ") {
			t.Errorf("ready %v: code %d: %s", args, code, stderr)
		}
	}
}

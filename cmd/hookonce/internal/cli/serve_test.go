package cli_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// The example of the README: without a settings file, the first delivery is answered ok and the
// others duplicate, the destination gets one request, and commands work beside the running gateway.
func TestServe(t *testing.T) {
	t.Parallel()
	var forwarded atomic.Int64
	sink := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { forwarded.Add(1) }))
	t.Cleanup(sink.Close)
	dir := t.TempDir()
	g := startGateway(t, dir, "--source", "gh=github:"+githubSecret, "--forward", "app="+sink.URL)
	if got := g.ready(t); got != http.StatusOK {
		t.Errorf("readyz is %d", got)
	}
	for i, want := range []string{"ok", "duplicate", "duplicate"} {
		if got := g.deliver(t, "d1"); got != want {
			t.Errorf("delivery %d is %q, want %q", i, got, want)
		}
	}
	show := func() (event struct{ State, Duplicates string }) {
		stdout, stderr, code := run(t, dir, "events", "show", "gh", "d1", "--json")
		if code != 0 {
			t.Fatalf("events show: code %d: %s", code, stderr)
		}
		if err := json.Unmarshal([]byte(stdout), &event); err != nil {
			t.Fatal(err)
		}
		return event
	}
	g.poll(t, "the event is done", func() bool { return show().State == "done" })
	if n := forwarded.Load(); n != 1 {
		t.Errorf("%d requests were forwarded, want 1", n)
	}
	g.stop(t, syscall.SIGTERM)
	if got := show().Duplicates; got != "2" {
		t.Errorf("after a clean stop the event has %s duplicates, want 2", got)
	}
	if strings.Contains(g.stderr.String(), githubSecret) {
		t.Error("the log shows the secret")
	}
}

// Readiness goes off first, so that load balancers send nothing more before the gateway refuses
// deliveries. A second signal ends the delay; acknowledged events are kept.
func TestServeStaysOpenWhileLoadBalancersTurnAway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "hookonce.yaml")
	writeFile(t, config, "shutdown_delay: 5m\nsources: {gh: {provider: github, secrets: ["+githubSecret+"]}}\n")
	g := startGateway(t, dir)
	g.signal(t, syscall.SIGTERM)
	g.poll(t, "readiness is off", func() bool { return g.ready(t) == http.StatusServiceUnavailable })
	if got := g.deliver(t, "late"); got != "ok" {
		t.Errorf("a delivery within shutdown_delay is %q", got)
	}
	g.signal(t, syscall.SIGTERM)
	g.wait(t)
	if g.cmd.ProcessState.Success() {
		t.Error("a forced stop exits with 0")
	}
	if stdout, stderr, code := run(t, dir, "events", "show", "gh", "late"); code != 0 {
		t.Errorf("the event is gone: %s%s", stdout, stderr)
	}
}

// The lock of a SQLite file stops a second gateway while the first one lives. A killed gateway
// leaves no lock.
func TestServeAfterAKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	source := []string{"--source", "gh=github:" + githubSecret}
	first := startGateway(t, dir, source...)
	if got := first.deliver(t, "d1"); got != "ok" {
		t.Fatalf("delivery: %q", got)
	}
	_, stderr, code := run(t, dir, append([]string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, source...)...)
	if code != 1 || !strings.Contains(stderr, "Error: another gateway") || !strings.Contains(stderr, "hookonce.db.lock") ||
		!strings.Contains(stderr, "\nTry: ") {
		t.Errorf("the second gateway ended with code %d: %s", code, stderr)
	}
	first.signal(t, syscall.SIGKILL)
	first.wait(t)
	again := startGateway(t, dir, source...)
	if got := again.deliver(t, "d1"); got != "duplicate" {
		t.Errorf("after the kill the same event is %q", got)
	}
	again.stop(t, syscall.SIGINT)
}

// The log warns once of a dedupe window that is shorter than the provider retries, and writes
// durations as text.
func TestServeWarnsOnceOfAShortWindow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "hookonce.yaml"),
		"sources: {pay: {provider: stripe, secrets: ["+githubSecret+"], dedupe_window: 1h}, lab: {provider: none, event: {id: 'body:id'}}}\n")
	g := startGateway(t, dir)
	g.stop(t, syscall.SIGTERM)
	log := g.stderr.String()
	if n := strings.Count(log, "shorter than"); n != 1 {
		t.Errorf("warned %d times:\n%s", n, log)
	}
	for _, want := range []string{`"dedupe_window":"1h0m0s","retries":"72h0m0s"`, "unsigned: anyone can send"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %s in\n%s", want, log)
		}
	}
}

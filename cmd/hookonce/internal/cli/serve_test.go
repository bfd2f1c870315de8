package cli_test

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	githubSecret = "a-secret-of-16-bytes-or-more"
	// patience bounds every wait; it only passes where something is broken.
	patience = 60 * time.Second
)

// gateway is a process that runs "hookonce serve".
type gateway struct {
	cmd           *exec.Cmd
	public, admin string
	exited        chan struct{}
	stderr        *bytes.Buffer // complete once exited is closed
}

// startGateway starts a gateway in dir on ports of its own and waits until it
// listens.
func startGateway(t *testing.T, dir string, args ...string) *gateway {
	t.Helper()
	args = append([]string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, args...)
	g := &gateway{cmd: exec.Command("hookonce", args...), exited: make(chan struct{}), stderr: new(bytes.Buffer)}
	g.cmd.Dir, g.cmd.Env = dir, append(os.Environ(), raceEnv())
	pipe, err := g.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	addresses := make(chan [2]string, 1)
	go func() {
		defer close(g.exited)
		g.follow(pipe, addresses)
		_ = g.cmd.Wait() // ProcessState tells
	}()
	t.Cleanup(func() {
		_ = g.cmd.Process.Kill() // most have ended by then
		<-g.exited
		if t.Failed() {
			t.Logf("log of the gateway:\n%s", g.stderr)
		}
	})
	select {
	case found := <-addresses:
		g.public, g.admin = "http://"+found[0], "http://"+found[1]
	case <-g.exited:
		t.Fatalf("the gateway ended: %s\n%s", g.cmd.ProcessState, g.stderr)
	case <-time.After(patience):
		t.Fatal("the gateway does not say where it listens")
	}
	return g
}

// follow reads the log to its end, and sends the addresses it tells.
func (g *gateway) follow(log io.Reader, addresses chan<- [2]string) {
	var found [2]string
	for lines := bufio.NewScanner(log); lines.Scan(); {
		g.stderr.WriteString(lines.Text() + "\n")
		var line struct{ Listen, Admin string }
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			continue // an error, printed for people
		}
		if line.Listen != "" {
			found[0] = line.Listen
		}
		if line.Admin != "" {
			found[1] = line.Admin
			addresses <- found
		}
	}
}

func (g *gateway) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := g.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

func (g *gateway) wait(t *testing.T) {
	t.Helper()
	select {
	case <-g.exited:
	case <-time.After(patience):
		t.Fatal("the gateway did not end")
	}
}

// stop ends the gateway with a signal, and wants exit code 0.
func (g *gateway) stop(t *testing.T, sig syscall.Signal) {
	t.Helper()
	g.signal(t, sig)
	g.wait(t)
	if code := g.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the gateway ended with %s", g.cmd.ProcessState)
	}
}

// deliver sends an event as GitHub would and returns the "status" of the answer.
func (g *gateway) deliver(t *testing.T, id string) string {
	t.Helper()
	const body = `{"action":"opened"}`
	mac := hmac.New(sha256.New, []byte(githubSecret))
	mac.Write([]byte(body))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.public+"/webhooks/gh", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	r.Header.Set("X-GitHub-Event", "issues")
	r.Header.Set("X-GitHub-Delivery", id)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer struct {
		Status any
		Detail string
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	status, ok := answer.Status.(string)
	if !ok {
		t.Fatalf("delivery %s was answered %v: %s", id, answer.Status, answer.Detail)
	}
	return status
}

// poll waits until ok, which asks the gateway.
func (g *gateway) poll(t *testing.T, what string, ok func() bool) {
	t.Helper()
	timeout := time.After(patience)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-g.exited:
			t.Fatalf("waiting until %s: the gateway ended", what)
		case <-timeout:
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func (g *gateway) ready(t *testing.T) int {
	t.Helper()
	resp, err := http.Get(g.admin + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// run runs another command in dir to its end.
func run(t *testing.T, dir string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command("hookonce", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), raceEnv())
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// The walk of the README: without a settings file, ok and then duplicate, one
// request to the destination, and the commands beside the running gateway.
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
		t.Error("the log tells the secret")
	}
}

// Readiness goes first, so that load balancers turn away before anybody is
// refused; a second signal ends the wait, and what was acknowledged is there.
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
		t.Error("a forced stop counts as a clean one")
	}
	if stdout, stderr, code := run(t, dir, "events", "show", "gh", "late"); code != 0 {
		t.Errorf("the event is gone: %s%s", stdout, stderr)
	}
}

// The lock of a SQLite file keeps a second gateway out while the first one
// lives, and nobody out when it was killed.
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

// A dedupe window that is shorter than the provider retries is warned of once, by a log
// that says how long in words.
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

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

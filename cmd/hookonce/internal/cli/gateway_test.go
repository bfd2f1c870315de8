package cli_test

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

const githubSecret = "a-secret-of-16-bytes-or-more"

// gateway is a process that runs "hookonce serve".
type gateway struct {
	cmd           *exec.Cmd
	public, admin string
	exited        chan struct{}
	// Both are complete once exited is closed.
	stdout, stderr *bytes.Buffer
}

// startGateway starts a gateway in dir, on free ports, and waits until it listens.
func startGateway(t *testing.T, dir string, args ...string) *gateway {
	t.Helper()
	return startGatewayWith(t, dir, nil, args...)
}

// startGatewayWith is startGateway with more variables in the environment.
func startGatewayWith(t *testing.T, dir string, env []string, args ...string) *gateway {
	t.Helper()
	g, err := launchGateway(dir, append(append(os.Environ(), raceEnv()), env...), args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.end()
		if t.Failed() {
			t.Logf("log of the gateway:\n%s", g.stderr)
		}
	})
	return g
}

// launchGateway is startGateway with an environment, for a caller that ends the gateway.
func launchGateway(dir string, env []string, args ...string) (*gateway, error) {
	args = append([]string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, args...)
	g := &gateway{cmd: exec.Command("hookonce", args...), exited: make(chan struct{}), stdout: new(bytes.Buffer), stderr: new(bytes.Buffer)}
	g.cmd.Stdout = g.stdout
	g.cmd.Dir, g.cmd.Env = dir, env
	pipe, err := g.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	addresses := make(chan [2]string, 1)
	go func() {
		defer close(g.exited)
		g.follow(pipe, addresses)
		_ = g.cmd.Wait() // ProcessState holds the result
	}()
	select {
	case found := <-addresses:
		g.public, g.admin = "http://"+found[0], "http://"+found[1]
		return g, nil
	case <-g.exited:
		return nil, fmt.Errorf("the gateway ended: %s\n%s", g.cmd.ProcessState, g.stderr)
	case <-time.After(eventually.Bound):
		g.end()
		return nil, errors.New("the gateway does not log its addresses")
	}
}

// end kills the gateway, unless it has exited.
func (g *gateway) end() {
	_ = g.cmd.Process.Kill() // most have exited by now
	<-g.exited
}

// follow reads the log to its end, and sends the addresses that it logs.
func (g *gateway) follow(log io.Reader, addresses chan<- [2]string) {
	var found [2]string
	for lines := bufio.NewScanner(log); lines.Scan(); {
		g.stderr.WriteString(lines.Text() + "\n")
		var line struct{ Listen, Admin string }
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			continue // an error message, which is not JSON
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
	eventually.Receive(t, "the gateway ends", g.exited)
}

// stop ends the gateway with a signal; the exit code must be 0.
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

// post sends a body without a signature.
func (g *gateway) post(t *testing.T, path, body string) {
	t.Helper()
	resp, err := http.Post(g.public+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("POST %s: %d, %v", path, resp.StatusCode, err)
	}
}

// poll waits until ok returns true; ok may query the gateway.
func (g *gateway) poll(t *testing.T, what string, ok func() bool) {
	t.Helper()
	eventually.True(t, what, func() bool {
		if ok() {
			return true
		}
		select {
		case <-g.exited:
			t.Fatalf("waiting until %s: the gateway ended", what)
		default:
		}
		return false
	})
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

// run runs another command in dir until it exits.
func run(t *testing.T, dir string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return runWith(t, dir, nil, args...)
}

// runWith is run with more variables in the environment.
func runWith(t *testing.T, dir string, env []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command("hookonce", args...)
	cmd.Dir, cmd.Env = dir, append(append(os.Environ(), raceEnv()), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// success runs a command that must succeed, and returns its output.
func success(t *testing.T, dir string, args ...string) string {
	t.Helper()
	stdout, stderr, code := run(t, dir, args...)
	if code != 0 || stderr != "" {
		t.Fatalf("%v: code %d: %s%s", args, code, stdout, stderr)
	}
	return stdout
}

func unmarshal(t *testing.T, text string, to any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), to); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
}

// api returns the answer of GET path on the admin listener.
func (g *gateway) api(t *testing.T, path string) string {
	t.Helper()
	resp, err := http.Get(g.admin + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %d, %v: %s", path, resp.StatusCode, err, text)
	}
	return string(text)
}

// count returns the number of events that a query selects, from the admin API.
func (g *gateway) count(t *testing.T, query string) int {
	t.Helper()
	var page struct{ Events []struct{} }
	unmarshal(t, g.api(t, "/api/v1/events?"+query), &page)
	return len(page.Events)
}

// await waits until n events are in a state.
func (g *gateway) await(t *testing.T, state string, n int) {
	t.Helper()
	g.poll(t, fmt.Sprintf("%d events are %s", n, state), func() bool { return g.count(t, "state="+state) == n })
}

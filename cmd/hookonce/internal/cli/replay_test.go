package cli_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// destination is a server that fails until ok is set, and records the webhook-id of each request.
type destination struct {
	url  string
	ok   atomic.Bool
	mu   sync.Mutex
	keys []string
}

func startDestination(t *testing.T) *destination {
	t.Helper()
	d := new(destination)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		d.keys = append(d.keys, r.Header.Get("webhook-id"))
		d.mu.Unlock()
		if !d.ok.Load() {
			w.WriteHeader(http.StatusGone) // permanent: dead at once
		}
	}))
	t.Cleanup(server.Close)
	d.url = server.URL
	return d
}

func (d *destination) received() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string{}, d.keys...)
}

// startForwarding starts a gateway that sends the events of source gh to d.
func startForwarding(t *testing.T, d *destination) (*gateway, string) {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "hookonce.yaml"), "sources: {gh: {provider: github, secrets: ["+githubSecret+"]}}\n"+
		"destinations: {app: {url: \""+d.url+"\"}}\nroutes: [{name: app, to: app}]\n")
	return startGateway(t, dir), dir
}

// An interrupted replay says how far it came and how to continue; the next run replays the rest.
func TestInterruptedReplays(t *testing.T) {
	t.Parallel()
	d := startDestination(t)
	g, dir := startForwarding(t, d)
	for _, id := range []string{"d1", "d2", "d3"} {
		g.deliver(t, id)
	}
	g.await(t, "dead", 3)

	// Without a gateway, nothing is sent meanwhile.
	g.stop(t, syscall.SIGTERM)
	one := func() bool {
		return strings.Count(success(t, dir, "events", "list", "--state", "dead", "--json"), `"event_id"`) == 2
	}
	stdout, stderr := interrupt(t, dir, one, "dlq", "replay", "--all", "--yes", "--rate", "20/m")
	if !strings.Contains(stdout, "replayed 1 dead letter\n") || !strings.Contains(stderr, "Error: interrupted after 1 dead letter\n") {
		t.Fatalf("dlq replay was interrupted: %s%s", stdout, stderr)
	}
	if out := success(t, dir, continued(t, stderr)...); out != "replayed 3 dead letters\n" {
		t.Errorf("the continued replay: %q", out)
	}
	g = startGateway(t, dir)
	g.poll(t, "all are dead again", func() bool { return len(d.received()) == 6 && g.count(t, "state=dead") == 3 })
	sends := make(map[string]int)
	for _, key := range d.received() {
		if sends[key]++; sends[key] > 2 {
			t.Errorf("the replay sent %s twice", key)
		}
	}
	d.ok.Store(true)
	success(t, dir, "dlq", "replay", "--all", "--yes")
	g.await(t, "done", 3)

	// The gateway does it in a job, which an interruption cancels.
	sent := len(d.received())
	begun := func() bool { return len(d.received()) == sent+1 }
	stdout, stderr = interrupt(t, dir, begun, "events", "replay", "--as-new", "--since", "1h", "--yes", "--rate", "1/s")
	if !strings.Contains(stdout, "replayed 1 event\n") || !strings.Contains(stderr, "Error: interrupted after 1 event, 1 replayed\n") {
		t.Errorf("events replay was interrupted: %s%s", stdout, stderr)
	}
	if out := success(t, dir, continued(t, stderr)...); out != "replayed 3 events\n" {
		t.Errorf("the continued replay: %q", out)
	}
	g.poll(t, "all are sent", func() bool { return len(d.received()) >= sent+3 && g.count(t, "state=done") == 3 })
	if n := len(d.received()); n != sent+3 {
		t.Errorf("%d requests for three events that were replayed once", n-sent)
	}
}

// Work on dead letters by filters is a job of the gateway, too. It can be continued under its name,
// and its answer is that of a run without a gateway.
func TestJobsOfCommands(t *testing.T) {
	t.Parallel()
	d := startDestination(t)
	g, dir := startForwarding(t, d)
	for _, id := range []string{"d1", "d2", "d3"} {
		g.deliver(t, id)
	}
	g.await(t, "dead", 3)

	one := func() bool { return g.count(t, "state=skipped") == 1 }
	stdout, stderr := interrupt(t, dir, one, "dlq", "discard", "--source", "gh", "--yes", "--rate", "20/m")
	if !strings.Contains(stdout, "discarded 1 dead letter\n") || !strings.Contains(stderr, "Error: interrupted after 1 dead letter\n") {
		t.Errorf("dlq discard was interrupted: %s%s", stdout, stderr)
	}
	args := continued(t, stderr)
	var worked struct {
		Discarded, Passed int
		Complete          bool
		RequestID         string `json:"request_id"`
	}
	unmarshal(t, success(t, dir, append(args, "--json")...), &worked)
	if worked.Discarded != 3 || worked.Passed != 0 || !worked.Complete || worked.RequestID == "" {
		t.Errorf("the continued discard: %+v", worked)
	}
	g.await(t, "skipped", 3)
	if out := success(t, dir, "dlq", "undo", worked.RequestID); out != "undid the discard of 3 dead letters\n" {
		t.Errorf("dlq undo: %s", out)
	}
	g.await(t, "dead", 3)
}

// A job takes a bounded number of names.
func TestTooManyNamedLetters(t *testing.T) {
	t.Parallel()
	args := []string{"dlq", "discard", "gh"}
	for i := range 1001 {
		args = append(args, strconv.Itoa(i))
	}
	_, stderr, code := run(t, t.TempDir(), args...)
	if code != 2 || !strings.Contains(stderr, "1001 events are named, more than 1000: name fewer, or use filters") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// continued returns the arguments of the command that the Try: of stderr names.
func continued(t *testing.T, stderr string) []string {
	t.Helper()
	_, command, found := strings.Cut(stderr, "\nTry: hookonce ")
	if !found {
		t.Fatalf("it does not say how to continue: %s", stderr)
	}
	return strings.Fields(command)
}

// interrupt runs a command, interrupts it as soon as ready returns true, and requires exit code 1.
func interrupt(t *testing.T, dir string, ready func() bool, args ...string) (stdout, stderr string) {
	t.Helper()
	cmd := exec.Command("hookonce", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), raceEnv())
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the command has begun", ready)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // ProcessState holds the result
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("%v was interrupted: %s", args, cmd.ProcessState)
	}
	return out.String(), errs.String()
}

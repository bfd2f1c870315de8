package cli_test

import (
	"bufio"
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

// tail is a process that follows a gateway: "hookonce events tail" or "hookonce listen".
type tail struct {
	cmd   *exec.Cmd
	lines chan string // closed at the end
	notes chan string // on stderr; closed at the end
}

func startTail(t *testing.T, dir string, args ...string) *tail {
	t.Helper()
	return startFollowing(t, dir, nil, append([]string{"events", "tail"}, args...)...)
}

// startFollowing starts a command with more variables in the environment.
func startFollowing(t *testing.T, dir string, env []string, args ...string) *tail {
	t.Helper()
	return follow(t, exec.Command("hookonce", args...), dir, env)
}

// follow starts a process with more variables in the environment.
func follow(t *testing.T, cmd *exec.Cmd, dir string, env []string) *tail {
	t.Helper()
	tl := &tail{cmd: cmd, lines: make(chan string, 100), notes: make(chan string, 100)}
	tl.cmd.Dir, tl.cmd.Env = dir, append(append(os.Environ(), raceEnv()), env...)
	stdout, err := tl.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := tl.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := tl.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[io.Reader]chan string{stdout: tl.lines, stderr: tl.notes} {
		go func() {
			defer close(to)
			for lines := bufio.NewScanner(from); lines.Scan(); {
				to <- lines.Text()
			}
		}()
	}
	t.Cleanup(func() { _ = tl.cmd.Process.Kill() }) // most have exited by now
	return tl
}

// ready waits until the tail follows.
func (tl *tail) ready(t *testing.T) {
	t.Helper()
	tl.says(t, "Following the gateway at http://127.0.0.1:")
}

// says waits for the next note, which begins with words.
func (tl *tail) says(t *testing.T, words string) {
	t.Helper()
	if note := eventually.Receive(t, "the tail says "+words, tl.notes); !strings.HasPrefix(note, words) {
		t.Fatalf("the tail says %q, want %q", note, words)
	}
}

// next returns the next line.
func (tl *tail) next(t *testing.T) string {
	t.Helper()
	line, ok := eventually.Next(t, "the tail prints a line", tl.lines)
	if !ok {
		t.Fatal("the tail ended")
	}
	return line
}

// stop ends the tail, and returns the unread lines.
func (tl *tail) stop(t *testing.T) (rest []string) {
	t.Helper()
	if err := tl.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	for line := range tl.lines {
		rest = append(rest, line)
	}
	if err := tl.cmd.Wait(); err != nil {
		t.Errorf("an interrupted tail: %v", err)
	}
	return rest
}

// wantLine reads lines until one begins with these words, in any of the columns after the time.
func (tl *tail) wantLine(t *testing.T, words string) {
	t.Helper()
	for {
		line := tl.next(t)
		if _, rest, _ := strings.Cut(line, "Z "); strings.HasPrefix(strings.Join(strings.Fields(rest), " "), words) {
			return
		}
		t.Logf("passed over %q", line)
	}
}

// TestTail follows a gateway: the newest events, then deliveries, attempts and refusals.
func TestTail(t *testing.T) {
	t.Parallel()
	d := startDestination(t)
	d.ok.Store(true)
	g, dir := startForwarding(t, d)
	for _, id := range []string{"d1", "d2", "d3"} {
		g.deliver(t, id)
	}
	g.await(t, "done", 3)
	text, lines := startTail(t, dir, "-n", "2"), startTail(t, dir, "--json", "--newest", "1", "--source", "gh", "--outcome", "done")
	attempts := startTail(t, dir, "--kind", "attempt", "--json", "--admin-url", g.admin)
	other := startTail(t, dir, "--source", "other")
	if heading := strings.Fields(text.next(t)); strings.Join(heading, " ") != "TIME WHERE TYPE EVENT ID OUTCOME TOOK" {
		t.Errorf("the heading is %q", heading)
	}
	text.wantLine(t, "✓ gh issues d2 done #1")
	text.wantLine(t, "✓ gh issues d3 done #1")
	var row struct {
		Kind    string
		EventID string `json:"event_id"`
		Outcome string
		Status  int
	}
	unmarshal(t, lines.next(t), &row)
	if row.Kind != "event" || row.EventID != "d3" || row.Outcome != "done" {
		t.Errorf("the newest row is %+v", row)
	}
	other.says(t, `Warning: the source "other" is not in the settings`)
	for _, tl := range []*tail{text, lines, attempts, other} {
		tl.ready(t)
	}
	if metrics := g.api(t, "/metrics"); !strings.Contains(metrics, "hookonce_stream_clients 4\n") {
		t.Error("the metrics do not show the 4 clients of the stream")
	}
	const hostile = "d4\u202e"
	g.deliver(t, hostile)
	for range 2 { // the attempt may end before its delivery is answered
		if line := text.next(t); !strings.Contains(line, ` d4\u202e `) || !strings.Contains(line, " ok ") && !strings.Contains(line, " sent 200 #1 ") {
			t.Errorf("the line is %q, want the delivery or the attempt", line)
		}
	}
	g.deliver(t, hostile)
	text.wantLine(t, `= gh issues d4\u202e duplicate`)
	unmarshal(t, attempts.next(t), &row)
	if row.Kind != "attempt" || row.Outcome != "sent" || row.Status != 200 {
		t.Errorf("the attempt is %+v", row)
	}
	d.ok.Store(false)
	g.deliver(t, "d5")
	text.wantLine(t, "✗ app issues d5 dead 410 #1")
	resp, err := http.Post(g.public+"/webhooks/gh", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	text.wantLine(t, "✗ gh - - refused 401")
	for _, tl := range []*tail{lines, other} {
		if rest := tl.stop(t); len(rest) > 0 {
			t.Errorf("unexpected lines: %q", rest)
		}
	}
	text.stop(t)
	attempts.stop(t)
}

// TestTailGoesOn: a tail outlasts a restart of its gateway, and says that rows may be missing.
func TestTailGoesOn(t *testing.T) {
	t.Parallel()
	d := startDestination(t)
	d.ok.Store(true)
	g, dir := startForwarding(t, d)
	tl := startTail(t, dir, "-n", "0", "--kind", "delivery", "--admin-url", g.admin)
	tl.ready(t)
	g.deliver(t, "d1")
	tl.wantLine(t, "→ gh issues d1 ok")
	g.stop(t, syscall.SIGTERM)
	again := startGateway(t, dir, "--admin-listen", strings.TrimPrefix(g.admin, "http://"))
	for i, seen := 2, false; !seen; i++ { // the new gateway may not know yet that somebody looks
		again.deliver(t, fmt.Sprint("d", i))
		select {
		case line := <-tl.lines:
			seen = strings.Contains(line, " ok ")
		case <-time.After(100 * time.Millisecond):
		}
	}
	tl.stop(t)
}

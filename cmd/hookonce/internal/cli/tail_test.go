package cli_test

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// tail is a process that runs "hookonce events tail".
type tail struct {
	cmd   *exec.Cmd
	lines chan string // closed at the end
}

func startTail(t *testing.T, dir string, args ...string) *tail {
	t.Helper()
	tl := &tail{cmd: exec.Command("hookonce", append([]string{"events", "tail"}, args...)...), lines: make(chan string, 100)}
	tl.cmd.Dir, tl.cmd.Env, tl.cmd.Stderr = dir, append(os.Environ(), raceEnv()), os.Stderr
	pipe, err := tl.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := tl.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(tl.lines)
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			tl.lines <- lines.Text()
		}
	}()
	t.Cleanup(func() { _ = tl.cmd.Process.Kill() }) // most have exited by now
	return tl
}

// next returns the next line.
func (tl *tail) next(t *testing.T) string {
	t.Helper()
	select {
	case line, ok := <-tl.lines:
		if !ok {
			t.Fatal("the tail ended")
		}
		return line
	case <-time.After(patience):
		t.Fatal("the tail printed nothing")
	}
	return ""
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

func TestTail(t *testing.T) {
	t.Parallel()
	d := startDestination(t)
	d.ok.Store(true)
	g, dir := startForwarding(t, d)
	for _, id := range []string{"d1", "d2", "d3"} {
		g.deliver(t, id)
	}
	text, lines := startTail(t, dir, "-n", "2"), startTail(t, dir, "--json", "--newest", "1", "--source", "gh")
	other := startTail(t, dir, "--source", "other")
	for _, id := range []string{" d2 ", " d3 "} {
		if line := text.next(t); !strings.Contains(line, id) || !strings.Contains(line, " gh ") || !strings.Contains(line, " issues ") {
			t.Errorf("line %q, want %q in it", line, id)
		}
	}
	var event, byAPI struct {
		EventID    string `json:"event_id"`
		ReceivedAt string `json:"received_at"`
		Duplicates string
	}
	unmarshal(t, lines.next(t), &event)
	unmarshal(t, g.api(t, "/api/v1/events/gh/d3"), &byAPI)
	if diff := cmp.Diff(byAPI, event); diff != "" || event.EventID != "d3" {
		t.Errorf("the newest (-API +tail):\n%s", diff)
	}
	g.deliver(t, "d3") // a duplicate is not a new event
	for _, id := range []string{"d4", "d5"} {
		g.deliver(t, id)
		if line := text.next(t); !strings.Contains(line, " "+id+" ") {
			t.Errorf("line %q, want %s in it", line, id)
		}
		unmarshal(t, lines.next(t), &event)
		if event.EventID != id {
			t.Errorf("event %s, want %s", event.EventID, id)
		}
	}
	for _, tl := range []*tail{text, lines, other} {
		if rest := tl.stop(t); len(rest) > 0 {
			t.Errorf("unexpected lines: %q", rest)
		}
	}

	if _, stderr, code := run(t, dir, "events", "tail", "-n", "-1"); code != 2 || !strings.Contains(stderr, "--newest: -1 is not a number") {
		t.Errorf("code %d: %s", code, stderr)
	}
	if _, _, code := run(t, dir, "events", "tail", "--until", "1h"); code != 2 {
		t.Errorf("tail --until: code %d", code)
	}
}

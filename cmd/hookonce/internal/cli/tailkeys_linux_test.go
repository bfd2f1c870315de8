package cli_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/cli"
)

// TestTailKeys drives a tail on a wide and on a narrow terminal.
func TestTailKeys(t *testing.T) {
	t.Parallel()
	for columns, env := range map[int]string{130: "NO_COLOR=", 60: "NO_COLOR=1"} {
		t.Run(fmt.Sprint(columns), func(t *testing.T) {
			t.Parallel()
			d := startDestination(t)
			g, dir := startForwarding(t, d)
			s := startSession(t, dir, columns, []string{env}, "events", "tail", "-n", "0", "--kind", "attempt")
			s.wants(t, "Following the gateway")
			s.press(t, "r\rjk\x1b[A") // nothing is there
			g.deliver(t, "d1")
			s.wants(t, `✗.* +app +(issues +)?d1 +dead 410 #1`)
			s.wants(t, "p pause")
			s.press(t, "p")
			s.wants(t, "Paused: 0 new")
			g.deliver(t, "d2")
			s.wants(t, "Paused: 1 new") // attempts at the same time have no order
			g.deliver(t, "e3")
			s.wants(t, "Paused: 2 new")
			s.press(t, "p")
			s.wants(t, ` d2 +dead 410 #1`)
			s.wants(t, ` e3 +dead 410 #1`)

			// A filter selects later rows; Esc clears it.
			s.press(t, "/Ex\x7f")
			s.wants(t, "/E▏ Enter")
			s.press(t, "\r")
			s.wants(t, `filter "e"`)
			s.press(t, "/4\r") // "e4"
			s.wants(t, `filter "e4"`)
			g.deliver(t, "d5")
			g.deliver(t, "e4")
			if shown := s.wants(t, `(?s).* e4 +dead 410 #1`); strings.Contains(shown, " d5 ") {
				t.Errorf("the filter does not hold: %q", shown)
			}
			s.press(t, "\x1b")
			s.wants(t, "/ filter ")
			g.deliver(t, "d6")
			s.wants(t, ` d6 +dead`)

			// The selected event is shown and replayed.
			s.press(t, "kk")
			s.wants(t, "selected e3")
			s.press(t, "j")
			s.wants(t, "selected e4")
			s.press(t, "\r")
			s.wants(t, `Event id: +e4`)
			s.wants(t, `Last error:`)
			s.press(t, "p")
			s.press(t, "r")
			s.wants(t, `Replay gh e4 \(dead\)\? y yes`)
			s.press(t, "x")
			s.wants(t, "p pause")
			d.ok.Store(true)
			s.press(t, "r")
			s.wants(t, `\? y yes`)
			s.press(t, "y")
			s.wants(t, `Replayed event "e4" of source "gh": generation 1, 1 message due`)
			s.wants(t, `✓.* e4 +sent 200 #1`)
			s.press(t, "r")
			s.wants(t, `Replay gh e4 \(done\)\? w as new`)
			s.press(t, "s")
			s.wants(t, `Replayed event "e4" of source "gh": generation 2, 1 message due`)

			// The gateway dies: a warning, and the keys go on.
			g.signal(t, syscall.SIGKILL)
			g.wait(t)
			s.wants(t, "Warning: .*; retrying")
			s.press(t, "\r")
			s.wants(t, "Error: reading an event: ")
			s.press(t, "q")
			s.ends(t, 0)
			rows := 0
			for line := range strings.Lines(s.lines()) {
				line = strings.TrimSuffix(line, "\n")
				if strings.HasPrefix(line, "TIME") || len(line) > 8 && line[2] == ':' && line[8] == 'Z' {
					rows++
					if n := len([]rune(line)); n > columns {
						t.Errorf("%d columns of %d: %q", n, columns, line)
					}
				}
			}
			if rows < 7 { // the heading, four dead ones, one after the filter, one that was sent
				t.Errorf("%d rows stay on the terminal:\n%s", rows, s.lines())
			}
			if strings.Contains(s.shown(), "\x1b[31m") == strings.HasSuffix(env, "1") || strings.Contains(s.shown(), "\x1b[2m") == strings.HasSuffix(env, "1") {
				t.Errorf("the colours are not those of %s", env)
			}
		})
	}
}

// TestTailKeysOfADatabase: where no gateway runs, the keys work on the database.
func TestTailKeysOfADatabase(t *testing.T) {
	t.Parallel()
	d := startDestination(t)
	g, dir := startForwarding(t, d)
	g.deliver(t, "d1")
	g.await(t, "dead", 1)
	g.stop(t, syscall.SIGTERM)
	s := startSession(t, dir, 130, nil, "events", "tail")
	s.wants(t, ` d1 +dead #1`)
	s.press(t, "\r")
	s.wants(t, `Event id: +d1`)
	s.press(t, "r")
	s.wants(t, `Replay gh d1 \(dead\)\? y yes`)
	s.press(t, "y")
	s.wants(t, `Replayed event "d1" of source "gh": generation 1, 1 message due`)
	s.press(t, "\x03")
	s.ends(t, 0)
}

// TestTailIsPlainElsewhere: with a terminal for the output alone there are no keys and no status line.
func TestTailIsPlainElsewhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	startSources(t, dir)
	s := startSession(t, dir, 80, []string{"TERM=dumb"}, "events", "tail")
	s.wants(t, "Following the gateway")
	s.press(t, "\x03")
	s.ends(t, 0)
	if strings.Contains(s.shown(), "\x1b") || strings.Contains(s.shown(), "pause") {
		t.Errorf("a dumb terminal shows %q", s.shown())
	}
}

// TestPanicRestoresTheTerminal: a fault leaves the terminal as it was.
func TestPanicRestoresTheTerminal(t *testing.T) {
	t.Parallel()
	master, terminal := openTerminal(t, 80)
	defer master.Close()
	defer terminal.Close()
	before := modeOf(t, terminal)
	cli.PanicBesideScreen(terminal)
	if diff := cmp.Diff(before, modeOf(t, terminal)); diff != "" {
		t.Errorf("the terminal is not as it was (-before +after):\n%s", diff)
	}
}

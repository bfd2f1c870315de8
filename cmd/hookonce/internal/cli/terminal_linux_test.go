package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// openTerminal returns both ends of a terminal with this many columns.
func openTerminal(t *testing.T, columns int) (master, terminal *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: uint16(columns)}); err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, terminal
}

// session is a command on a terminal of its own, which is also its input.
type session struct {
	cmd           *exec.Cmd
	master        *os.File
	before, after *unix.Termios // the modes of the terminal
	exited        chan struct{}
	more          chan struct{} // gets a value after each output, unless one waits

	mu   sync.Mutex
	text string // the output so far
	read int    // the length of the awaited output
}

// startSession starts a command in dir on a terminal with this many columns.
func startSession(t *testing.T, dir string, columns int, env []string, args ...string) *session {
	t.Helper()
	master, terminal := openTerminal(t, columns)
	s := &session{cmd: exec.Command("hookonce", args...), master: master, exited: make(chan struct{}), more: make(chan struct{}, 1)}
	s.before = modeOf(t, terminal)
	s.cmd.Dir, s.cmd.Env = dir, append(append(os.Environ(), raceEnv(), "TERM=xterm", "NO_COLOR="), env...)
	if args[0] == "init" {
		s.cmd.Env = append(s.cmd.Env, formEnv())
	}
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = terminal, terminal, terminal
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waited := make(chan struct{})
	go func() {
		defer close(waited)
		_ = s.cmd.Wait() // ProcessState holds the result
		s.after = modeOf(t, terminal)
		_ = terminal.Close() // ends the reading below
	}()
	go func() {
		defer close(s.exited)
		buffer := make([]byte, 4096)
		for {
			n, err := s.master.Read(buffer)
			s.mu.Lock()
			s.text += string(buffer[:n])
			s.mu.Unlock()
			select {
			case s.more <- struct{}{}:
			default:
			}
			if err != nil { // EIO: the other end is closed
				<-waited
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // most have exited by now
		<-s.exited
		_ = s.master.Close()
		if t.Failed() {
			t.Logf("the terminal of %v:\n%q", args, s.text)
		}
	})
	return s
}

func modeOf(t *testing.T, terminal *os.File) *unix.Termios {
	t.Helper()
	mode, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	if err != nil {
		t.Error(err)
	}
	return mode
}

// control matches the sequences that move the cursor, set colours or ask the terminal.
var control = regexp.MustCompile(`\x1b(\[[0-9;?<>=$]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[()][A-Z0-9]|[=>78])`)

// plain returns the output so far, without control sequences.
func (s *session) plain() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.ReplaceAll(control.ReplaceAllString(s.text, ""), "\r", "")
}

// await blocks until the terminal has shown text.
func (s *session) await(t *testing.T, text string) {
	t.Helper()
	timeout := time.After(eventually.Bound)
	for !strings.Contains(s.plain(), text) {
		select {
		case <-s.more:
		case <-s.exited:
			if !strings.Contains(s.plain(), text) {
				t.Fatalf("the command ended without %q", text)
			}
		case <-timeout:
			t.Fatalf("the terminal does not show %q", text)
		}
	}
}

// press types keys.
func (s *session) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := s.master.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// end blocks until the command has ended, and returns its exit code.
func (s *session) end(t *testing.T) int {
	t.Helper()
	eventually.Receive(t, "the command ends", s.exited)
	return s.cmd.ProcessState.ExitCode()
}

// wants waits until the output after the last awaited text matches a pattern, and returns the match.
func (s *session) wants(t *testing.T, pattern string) string {
	t.Helper()
	expr := regexp.MustCompile(pattern)
	late := time.After(eventually.Bound)
	for {
		s.mu.Lock()
		rest := s.text[s.read:]
		found := expr.FindStringIndex(rest)
		if found != nil {
			s.read += found[1]
		}
		s.mu.Unlock()
		if found != nil {
			return rest[found[0]:found[1]]
		}
		select {
		case <-s.more:
		case <-late:
			t.Fatalf("the terminal does not show %s; it shows %q", pattern, rest)
		}
	}
}

// ends waits for the end of the command. The terminal must be as it was.
func (s *session) ends(t *testing.T, code int) {
	t.Helper()
	if got := s.end(t); got != code {
		t.Errorf("the command ended with %s", s.cmd.ProcessState)
	}
	if diff := cmp.Diff(s.before, s.after); diff != "" {
		t.Errorf("the terminal is not as it was (-before +after):\n%s", diff)
	}
}

// shown returns all output so far.
func (s *session) shown() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text
}

// lines returns the output as it stays on the terminal: without status lines.
func (s *session) lines() string {
	var out []string
	for _, line := range strings.Split(colour.ReplaceAllString(s.shown(), ""), "\r\n") {
		parts := strings.Split(line, "\r\x1b[K")
		out = append(out, parts[len(parts)-1])
	}
	return strings.Join(out, "\n")
}

package cli_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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
	cmd    *exec.Cmd
	master *os.File
	exited chan struct{}

	mu   sync.Mutex
	text string // the output so far
	more chan struct{}
}

// startSession starts a command in dir on a terminal with this many columns.
func startSession(t *testing.T, dir string, columns int, env []string, args ...string) *session {
	t.Helper()
	master, terminal := openTerminal(t, columns)
	s := &session{cmd: exec.Command("hookonce", args...), master: master, exited: make(chan struct{}), more: make(chan struct{}, 1)}
	s.cmd.Dir, s.cmd.Env = dir, append(append(os.Environ(), raceEnv(), "TERM=xterm", "NO_COLOR="), env...)
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = terminal, terminal, terminal
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := errors.Join(s.cmd.Start(), terminal.Close()); err != nil {
		t.Fatal(err)
	}
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
				_ = s.cmd.Wait() // ProcessState holds the result
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
	timeout := time.After(patience)
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
	select {
	case <-s.exited:
	case <-time.After(patience):
		t.Fatal("the command did not end")
	}
	return s.cmd.ProcessState.ExitCode()
}

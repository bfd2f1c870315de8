package e2e

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/hookonce/hookonce/internal/test/group"
)

// openTerminal returns both ends of a terminal with this many columns. The caller closes them.
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
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: uint16(columns)}); err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, terminal
}

// demoStep ends one picture of the progress.
var demoStep = regexp.MustCompile(`[\r\n]|\x1b\[K`)

// On a terminal the demo shows its progress, which is gone at the end, and colored marks. The progress
// and the table fit the terminal. The numbers are those of TestDemo.
func TestDemoOnATerminal(t *testing.T) {
	group.Need(t, "demo")
	t.Parallel()
	for name, c := range map[string]struct {
		columns int
		env     string
		colored bool
		args    []string
	}{
		"wide":              {80, "NO_COLOR=", true, nil},
		"narrow, no colors": {60, "NO_COLOR=1", false, []string{"--exit"}},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "wide" {
				group.NeedLong(t) // tests of the demo's package have the narrow table
			}
			t.Parallel()
			d := newDemo(t, c.args...)
			d.cmd.Env = append(d.cmd.Env, "TERM=xterm", c.env)
			master, terminal := openTerminal(t, c.columns)
			d.cmd.Stdout, d.cmd.Stderr = terminal, terminal
			d.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			d.begin(t, io.Reader(master)) // it ends with EIO when the last process has closed the terminal
			_ = terminal.Close()
			d.plays(t)
			if c.args == nil {
				checkDemo(t, d, &database{store: "sqlite"})
				_ = d.cmd.Process.Signal(syscall.SIGINT)
			}
			d.ends(t, 0)
			_ = master.Close()
			text := d.text()
			for _, want := range []string{"█", "░", "/s\x1b[K", "\r\x1b[K", "  waiting for the bank", "done twice"} {
				if !strings.Contains(text, want) {
					t.Errorf("the output lacks %q", want)
				}
			}
			if got := demoColor.MatchString(text); got != c.colored {
				t.Errorf("colors: %v, want %v", got, c.colored)
			}
			for _, line := range demoStep.Split(demoColor.ReplaceAllString(text, ""), -1) {
				isProse := !strings.HasPrefix(line, "  ") // the terminal may wrap it
				if n := utf8.RuneCountInString(line); n > 80 || n > c.columns && !isProse {
					t.Errorf("%d columns of %d: %q", n, c.columns, line)
				}
			}
			if _, end, _ := strings.Cut(text, "booked, EUR"); strings.Contains(end, "/s") || strings.Contains(end, "waiting") {
				t.Errorf("the progress is still shown at the end: %q", end)
			}
		})
	}
}

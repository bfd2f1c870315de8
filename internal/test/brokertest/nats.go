// Package brokertest starts real message brokers for tests, each on free ports of loopback with files of its own.
package brokertest

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/internal/test/dbtest"
)

// program returns the path of a program, which may be where the PATH of an ordinary user does not lead.
func program(name string) (string, error) {
	for _, path := range []string{name, "/usr/sbin/" + name, "/usr/lib/rabbitmq/bin/" + name} {
		if found, err := exec.LookPath(path); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("%s was not found: install it (on Debian: apt-get install %s)", name, name)
}

func need(t testing.TB, name string) {
	t.Helper()
	dbtest.Need(t, "brokers", func() error { _, err := program(name); return err }, name)
}

// NATS is a NATS server with JetStream. Its files outlive its process.
type NATS struct {
	Addr    string // HOST:PORT
	Monitor string // HOST:PORT of its monitoring over HTTP

	t      testing.TB
	folder string
	args   []string
	cmd    *exec.Cmd
}

// StartNATS starts a server. On Debian, as root, it first installs it if it is missing. It ends with the test. It may
// take a moment until the server listens.
func StartNATS(t testing.TB, args ...string) *NATS {
	t.Helper()
	need(t, "nats-server")
	s := &NATS{t: t, folder: t.TempDir(), Addr: dbtest.FreeAddress(t), Monitor: dbtest.FreeAddress(t), args: args}
	s.Start()
	t.Cleanup(s.Kill)
	return s
}

// Start starts the process again.
func (s *NATS) Start() {
	path, err := program("nats-server")
	if err != nil {
		s.t.Fatal(err)
	}
	s.cmd = exec.Command(path, append([]string{"-a", "127.0.0.1", "-p", port(s.Addr), "-m", port(s.Monitor), "-js", "-sd", s.folder}, s.args...)...)
	if err := dbtest.StartChild(s.cmd); err != nil {
		s.t.Fatal(err)
	}
}

// Kill ends the process as kill -9 does.
func (s *NATS) Kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// Pid returns the process, for signals.
func (s *NATS) Pid() int { return s.cmd.Process.Pid }

func port(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }

// Args replaces the arguments of the next start.
func (s *NATS) Args(args ...string) { s.args = args }

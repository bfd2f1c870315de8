//go:build unix

package brokertest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// Rabbit is a RabbitMQ server. Its files outlive its process.
type Rabbit struct {
	Addr string // HOST:PORT for amqp://

	t      testing.TB
	folder string
	env    []string
	cmd    *exec.Cmd
	hold   *os.File // the end of the pipe that the test has
	output *output
}

// StartRabbit starts a server with lines for rabbitmq.conf, and waits until it is ready. On Debian, as root, it first
// installs it if it is missing. It ends with the test.
func StartRabbit(t testing.TB, config ...string) *Rabbit {
	t.Helper()
	need(t, "rabbitmq-server")
	r := &Rabbit{t: t, folder: t.TempDir(), Addr: dbtest.FreeAddress(t)}
	node := port(dbtest.FreeAddress(t))
	r.env = append(os.Environ(),
		"HOME="+r.folder, // of the cookie
		"RABBITMQ_NODENAME=hookonce"+node+"@localhost",
		"RABBITMQ_DIST_PORT="+node,
		"RABBITMQ_MNESIA_BASE="+filepath.Join(r.folder, "data"),
		"RABBITMQ_LOG_BASE="+filepath.Join(r.folder, "log"),
		"RABBITMQ_CONFIG_FILE="+filepath.Join(r.folder, "rabbitmq.conf"),
		"RABBITMQ_CONF_ENV_FILE=/dev/null",
		"RABBITMQ_ENABLED_PLUGINS_FILE="+filepath.Join(r.folder, "plugins"),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=-kernel inet_dist_use_interface {127,0,0,1} +S 1",
		"ERL_EPMD_PORT="+port(dbtest.FreeAddress(t)),
	)
	r.write("plugins", "[].\n")
	r.Configure(config...)
	r.Start()
	t.Cleanup(r.Kill)
	return r
}

func (r *Rabbit) write(name, text string) {
	if err := os.WriteFile(filepath.Join(r.folder, name), []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// Configure writes rabbitmq.conf, which counts from the next start.
func (r *Rabbit) Configure(lines ...string) {
	own := []string{"listeners.tcp.1 = " + r.Addr, "log.file = false", "log.console = true", "log.console.level = warning"}
	r.write("rabbitmq.conf", strings.Join(append(own, lines...), "\n")+"\n")
}

// Start starts the server again, and waits until it is ready.
func (r *Rabbit) Start() {
	r.t.Helper()
	path, err := program("rabbitmq-server")
	if err != nil {
		r.t.Fatal(err)
	}
	if real, err := filepath.EvalSymlinks("/usr/lib/rabbitmq/bin/rabbitmq-server"); err == nil {
		path = real // Debian's wrapper on the PATH changes the user
	}
	alive, hold, err := os.Pipe()
	if err != nil {
		r.t.Fatal(err)
	}
	r.cmd = exec.Command("sh", "-c", script, path)
	r.cmd.Env = r.env
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	r.cmd.WaitDelay = time.Minute
	r.cmd.ExtraFiles = []*os.File{alive}
	ready := make(chan struct{})
	r.output = &output{awaited: "completed with", found: ready}
	// Not a file: so Wait waits until the last process that has it is gone.
	r.cmd.Stdout, r.cmd.Stderr = r.output, r.output
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	alive.Close()
	r.hold = hold
	select {
	case <-ready:
	case <-time.After(eventually.Bound):
		r.Kill()
		r.t.Fatalf("RabbitMQ is not ready after %s; it said:\n%s", eventually.Bound, r.output.text())
	}
}

// script starts Erlang's name server on a port of its own, as RabbitMQ would start one that outlives it and listens on
// every address. The whole group ends when the test process is gone, and the pipe with it.
const script = `epmd -address 127.0.0.1 -port "$ERL_EPMD_PORT" >/dev/null 2>&1 &
(trap '' TERM; cat <&3; kill -9 0) >/dev/null 2>&1 &
exec "$0" 3<&-`

// Kill ends all processes of the server as kill -9 does.
func (r *Rabbit) Kill() {
	_ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL)
	_ = r.cmd.Wait()
	r.hold.Close()
}

// Stop stops the server in an orderly way.
func (r *Rabbit) Stop() {
	group := -r.cmd.Process.Pid
	_ = r.cmd.Process.Kill() // the shell would call rabbitmqctl
	_ = syscall.Kill(group, syscall.SIGTERM)
	_ = r.cmd.Wait()
	_ = syscall.Kill(group, syscall.SIGKILL)
	r.hold.Close()
}

// URL returns amqp://USER@HOST:PORT with rest behind it. USER is "" or NAME:PASSWORD.
func (r *Rabbit) URL(user, rest string) string {
	if user != "" {
		user += "@"
	}
	return fmt.Sprintf("amqp://%s%s%s", user, r.Addr, rest)
}

// output keeps the output of a process, and closes found when a text appears.
type output struct {
	mu      sync.Mutex
	kept    []byte
	awaited string
	found   chan struct{} // nil once closed
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kept = append(o.kept, p...)
	if o.found != nil && bytes.Contains(o.kept, []byte(o.awaited)) {
		close(o.found)
		o.found = nil
	}
	return len(p), nil
}

func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.kept)
}

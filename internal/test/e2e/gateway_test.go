package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/program"
	"github.com/hookonce/hookonce/internal/test/race"
)

const (
	stopTimeout = 30 * time.Second // promised to operators
	killedLog   = 4 << 10          // how much of a killed gateway's log a failure shows, in bytes
)

// world is the surroundings of the gateways of one test: a database, a destination, a folder and
// settings.
type world struct {
	db   *database
	sink *sink
	dir  string
	env  []string
}

// newWorld prepares a world. The settings may use ${DATABASE_URL}, ${SINK} and
// the names of secretEnvironment.
func newWorld(t testing.TB, db *database, settings string) *world {
	t.Helper()
	w := &world{db: db, sink: newSink(t), dir: t.TempDir()}
	w.env = append(secretEnvironment(), "DATABASE_URL="+db.url, "SINK="+w.sink.server.URL)
	w.configure(t, settings)
	return w
}

func secretEnvironment() []string {
	return []string{
		"GITHUB_SECRET=" + githubSecret,
		"STRIPE_SECRET=" + stripeSecret,
		"STANDARD_SECRET=" + standardSecret,
		"LAB_SECRET=" + labSecret,
		"DESTINATION_SECRET=" + destinationSecret,
		"ADMIN_TOKEN=" + adminToken,
	}
}

func (w *world) configure(t testing.TB, settings string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, "hookonce.yaml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
}

// command prepares a run of the program in the world's folder.
func (w *world) command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(program.Hookonce(t), args...)
	cmd.Dir = w.dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.dir, "TMPDIR=" + os.TempDir(), race.Environment()}, w.env...)
	return cmd
}

// output is the result of a finished command.
type output struct {
	code           int
	stdout, stderr string
}

// run runs a command to its end, and checks that it prints no secret.
func (w *world) run(t testing.TB, args ...string) *output {
	t.Helper()
	cmd := w.command(t, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	out := &output{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	if found := leaked(out.stdout + out.stderr); len(found) > 0 {
		t.Errorf("hookonce %s printed secrets %q:\n%s%s", strings.Join(args, " "), found, out.stdout, out.stderr)
	}
	return out
}

// gateway is one running "hookonce serve".
type gateway struct {
	cmd           *exec.Cmd
	public, admin string // host:port
	client        *http.Client
	log           gatewayLog
	exited        chan struct{}
	killed        bool // by the test, so ignore its exit code
	stopped       bool
}

// start starts a gateway with the world's settings file and waits until it is ready. The gateway is
// stopped when the test ends, at the latest.
func (w *world) start(t testing.TB) *gateway {
	t.Helper()
	g := w.launch(t, "--config", "hookonce.yaml")
	g.waitReady(t)
	return g
}

// launch starts a gateway and waits until it listens.
func (w *world) launch(t testing.TB, args ...string) *gateway {
	t.Helper()
	g := w.spawn(t, args...)
	g.waitListening(t)
	return g
}

// spawn starts a gateway and does not wait.
func (w *world) spawn(t testing.TB, args ...string) *gateway {
	t.Helper()
	args = append([]string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, args...)
	g := &gateway{cmd: w.command(t, args...), exited: make(chan struct{})}
	transport := &http.Transport{MaxIdleConnsPerHost: 128}
	g.client = &http.Client{
		Transport:     transport,
		Timeout:       eventually.Bound,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	stderr, err := g.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	g.cmd.Stdout = g.cmd.Stderr
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		g.log.copy(stderr)
		_ = g.cmd.Wait() // the code is read from ProcessState
		close(g.exited)
	}()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		g.stop(t)
		if t.Failed() {
			text := g.log.text()
			if g.killed { // perhaps one of many
				text = text[max(0, len(text)-killedLog):]
			}
			t.Logf("log of the gateway on %s:\n%s", g.public, text)
		}
	})
	return g
}

// waitListening waits until the gateway has logged the addresses that it listens on.
func (g *gateway) waitListening(t testing.TB) {
	t.Helper()
	g.public = g.waitAddress(t, publicAddress)
	g.admin = g.waitAddress(t, adminAddress)
}

// The log lines with the addresses.
var (
	publicAddress = regexp.MustCompile(`(?m)serving webhooks.*?\b(127\.0\.0\.1:\d+)`)
	adminAddress  = regexp.MustCompile(`(?m)serving the admin API.*?\b(127\.0\.0\.1:\d+)`)
)

func (g *gateway) waitAddress(t testing.TB, line *regexp.Regexp) string {
	t.Helper()
	var address string
	g.eventually(t, "the log shows the address", func() bool {
		if m := line.FindStringSubmatch(g.log.text()); m != nil {
			address = m[1]
		}
		return address != ""
	})
	return address
}

func (g *gateway) waitReady(t testing.TB) {
	t.Helper()
	g.eventually(t, "/readyz is 200", func() bool { return g.readiness() == http.StatusOK })
}

// readiness returns the status of /readyz, 0 while there is no answer.
func (g *gateway) readiness() int {
	resp, err := g.client.Get("http://" + g.admin + "/readyz")
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// eventually waits until ok returns true, and also fails when the gateway has ended.
func (g *gateway) eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	eventually.True(t, what, func() bool {
		if ok() {
			return true
		}
		select {
		case <-g.exited:
			t.Fatalf("waiting until %s: the gateway ended: %s\n%s", what, g.cmd.ProcessState, g.log.text())
		default:
		}
		return false
	})
}

func (g *gateway) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := g.cmd.Process.Signal(sig); err != nil {
		t.Errorf("signal %s: %v", sig, err)
	}
}

// kill ends the gateway without warning.
func (g *gateway) kill(t testing.TB) {
	t.Helper()
	g.killed, g.stopped = true, true
	g.signal(t, syscall.SIGKILL)
	<-g.exited
}

// stop ends the gateway as an operator does, and checks how it ended. Calling it again is harmless.
func (g *gateway) stop(t testing.TB) {
	t.Helper()
	if !g.stopped {
		g.stopped = true
		g.signal(t, syscall.SIGTERM)
	}
	select {
	case <-g.exited:
	case <-time.After(stopTimeout):
		t.Errorf("the gateway did not end within %s of SIGTERM", stopTimeout)
		g.killed = true
		_ = g.cmd.Process.Signal(syscall.SIGKILL) // it may have ended just now
		<-g.exited
	}
	if code := g.cmd.ProcessState.ExitCode(); !g.killed && code != 0 {
		t.Errorf("the gateway ended with %s, not with code 0", g.cmd.ProcessState)
	}
	text := g.log.text()
	if found := leaked(text); len(found) > 0 {
		t.Errorf("the log holds secrets %q:\n%s", found, text)
	}
	for _, bad := range []string{"DATA RACE", "panic", "goroutine 1 ["} {
		if strings.Contains(text, bad) {
			t.Errorf("the log holds %q:\n%s", bad, text)
		}
	}
}

// gatewayLog collects the output of a gateway.
type gatewayLog struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *gatewayLog) copy(r io.Reader) {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		l.mu.Lock()
		l.buf.Write(line)
		l.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (l *gatewayLog) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

package e2e

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/program"
	"github.com/hookonce/hookonce/internal/test/race"
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
		"GITHUB_WEBHOOK_SECRET=" + githubSecret,
		"STRIPE_WEBHOOK_SECRET=" + stripeSecret,
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
	*program.Process
	public, admin string // host:port
	client        *http.Client
	killed        bool // by the test, so ignore its exit code
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
	g.public, g.admin = g.Addresses(t)
	return g
}

// spawn starts a gateway and does not wait.
func (w *world) spawn(t testing.TB, args ...string) *gateway {
	t.Helper()
	args = append([]string{"serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, args...)
	g := &gateway{Process: program.Start(t, w.command(t, args...))}
	transport := &http.Transport{MaxIdleConnsPerHost: 128}
	g.client = &http.Client{
		Transport:     transport,
		Timeout:       eventually.Bound,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		g.stop(t)
	})
	return g
}

func (g *gateway) waitReady(t testing.TB) {
	t.Helper()
	g.WaitReady(t, g.admin)
}

// readiness returns the status of /readyz, 0 while there is no answer.
func (g *gateway) readiness() int { return program.Readiness(g.admin) }

// kill ends the gateway without warning.
func (g *gateway) kill() {
	g.killed = true
	g.Kill()
}

// stop ends the gateway as an operator does, and checks how it ended. Calling it again is harmless.
func (g *gateway) stop(t testing.TB) {
	t.Helper()
	if g.killed {
		g.Kill()
		g.CheckLog(t)
	} else {
		g.Stop(t)
	}
	if found := leaked(g.Log()); len(found) > 0 {
		t.Errorf("the log holds secrets %q:\n%s", found, g.Log())
	}
}

package pages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/program"
)

const stopTimeout = 30 * time.Second

// world is the folder of a reader who follows a page. Its ports stand for those of the page, so that
// nothing else on this machine is disturbed.
type world struct {
	folder  string
	bin     string            // programs built for readers, before the PATH
	env     []string          // set by export
	ports   map[string]string // the address on the page → the one here
	replace []string          // pairs: a text on the page, and its value here
	loads   bool              // scripts load .env first, as the reader's terminals have
	running []*process
	// application starts the program that the page showed last.
	application func()
}

// process is a server that a page starts.
type process struct {
	cmd    *exec.Cmd
	out    output
	exited chan struct{}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{folder: t.TempDir(), bin: t.TempDir(), ports: make(map[string]string)}
	for _, port := range []string{"8080", "8081", "3000", "9000"} {
		w.ports["127.0.0.1:"+port] = dbtest.FreeAddress(t)
	}
	// serve listens on the ports of this world, and logs as on a terminal; everything else is as the reader types it.
	wrapper := fmt.Sprintf("#!/bin/sh\nif [ \"$1\" = serve ]; then shift; set -- serve --listen %s --admin-listen %s --log-format text \"$@\"; fi\nexec %s \"$@\"\n",
		w.ports["127.0.0.1:8080"], w.ports["127.0.0.1:8081"], program.Hookonce(t))
	for _, folder := range []string{w.bin, w.folder} {
		if err := os.WriteFile(filepath.Join(folder, "hookonce"), []byte(wrapper), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { w.stopAll(t) })
	return w
}

// here returns a text of the page with the addresses and programs of this world.
func (w *world) here(t *testing.T, text string) string {
	t.Helper()
	var pairs []string
	for there, here := range w.ports {
		pairs = append(pairs, there, here)
	}
	pairs = append(pairs, "go run ./cmd/hookonce", "hookonce", "go build ./cmd/hookonce", "true", "go install ./cmd/hookonce", "true")
	text = strings.NewReplacer(pairs...).Replace(strings.NewReplacer(w.replace...).Replace(text))
	return goRun.ReplaceAllStringFunc(text, func(command string) string { return program.Path(t, strings.TrimPrefix(command, "go run ")) })
}

var goRun = regexp.MustCompile(`go run \./[a-z/]+`)

// command returns a shell that runs a script in the folder of this world.
func (w *world) command(ctx context.Context, script string) *exec.Cmd {
	if w.loads {
		script = "[ ! -e .env ] || { " + loadEnv + "; }\n" + script
	}
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = w.folder
	cmd.Env = append([]string{"PATH=" + w.bin + ":" + os.Getenv("PATH"), "HOME=" + w.folder, "LC_ALL=C.UTF-8", "TZ=UTC"}, w.env...)
	// A shell and its children are one process group, so that nothing stays behind.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = stopTimeout
	return cmd
}

// run runs a script and returns its output and exit code.
func (w *world) run(t *testing.T, script string) (out string, code int) {
	t.Helper()
	text, err := w.command(eventually.Context(t), script).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v\n%s", script, err, text)
	}
	if exit != nil {
		code = exit.ExitCode()
	}
	return string(text), code
}

// loadEnv is the command of the pages that loads .env into a terminal.
const loadEnv = "set -a; . ./.env; set +a"

// export keeps the variables that a script exports, for the scripts after it.
func (w *world) export(script string) {
	w.loads = w.loads || strings.Contains(script, loadEnv)
	for _, command := range commandsOf(script) {
		rest, ok := strings.CutPrefix(command, "export ")
		for ok && rest != "" {
			var one string
			one, rest, _ = strings.Cut(rest, " ")
			w.env = append(w.env, one)
		}
	}
}

// start runs a script whose last command is a server, and waits until it answers a request to an address: it may listen
// before it is ready.
func (w *world) start(t *testing.T, script, address string) {
	t.Helper()
	p := w.launch(t, script)
	eventually.Succeeds(t, "the server answers", func() error {
		p.mustRun(t)
		answer, err := http.Get("http://" + address)
		if err != nil {
			return err
		}
		return answer.Body.Close()
	})
}

// interrupt runs a script until its output is right, ends it as Ctrl-C does, and returns the output.
func (w *world) interrupt(t *testing.T, where, script, until string) string {
	t.Helper()
	p, want := w.launch(t, script), regexp.MustCompile(until)
	eventually.Succeeds(t, "the output is right", func() error {
		if out := p.out.String(); !want.MatchString(out) {
			p.mustRun(t)
			return fmt.Errorf("%s: want output like %q:\n%s", where, until, out)
		}
		return nil
	})
	w.stopLast(t)
	return p.out.String()
}

// mustRun fails if the process has ended.
func (p *process) mustRun(t *testing.T) {
	t.Helper()
	select {
	case <-p.exited:
		t.Fatalf("%s ended\n%s", p.cmd, p.out.String())
	default:
	}
}

// launch runs a script that stopLast ends.
func (w *world) launch(t *testing.T, script string) *process {
	t.Helper()
	p := &process{cmd: w.command(context.WithoutCancel(t.Context()), script), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // the log tells
		close(p.exited)
	}()
	w.running = append(w.running, p)
	return p
}

// stopAll ends the servers as Ctrl-C does.
func (w *world) stopAll(t *testing.T) {
	t.Helper()
	for len(w.running) > 0 {
		w.stopLast(t)
	}
}

// stopLast ends the server that was started last.
func (w *world) stopLast(t *testing.T) {
	t.Helper()
	last := len(w.running) - 1
	p := w.running[last]
	w.running = w.running[:last]
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT) // it may have ended
	select {
	case <-p.exited:
	case <-time.After(stopTimeout):
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.exited
		t.Errorf("%s did not end within %s\n%s", p.cmd, stopTimeout, p.out.String())
	}
	if t.Failed() {
		t.Logf("%s\n%s", p.cmd, p.out.String())
	}
}

// awaitLog waits until a server has logged text.
func (w *world) awaitLog(t *testing.T, text string) {
	t.Helper()
	eventually.Succeeds(t, "a server logs", func() error {
		for _, p := range w.running {
			if strings.Contains(p.out.String(), text) {
				return nil
			}
		}
		return fmt.Errorf("no server has logged %q", text)
	})
}

// write writes a file that the page tells the reader to save.
func (w *world) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.folder, name), []byte(w.here(t, text)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// get returns the answer of the admin API of the gateway of this world.
func (w *world) get(t *testing.T, path string) string {
	t.Helper()
	resp, err := http.Get("http://" + w.ports["127.0.0.1:8081"] + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// output collects the lines that a process prints.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

package receivers

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"testing"

	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/race"
)

// process is a program that does not tell its address in the way of the examples.
type process struct {
	env, command []string
	folder       string

	cmd   *exec.Cmd
	log   bytes.Buffer // read it after kill
	ended chan struct{}
}

// newProcess prepares a process, which is killed when the test ends.
func newProcess(t *testing.T, env []string, command ...string) *process {
	t.Helper()
	p := &process{command: command, folder: t.TempDir()}
	p.env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.folder, race.Environment()}, env...)
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s printed:\n%s", p.command, &p.log)
		}
	})
	return p
}

func (p *process) start(t *testing.T) {
	t.Helper()
	p.cmd = exec.Command(p.command[0], p.command[1:]...)
	p.cmd.Dir, p.cmd.Env = p.folder, p.env
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	p.ended = ended
	go func(cmd *exec.Cmd) {
		_ = cmd.Wait() // the log tells how it ended
		close(ended)
	}(p.cmd)
}

// kill kills the process if it runs.
func (p *process) kill() {
	if p.cmd != nil && p.cmd.Process != nil {
		_ = p.cmd.Process.Kill() // it may have ended by itself
		<-p.ended
	}
}

// waitReady waits until a gateway says that it is ready.
func (p *process) waitReady(t *testing.T, admin string) {
	t.Helper()
	eventually.Succeeds(t, fmt.Sprintf("%s is ready", p.command), func() error {
		select {
		case <-p.ended:
			t.Fatalf("%s ended: %s\n%s", p.command, p.cmd.ProcessState, &p.log)
		default:
		}
		return isReady(admin)
	})
}

func isReady(admin string) error {
	resp, err := http.Get("http://" + admin + "/readyz")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("answered %s", resp.Status)
	}
	return nil
}

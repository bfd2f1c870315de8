package receivers

import (
	"os"
	"os/exec"
	"testing"

	"github.com/hookonce/hookonce/internal/test/program"
	"github.com/hookonce/hookonce/internal/test/race"
)

// process is a program that does not tell its address in the way of the examples. It is started again after a kill.
type process struct {
	*program.Process
	env, command []string
	folder       string
}

func newProcess(t *testing.T, env []string, command ...string) *process {
	t.Helper()
	p := &process{command: command, folder: t.TempDir()}
	p.env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.folder, race.Environment()}, env...)
	return p
}

func (p *process) start(t *testing.T) {
	t.Helper()
	cmd := exec.Command(p.command[0], p.command[1:]...)
	cmd.Dir, cmd.Env = p.folder, p.env
	p.Process = program.Start(t, cmd)
}

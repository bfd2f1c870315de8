package program

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// TestKilledTestLeavesNoProcess kills a process with a test that has started a program: the program ends too.
func TestKilledTestLeavesNoProcess(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux binds a child to its parent")
	}
	const variable = "HOOKONCE_TEST_ORPHAN"
	if os.Getenv(variable) != "" {
		sleep := exec.Command("sh", "-c", "trap '' QUIT; exec sleep 120") // HAProxy goes on after SIGQUIT
		sleep.ExtraFiles = []*os.File{os.Stdout}                          // so that the pipe is open while it runs
		p := Start(t, sleep)
		fmt.Println("started")
		<-p.Exited
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), variable+"=1", "TMPDIR="+t.TempDir())
	cmd.Stderr = os.Stderr
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	cmd.Stdout = write
	if err := dbtest.StartChild(cmd); err != nil {
		t.Fatal(err)
	}
	write.Close()
	var word string
	if _, err := fmt.Fscan(read, &word); err != nil {
		t.Error(err)
	}
	_ = cmd.Process.Kill() // no other test ends it
	_ = cmd.Wait()         // killed
	if err := read.SetReadDeadline(time.Now().Add(eventually.Bound)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(read); err != nil {
		t.Errorf("the program outlives the test: %v", err)
	}
}

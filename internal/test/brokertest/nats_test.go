package brokertest_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/brokertest"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
)

// TestKilledTestLeavesNoNATS kills a process that has a server: the server ends too.
func TestKilledTestLeavesNoNATS(t *testing.T) {
	group.Need(t, "brokers")
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux binds a child to its parent")
	}
	const variable = "HOOKONCE_BROKERTEST_ORPHAN"
	if os.Getenv(variable) != "" {
		fmt.Println(brokertest.StartNATS(t).Addr)
		<-time.After(time.Hour) // until it is killed
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), variable+"=1", "TMPDIR="+t.TempDir())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := dbtest.StartChild(cmd); err != nil {
		t.Fatal(err)
	}
	kill := sync.OnceFunc(func() {
		_ = cmd.Process.Kill() // no other test ends it
		_ = cmd.Wait()         // killed
	})
	t.Cleanup(kill)
	var addr string
	if _, err := fmt.Fscan(out, &addr); err != nil {
		t.Fatal(err)
	}
	await := func(listens bool) {
		t.Helper()
		eventually.True(t, fmt.Sprintf("the server listens: %v", listens), func() bool {
			conn, err := net.Dial("tcp", addr)
			if err == nil {
				conn.Close()
			}
			return (err == nil) == listens
		})
	}
	await(true)
	kill()
	await(false)
}

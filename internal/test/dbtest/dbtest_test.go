package dbtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestMain(m *testing.M) {
	if os.Getenv(orphanVariable) != "" {
		orphan()
	}
	Main(m)
}

func TestSchemasAreApart(t *testing.T) {
	t.Parallel()
	var dsn string
	seen := map[string]bool{}
	t.Run("used", func(t *testing.T) {
		for range 3 {
			var schema string
			dsn, schema = Postgres(t)
			if seen[schema] {
				t.Errorf("two tests got the schema %s", schema)
			}
			seen[schema] = true
			run(t, dsn, "CREATE SCHEMA "+schema+"; CREATE TABLE "+schema+".a (); CREATE VIEW "+schema+".b AS SELECT FROM "+schema+".a")
		}
	})
	for schema := range seen {
		if err := tryRun(t, dsn, "SELECT FROM "+schema+".a"); err == nil {
			t.Errorf("the schema %s still exists after its test", schema)
		}
	}
}

func tryRun(t *testing.T, dsn, sql string) error {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		return err
	}
	_, err = conn.Exec(t.Context(), sql)
	return errors.Join(err, conn.Close(t.Context()))
}

func run(t *testing.T, dsn, sql string) {
	t.Helper()
	if err := tryRun(t, dsn, sql); err != nil {
		t.Fatal(err)
	}
}

// TestPrivateServer does everything to a server that a test may do, and finds nothing left
// afterwards.
func TestPrivateServer(t *testing.T) {
	t.Parallel()
	var folder string
	var pids []int // id of its first process after each start
	t.Run("used", func(t *testing.T) {
		s := StartServer(t, &Options{Config: []string{"work_mem=1234kB"}})
		folder = s.folder
		note := func() { pids = append(pids, s.cmd.Process.Pid) }
		run(t, s.DSN(), "CREATE TABLE a (n int); INSERT INTO a VALUES (1)")
		note()
		s.Kill(t)
		if err := tryRun(t, s.DSN(), "SELECT 1"); err == nil {
			t.Error("a killed server answers")
		}
		s.Restart(t, "statement_timeout=12345")
		run(t, s.DSN(), "SELECT 1 / (SELECT count(*) FROM a)::int")
		run(t, s.DSN(), "SELECT 1 / (current_setting('work_mem') = '1234kB')::int")
		run(t, s.DSN(), "SELECT 1 / (current_setting('statement_timeout') = '12345ms')::int")
		run(t, s.DSN(), "SELECT 1 / (current_setting('synchronous_commit') = 'on' AND current_setting('fsync') = 'on')::int")
		note()
		s.Shutdown(t)
		s.Restart(t)
		note()
		s.Stop(t)
		if !alive(s.cmd.Process.Pid) {
			t.Error("the processes of a frozen server have ended")
		}
		s.Cont(t)
		run(t, s.DSN(), "SELECT 1")
		s.Stop(t) // and left frozen: removing it must work
	})
	checkGone(t, folder, pids)
}

func checkGone(t *testing.T, folder string, pids []int) {
	t.Helper()
	if err := waitGone(pids, stopTimeout); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(folder); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder %s still exists: %v", folder, err)
	}
}

// TestKilledServerLeavesNoSharedMemory ends a test while its server is killed and not restarted.
func TestKilledServerLeavesNoSharedMemory(t *testing.T) {
	t.Parallel()
	segment := ""
	t.Run("killed", func(t *testing.T) {
		s := StartServer(t, nil)
		s.Kill(t)
		text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
		if err != nil {
			t.Fatal(err)
		}
		segment = strings.Fields(strings.Split(string(text), "\n")[6])[1]
		if list := segments(t); list != "" && !strings.Contains(list, " "+segment+" ") {
			t.Fatalf("the segment %s of a killed server is not among:\n%s", segment, list)
		}
	})
	if list := segments(t); strings.Contains(list, " "+segment+" ") {
		t.Errorf("the segment %s still exists:\n%s", segment, list)
	}
}

// segments lists the System V segments of the system; "" on systems without such a list.
func segments(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/sysvipc/shm")
	if errors.Is(err, os.ErrNotExist) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const orphanVariable = "HOOKONCE_DBTEST_ORPHAN"

// orphan starts a server, prints its first process and its folder, and waits to be killed.
func orphan() {
	s, err := start(&Options{})
	if err != nil {
		panic(err)
	}
	fmt.Println(s.cmd.Process.Pid, s.folder)
	select {}
}

// TestKilledTestLeavesNoServer kills a process that has a server: the server ends too, and the next
// server to start removes the folder.
func TestKilledTestLeavesNoServer(t *testing.T) {
	t.Parallel()
	if dies := func() bool { _, err := os.Stat("/proc/self/stat"); return err == nil }(); !dies {
		t.Skip("only Linux binds a child to its parent")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), orphanVariable+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := sync.OnceFunc(func() {
		_ = cmd.Process.Kill() // no other test ends it
		_ = cmd.Wait()         // killed
	})
	t.Cleanup(kill)
	var pid int
	var folder string
	if _, err := fmt.Fscan(out, &pid, &folder); err != nil {
		t.Fatal(err)
	}
	if !alive(pid) {
		t.Fatalf("process %d of the server is not running", pid)
	}
	kill()
	if err := waitGone([]int{pid}, stopTimeout); err != nil {
		t.Fatal(err)
	}
	t.Run("next", func(t *testing.T) { StartServer(t, nil) })
	checkGone(t, folder, []int{pid})
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for folder, want := range map[string]int{
		"/usr/lib/postgresql/15/bin": 15, "/usr/local/pgsql/bin": 0, "/usr/pgsql-17/bin": 17,
		"/opt/homebrew/opt/postgresql@16/bin": 16,
	} {
		if got := version(folder); got != want {
			t.Errorf("version(%q) is %d, want %d", folder, got, want)
		}
	}
}

package dbtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

func TestMain(m *testing.M) {
	if os.Getenv(orphanVariable) != "" {
		orphan(os.Getenv(orphanVariable))
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
	if err := waitGone(pids); err != nil {
		t.Error(err)
	}
	// A keeper removes the folder after its server has ended.
	eventually.True(t, "the folder "+folder+" is gone", func() bool {
		_, err := os.Stat(folder)
		return errors.Is(err, os.ErrNotExist)
	})
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

const orphanVariable = "HOOKONCE_DBTEST_ORPHAN" // "private", or the folder of a shared server

// orphan gets a server, prints its DSN, its first process and its folder, and waits to be killed.
func orphan(how string) {
	var dsn string
	var err error
	if how == "private" {
		var s *Server
		if s, err = start(&Options{}, ""); err == nil {
			dsn = s.DSN()
		}
	} else {
		dsn, _, err = joinServer(how)
	}
	if err != nil {
		panic(err)
	}
	conn, err := pgx.Connect(context.Background(), dsn)
	if err != nil {
		panic(err)
	}
	var folder, pid string
	const query = "SELECT current_setting('data_directory'), split_part(pg_read_file('postmaster.pid'), E'\n', 1)"
	if err := conn.QueryRow(context.Background(), query).Scan(&folder, &pid); err != nil {
		panic(err)
	}
	fmt.Println(dsn, pid, filepath.Dir(folder))
	select {}
}

// startOrphan starts a process that gets a server, and returns the server's DSN, its first process and its folder.
func startOrphan(t *testing.T, how string) (dsn string, pid int, folder string, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), orphanVariable+"="+how)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill() // no other test ends it
		_ = cmd.Wait()         // killed
	})
	t.Cleanup(kill)
	if _, err := fmt.Fscan(out, &dsn, &pid, &folder); err != nil {
		t.Fatal(err)
	}
	if !alive(pid) {
		t.Fatalf("process %d of the server is not running", pid)
	}
	return dsn, pid, folder, kill
}

// TestKilledTestLeavesNoServer kills a process that has a server: the server ends too, and the next
// server to start removes the folder.
func TestKilledTestLeavesNoServer(t *testing.T) {
	t.Parallel()
	if dies := func() bool { _, err := os.Stat("/proc/self/stat"); return err == nil }(); !dies {
		t.Skip("only Linux binds a child to its parent")
	}
	_, pid, folder, kill := startOrphan(t, "private")
	kill()
	if err := waitGone([]int{pid}); err != nil {
		t.Fatal(err)
	}
	t.Run("next", func(t *testing.T) { StartServer(t, nil) })
	checkGone(t, folder, []int{pid})
}

// TestSharedServer kills one process after the other of those that share a server: it ends with the last one. A process that
// comes later gets a new server.
func TestSharedServer(t *testing.T) {
	t.Parallel()
	where := filepath.Join(t.TempDir(), "shared")
	dsn, pid, folder, kill := startOrphan(t, where)
	again, _, _, killAgain := startOrphan(t, where)
	if again != dsn {
		t.Errorf("two processes have the servers %s and %s, want one", dsn, again)
	}
	kill()
	third, leave, err := joinServer(where)
	if err != nil || third != dsn {
		t.Fatalf("after the death of the first process: got the server %s and the error %v, want %s", third, err, dsn)
	}
	killAgain()
	if err := tryRun(t, dsn, "SELECT 1"); err != nil {
		t.Errorf("the server ended before its last user: %v", err)
	}
	leave()
	checkGone(t, folder, []int{pid})
	later, pid, folder, kill := startOrphan(t, where)
	if later == dsn {
		t.Error("the server of the next process is the old one")
	}
	if err := signalAll([]int{pid}, syscall.SIGKILL); err != nil { // the server fails by itself
		t.Fatal(err)
	}
	checkGone(t, folder, []int{pid})
	last, _, _, _ := startOrphan(t, where)
	if last == later {
		t.Error("a dead server was found")
	}
	kill()
}

// TestReady changes a ready schema: who gets it next finds it as new.
func TestReady(t *testing.T) {
	t.Parallel()
	const look = `SELECT 1 / (n = 0)::int FROM (SELECT count(*) AS n FROM {s}.event) AS e;
		SELECT 1 / (to_regclass('{s}.effects') IS NULL)::int;
		SELECT 1 / (pg_get_function_result('{s}.run_home()'::regprocedure) = 'text')::int;
		SELECT 1 / (obj_description('{s}.run_home()'::regprocedure) <> '')::int;
		SELECT 1 / ((SELECT count(*) FROM {s}.schema_migration WHERE version > 0) = 1)::int;
		SELECT 1 / ((SELECT count(*) FROM pg_trigger WHERE tgrelid = '{s}.event'::regclass) = 0)::int`
	const insert = `INSERT INTO {s}.event (key, source, event_id, type, received_at, headers, body, body_sha256, work)
		SELECT sha256(n::text::bytea), 's', n, 't', now(), '', repeat('x', 100)::bytea, sha256(''), 0 FROM generate_series(1, %d) AS n;`
	for change, keeps := range map[string]bool{
		"":                     true,
		fmt.Sprintf(insert, 3): true,
		"CREATE TABLE {s}.effects (name text); CREATE VIEW {s}.seen AS SELECT FROM {s}.effects": true,
		"ANALYZE": true,
		"CREATE FUNCTION {s}.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';" +
			"CREATE TRIGGER t BEFORE DELETE ON {s}.event FOR EACH ROW EXECUTE FUNCTION {s}.f()": false,
		"ALTER TABLE {s}.event ADD more text":         false,
		"UPDATE {s}.schema_migration SET version = 0": false,
		"GRANT SELECT ON {s}.event TO PUBLIC":         false,
		"DROP SCHEMA {s} CASCADE":                     false,
		fmt.Sprintf(insert, 3000):                     false,
	} {
		dsn := server(t)
		schema, err := ready.take()
		if err != nil {
			t.Fatal(err)
		}
		run(t, dsn, strings.ReplaceAll(look+";"+change, "{s}", schema))
		// Another package may take a schema that is handed back, and change it.
		droppedFor, err := ready.clean(schema)
		kept := droppedFor == ""
		if err != nil || kept != keeps {
			t.Errorf("after %q the schema is kept: %t (%s), want %t; error %v", change, kept, droppedFor, keeps, err)
		}
		if kept {
			err = ready.giveBack(schema)
		}
		if exists := tryRun(t, dsn, "SELECT 1 / (to_regnamespace('"+schema+"') IS NOT NULL)::int") == nil; err != nil || exists && !kept {
			t.Errorf("after %q the schema exists: %t; error %v", change, exists, err)
		}
	}
	t.Run("looks", func(t *testing.T) {
		for range 10 {
			dsn, schema := Ready(t)
			run(t, dsn, strings.ReplaceAll(look, "{s}", schema))
		}
	})
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

package e2e

import (
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
)

// Whenever the demo is interrupted, nothing is left.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		line   string // printed before; "": as soon as the folder is there
		signal syscall.Signal
		late   bool
	}{
		"while it starts":    {"", syscall.SIGINT, false},
		"in the traffic":     {"hookonce demo", syscall.SIGTERM, false},
		"in the outage":      {"out of service", syscall.SIGHUP, false},
		"after a kill":       {"killed with -9", syscall.SIGINT, true},
		"before it is ended": {"dead letters", syscall.SIGTERM, true},
	} {
		t.Run(name, func(t *testing.T) {
			if c.late {
				group.NeedLong(t)
			}
			t.Parallel()
			d := startDemo(t)
			d.folder(t)
			if c.line != "" {
				d.waitFor(t, c.line)
			}
			_ = d.cmd.Process.Signal(c.signal)
			_ = d.cmd.Process.Signal(c.signal) // an impatient user
			if c.line == "dead letters" {
				<-d.exited // with 0, if the table was there already
				d.ends(t, d.cmd.ProcessState.ExitCode())
				return
			}
			d.ends(t, 1)
			if d.stderr.String() != "Error: interrupted; everything was removed\nTry: run the same command again\n" {
				t.Errorf("it says %q", &d.stderr)
			}
			d.checkLines(t)
		})
	}
	t.Run("on PostgreSQL", func(t *testing.T) {
		group.Need(t, "demo")
		t.Parallel()
		// An autovacuum may work in the demo's database, and the demo may not end that.
		server := dbtest.StartServer(t, &dbtest.Options{Config: []string{
			"autovacuum_naptime=1s", "autovacuum_max_workers=8", "autovacuum_vacuum_threshold=0", "autovacuum_vacuum_scale_factor=0",
			"autovacuum_vacuum_cost_delay=100ms", "autovacuum_vacuum_cost_limit=1",
		}})
		db := postgresDatabase(t, server.DSN())
		d := startDemo(t, demoArgs(t, db)...)
		admin := db.open(t)
		eventually.True(t, "an autovacuum works in the demo's database", func() bool {
			return number(t, admin, `SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'autovacuum worker' AND datname LIKE 'hookonce_demo%'`) > 0
		})
		_ = d.cmd.Process.Signal(syscall.SIGTERM)
		eventually.Receive(t, "the demo ends", d.exited)
		d.ends(t, d.cmd.ProcessState.ExitCode()) // 0, if the table was there already
		if names := temporaryDatabases(t, db); len(names) > 0 {
			t.Errorf("databases are left: %q", names)
		}
	})
	t.Run("a closed pipe", func(t *testing.T) {
		t.Parallel()
		d := newDemo(t)
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		d.cmd.Stdout, d.cmd.Stderr = write, &d.stderr
		d.begin(t, strings.NewReader(""))
		_ = read.Close()
		_ = write.Close()
		d.ends(t, 1)
		if want := "\nTry: hookonce demo --exit, and read its output to the end\n"; !strings.HasSuffix(d.stderr.String(), want) {
			t.Errorf("it says %q, want the end %q", &d.stderr, want)
		}
	})
}

// Its processes end with it, even if it is killed.
func TestDemoKilled(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		return // only Linux binds a child to its parent
	}
	d := startDemo(t)
	d.waitFor(t, "out of service")
	if running := processesWith(t, d.temp); len(running) != 3 {
		t.Errorf("%d processes, want a gateway, a bank and a receiver:\n%s", len(running), strings.Join(running, "\n"))
	}
	_ = d.cmd.Process.Kill()
	eventually.True(t, "all processes are gone", func() bool { return len(processesWith(t, d.temp)) == 0 })
}

func TestDemoRefuses(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, "postgres")
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"a file":            {[]string{"--database", "sqlite:x.db"}, 2, "makes its own SQLite file"},
		"no URL":            {[]string{"--database", "postgres://h:x:y/"}, 2, "not a PostgreSQL URL"},
		"a lacking right":   {[]string{"--database", db.url}, 1, "CREATEDB"},
		"no server":         {[]string{"--database", "postgres://u:" + databasePassword + "@127.0.0.1:1/db"}, 1, "reaching the database"},
		"an argument":       {[]string{"nonsense"}, 2, "unknown command"},
		"a missing folder":  {[]string{"bank"}, 2, "FOLDER is missing"},
		"an unusable place": {[]string{"bank", "/nonexistent"}, 1, "the ledger bank.db"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := startDemo(t, c.args...)
			d.ends(t, c.code)
			if text := d.stderr.String(); !strings.Contains(text, c.want) || strings.Contains(text, databasePassword) {
				t.Errorf("it says %q, want %q", text, c.want)
			}
		})
	}
}

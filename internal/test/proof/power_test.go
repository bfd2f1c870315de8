package proof

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
)

// TestPowerCuts has the power of database and worker fail instead of the process alone, so unflushed writes are gone.
func TestPowerCuts(t *testing.T) {
	group.Need(t, "power")
	t.Run("PostgreSQL", func(t *testing.T) { powerCutsPostgres(t) })
	t.Run("SQLite", func(t *testing.T) { powerCutsSQLite(t) })
}

func powerCutsPostgres(t *testing.T) []figure {
	t.Helper()
	d := newDisk(t)
	server := dbtest.StartServer(t, &dbtest.Options{Folder: d.folder})
	d.must(t, "sync", "--file-system", d.folder) // the tests make the files of a server without a flush
	return powerCuts(newTrial(t, newDatabaseOn(t, withPgx, server.DSN()), nil), d, 5*time.Second, server)
}

func powerCutsSQLite(t *testing.T) []figure {
	t.Helper()
	d := newDisk(t)
	db := newDatabaseOn(t, withSQLite, filepath.Join(d.folder, "proof.db"))
	return powerCuts(newTrial(t, db, nil), d, time.Second, nil)
}

// cutsName is the name of a figure.
const cutsName = "power cuts"

// powerCuts runs a trial with one worker. server is nil for SQLite.
func powerCuts(tr *trial, d *disk, handlerTimeout time.Duration, server *dbtest.Server) []figure {
	t := tr.t
	t.Helper()
	tr.mayDieAgain = server != nil || group.Long()
	tr.db.session.SetMaxIdleConns(0) // a power cut ends those of the test, too
	worker := tr.addPlace("worker", settings{HandlerTimeout: handlerTimeout, DieOnce: !tr.mayDieAgain})
	tr.killOne = func() {
		if !worker.freeze(t) {
			return
		}
		if server != nil {
			server.Stop(t)
		}
		d.cut(t)
		worker.kill()
		if server != nil {
			server.Kill(t)
			server.Restart(t)
		}
	}
	tr.run()
	return tr.report(tr.check(), figure{cutsName, d.cuts, true})
}

// freeze stops the running process, and reports whether there is one. It waits for each thread: on a busy machine one of them
// may still answer a sender a moment after the signal, from a disk that is about to be replaced.
func (p *place) freeze(t testing.TB) bool {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process == nil || p.process.killed || p.process.cmd.Process.Signal(syscall.SIGSTOP) != nil {
		return false
	}
	threads := fmt.Sprintf("/proc/%d/task/*/stat", p.process.cmd.Process.Pid)
	eventually.True(t, "all threads stand still", func() bool {
		files, err := filepath.Glob(threads)
		return err == nil && !slices.ContainsFunc(files, func(file string) bool {
			text, err := os.ReadFile(file)
			_, state, _ := strings.Cut(string(text), ") ")
			return err == nil && !strings.HasPrefix(state, "T") // the file of a thread that has ended is gone
		})
	})
	return true
}

package e2e

import (
	"syscall"
	"testing"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

const tinyWindows = "dedupe_window: 1s\nretention: 1s\n"

const pruneSettings = `
database: ${DATABASE_URL}
sources:
  play: {provider: none, event: {id: "body:id", type: "body:type"}}
destinations:
  down: {url: "${DOWN}", timeout: 10s, retry: {attempts: 1000, first: 50ms, max: 100ms}}
  gone: {url: "${GONE}"}
  well: {url: "${SINK}/well"}
routes:
  - {name: down, types: [down, both], to: down}
  - {name: gone, types: [gone], to: gone}
  - {name: well, types: [well, both], to: well}
`

// Defect class: the process that may prune is killed or stopped in its turn, and nothing is pruned any
// more; or it wakes up and removes events by windows that held before. The next process prunes once the
// turn is over, and the one that was stopped ends without removing anything.
func TestProcessStoppedWhilePruning(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "stopped": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, newDatabase(t, "postgres"), pruneSettings+tinyWindows)
			w.env = append(w.env, "DOWN=http://127.0.0.1:9", "GONE=http://127.0.0.1:9")
			g := w.start(t)
			g.expect(t, play("old", "well"), "200 ok")
			g.waitState(t, "play", "old", "done")
			g.stop(t)
			w.db.age(t)

			db := w.db.open(t)
			lock, err := db.Begin()
			if err != nil {
				t.Fatal(err)
			}
			defer lock.Rollback()
			if _, err := lock.Exec("LOCK TABLE hookonce.event IN ACCESS EXCLUSIVE MODE"); err != nil {
				t.Fatal(err)
			}
			holder := w.command(t, "prune")
			if err := holder.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { // a stopped process, too
				_ = holder.Process.Kill()
				_ = holder.Wait()
			}()
			eventually.True(t, "the first process waits in its chunk", func() bool {
				var n int
				err := db.QueryRow("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'hookonce.event'::regclass").Scan(&n)
				return err == nil && n > 0
			})
			if err := holder.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			if err := lock.Rollback(); err != nil {
				t.Fatal(err)
			}
			// The server ends the session of a stopped process after five seconds, and then the minute of
			// the turn is over.
			if _, err := db.Exec("UPDATE hookonce.prune_turn SET until = now()"); err != nil {
				t.Fatal(err)
			}
			if out := w.run(t, "prune"); out.code != 0 || out.stdout != "removed 1 event, the bodies of 0 more, and 0 quarantined requests\n" {
				t.Errorf("the second process ended with code %d: %s%s", out.code, out.stdout, out.stderr)
			}

			again := w.start(t)
			again.expect(t, play("old", "well"), "200 ok")
			again.waitState(t, "play", "old", "done")
			again.stop(t)
			if signal == syscall.SIGSTOP {
				if err := holder.Process.Signal(syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
				if err := holder.Wait(); err == nil {
					t.Error("the stopped process succeeded after it had lost its turn")
				}
			}
			var n int
			if err := db.QueryRow("SELECT count(*) FROM hookonce.event").Scan(&n); err != nil || n != 1 {
				t.Errorf("%d events are there, error %v, want the new one", n, err)
			}
		})
	}
}

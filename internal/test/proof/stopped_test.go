package proof

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
)

// stoppedTimeout is the timeout of handlers here: long enough to stop a process before it ends.
const stoppedTimeout = 5 * time.Second

// PostgreSQL ends the session of a worker that was stopped in the middle of a transaction, and
// another worker does the work. When the first one continues, its handler returns nil, but the
// commit fails. PostgreSQL waits a minute for that, so in a plain run the test ends the session.
func TestStoppedWorkerPgx(t *testing.T) {
	t.Parallel()
	stoppedOnPostgres(t, withPgx)
}

func TestStoppedWorkerSQL(t *testing.T) {
	group.NeedLong(t)
	t.Parallel()
	stoppedOnPostgres(t, withSQL)
}

func stoppedOnPostgres(t *testing.T, variant string) {
	t.Helper()
	tr := newTrial(t, newDatabase(t, variant), someEvents(20))
	stopped, gate := tr.stopInHandler()
	openGate(t, gate)
	if !group.Long() {
		n := tr.db.number(t, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND state = 'idle in transaction'`)
		if n == 0 {
			t.Fatal("the test is void: the stopped worker had no transaction")
		}
	}
	other := tr.addPlace("other", settings{HandlerTimeout: stoppedTimeout})
	other.keep(t)
	tr.waitAll(driver.StateDone)
	tr.eventually("all messages are sent", func() bool { return tr.unfinished() == 0 })
	other.stop(t)

	before := tr.snapshot()
	tr.continueAndStop(stopped)
	if diff := cmp.Diff(before, tr.snapshot()); diff != "" {
		t.Errorf("the continued worker changed finished rows (-before +after):\n%s", diff)
	}
	f := tr.check()
	for _, p := range []*place{stopped, other} {
		if !f.calledBy(p) {
			t.Errorf("the test is void: %s has called no handler", p.name)
		}
	}
}

// SQLite ends no transaction: a process that is stopped in the middle of one holds the only write
// lock, and the others wait. When it continues, its time is over. Whichever process does the work
// then, it is done once.
func TestStoppedWorkerSQLite(t *testing.T) {
	t.Parallel()
	tr := newTrial(t, newDatabase(t, withSQLite), someEvents(20))
	stopped, gate := tr.stopInHandler()
	openGate(t, gate)
	other := tr.addPlace("other", settings{HandlerTimeout: stoppedTimeout})
	other.keep(t)
	tr.eventually("the run of the stopped worker counts as interrupted", func() bool {
		return tr.db.number(t, `SELECT count(*) FROM hookonce_event_state
			WHERE state <> 1 OR due_at > CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)`) == 0
	})
	stopped.signal(t, syscall.SIGCONT)
	tr.waitAll(driver.StateDone)
	tr.eventually("all messages are sent", func() bool { return tr.unfinished() == 0 })
	tr.stop()
	tr.check()
	tr.checkPassed()
}

// someEvents returns events that succeed and enqueue a message.
func someEvents(n int) []*event {
	events := make([]*event, n)
	for i := range events {
		events[i] = newEvent(order{ID: fmt.Sprintf("evt-%d", i), Does: succeed, Message: true})
	}
	return events
}

// stopInHandler delivers the events, starts a worker that takes them, and stops the worker in a
// handler, which waits for the gate.
func (tr *trial) stopInHandler() (stopped *place, gate string) {
	t := tr.t
	t.Helper()
	// The events arrive before a worker runs, so that it takes many in one run.
	receiver := tr.addPlace("receiver", settings{Receiver: true})
	receiver.keep(t)
	var deliveries sync.WaitGroup
	for _, ev := range tr.events {
		deliveries.Go(func() { tr.deliver(ev, 0) })
	}
	deliveries.Wait()
	receiver.stop(t)

	gate = filepath.Join(tr.folder, "gate")
	stopped = tr.addPlace("stopped", settings{HandlerTimeout: stoppedTimeout, Gate: gate})
	stopped.keep(t)
	// Stopped earlier, its statements would fail when it continues, and it would not reach the
	// gate.
	tr.eventually("a handler waits for the gate", func() bool { return tr.size(waitingFile) > 0 })
	stopped.signal(t, syscall.SIGSTOP)
	waitStopped(t, stopped.pid())
	t.Cleanup(func() { // a stopped process ignores SIGTERM
		if pid := stopped.pid(); pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	})
	if tr.db.number(t, `SELECT count(*) FROM effects`) > 0 {
		t.Fatal("the test is void: the worker had committed before it was stopped")
	}
	return stopped, gate
}

// waitStopped waits until all threads of a process have stopped: they may run for a moment after
// the signal.
func waitStopped(t testing.TB, pid int) {
	t.Helper()
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil || !status.Stopped():
			t.Fatalf("the process has not stopped: status %v, error %v", status, err)
		default:
			return
		}
	}
}

func openGate(t testing.TB, gate string) {
	t.Helper()
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// continueAndStop lets a stopped worker continue until its handler has returned, and then stops it
// as an operator does.
func (tr *trial) continueAndStop(p *place) {
	tr.t.Helper()
	p.signal(tr.t, syscall.SIGCONT)
	tr.eventually("the stopped handler has continued", func() bool { return tr.size(passedFile) > 0 })
	p.stop(tr.t)
	tr.checkPassed()
}

// checkPassed fails the test as void if no handler has continued.
func (tr *trial) checkPassed() {
	tr.t.Helper()
	if tr.size(passedFile) == 0 {
		tr.t.Error("the test is void: no handler has continued")
	}
}

// waitAll waits until all events are in a state.
func (tr *trial) waitAll(state string) {
	tr.t.Helper()
	tr.eventually("all events are "+state, func() bool {
		return tr.db.number(tr.t, `SELECT count(*) FROM `+tr.db.table("events")+` WHERE state = '`+state+`'`) == len(tr.events)
	})
}

// eventually polls ok, which asks other processes, for longer than any timeout.
func (tr *trial) eventually(what string, ok func() bool) {
	tr.t.Helper()
	eventually.Succeeds(tr.t, what, func() error {
		if ok() {
			return nil
		}
		return errors.New("open are\n" + tr.describeOpen())
	})
}

// snapshot returns all rows about events and their effects, by table.
func (tr *trial) snapshot() map[string][]string {
	t := tr.t
	t.Helper()
	all := make(map[string][]string)
	for _, table := range []string{"event", "event_state", "event_attempt", "message", "attempt", "history", "effects"} {
		name := table
		if table != "effects" {
			name = tr.db.table(table)
		}
		all[table] = tr.db.dump(t, name)
	}
	return all
}

// dump returns the rows of a table as texts.
func (d *database) dump(t testing.TB, table string) []string {
	t.Helper()
	rows, err := d.session.Query(`SELECT * FROM ` + table)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	values, dest := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		dest[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			t.Fatal(err)
		}
		words := make([]string, len(columns))
		for i := range columns {
			words[i] = fmt.Sprintf("%s=%v", columns[i], values[i])
		}
		lines = append(lines, strings.Join(words, " "))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(lines)
	return lines
}

// calledBy reports whether the only process that ran in a place has called a handler.
func (f *found) calledBy(p *place) bool {
	for _, runs := range f.runs {
		for _, run := range runs {
			if run.process == fmt.Sprint(p.lastPID) {
				return true
			}
		}
	}
	return false
}

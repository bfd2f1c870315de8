package hooksql_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hooksql"
)

// The test binary runs itself again as a worker that is killed.
const childWorker = "HOOKONCE_TEST_CHILD_WORKER" // the file to work on

func init() {
	if path := os.Getenv(childWorker); path != "" {
		workerMain(path)
		os.Exit(0)
	}
}

// workerMain takes events until there are none. In the middle of each run, when all effects are
// written and none is committed, it reports and waits for an answer.
func workerMain(path string) {
	store, err := hooksql.OpenSQLite("sqlite", path)
	if err != nil {
		panic(err)
	}
	for {
		worked, err := workOnce(context.Background(), store, func(run int) {
			if _, err := fmt.Println(run); err != nil {
				os.Exit(1) // the parent is gone
			}
			if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
				os.Exit(1)
			}
		})
		if err != nil && !errors.Is(err, driver.ErrUnavailable) {
			panic(err)
		}
		if err == nil && !worked {
			return
		}
	}
}

// workOnce runs up to five fresh events, or one tried event, and reports whether it found any.
func workOnce(ctx context.Context, store *hooksql.Store, inside func(events int)) (bool, error) {
	p := &driver.TakeParams{Source: "stripe", Types: []string{"*"}, Limit: 5, HandlerTimeout: time.Second, Retry: driver.Retry{Attempts: 100, First: 1, Max: 1}}
	run, err := store.Take(ctx, p)
	if err == nil && run == nil {
		p.Tried, p.Limit = true, 1
		run, err = store.Take(ctx, p)
	}
	if err != nil || run == nil {
		return false, err
	}
	for _, e := range run.Events() {
		if err := effect(ctx, run.Tx(), e.EventID); err != nil {
			return false, errors.Join(err, run.Abandon(ctx))
		}
	}
	inside(len(run.Events()))
	return true, run.Finish(ctx, outcomes(run, driver.WorkSucceeded))
}

// worker is a process that handles events.
type worker struct {
	child *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
}

func startWorker(t *testing.T, path string) *worker {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childWorker+"="+path)
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	return &worker{child, in, bufio.NewReader(out)}
}

// inside waits until the worker is in the middle of a run, and returns the number of its events; 0
// if the worker has ended.
func (w *worker) inside() (events int) {
	_, _ = fmt.Fscanln(w.out, &events) // it fails only if the worker has ended
	return events
}

// goOn lets the worker finish its run.
func (w *worker) goOn() {
	_, _ = w.in.Write([]byte{'\n'}) // a killed worker does not read it
}

// kill kills the worker, unless it has ended, and returns when it is gone.
func (w *worker) kill() {
	_ = w.child.Process.Kill()
	_, _ = io.Copy(io.Discard, w.out)
	_ = w.child.Wait()
}

// TestKilledInARun kills a process in the middle of a run. None of its effects is there. Its events
// are left alone until their time is over; then a sweep finds them.
func TestKilledInARun(t *testing.T) {
	t.Parallel()
	r := newRuns(t, "evt_1")
	w := startWorker(t, r.path)
	inside := w.inside()
	w.kill()
	if inside != 1 {
		t.Fatalf("the worker reported a run of %d events, want 1", inside)
	}
	r.wantEffects(map[string]int{})
	if got := r.event("evt_1"); got.State != driver.StateRunning {
		t.Errorf("the event is %s, want it running", got.State)
	}
	sweep := func(after time.Duration) []driver.LostRun {
		t.Helper()
		lost, err := r.store.SweepRuns(t.Context(), &driver.SweepRunsParams{Now: time.Now().Add(after)})
		if err != nil {
			t.Fatal(err)
		}
		return lost
	}
	limits := r.store.WorkLimits()
	if lost := sweep(-time.Hour); len(lost) > 0 {
		t.Errorf("the sweep found %+v before its time", lost)
	}
	if run, err := takeFrom(t.Context(), r.store, 1); run != nil || err != nil {
		t.Errorf("took %v with the error %v before the sweep, want nothing", run, err)
	}
	key := driver.EventKey("stripe", "evt_1")
	want := []driver.LostRun{{Key: key, Source: "stripe", EventID: "evt_1", Type: "invoice.paid", Attempts: 1, Alone: true}}
	if diff := cmp.Diff(want, sweep(limits.HandlerTimeout+limits.BatchTime+10*time.Second)); diff != "" {
		t.Errorf("lost (-want +got):\n%s", diff)
	}
	run, err := r.store.Take(t.Context(), &driver.TakeParams{Keys: []driver.Key{key}, Limit: 1, HandlerTimeout: time.Second})
	if err != nil || run == nil {
		t.Fatalf("Take: %v, %v", run, err)
	}
	if e := run.Events()[0]; e.Attempts != 1 || e.Crashes != 1 {
		t.Errorf("took %+v, want one attempt and one interrupted run", e)
	}
	r.run(run, `INSERT INTO effects VALUES ('evt_1')`)
	r.succeed(run)
	r.wantEffects(map[string]int{"evt_1": 1})
}

// TestKilledWhileWorking has two processes work side by side and kills them repeatedly, one in the
// middle of a run and the other anywhere. Every event takes effect once.
func TestKilledWhileWorking(t *testing.T) {
	t.Parallel()
	const events, lives = 200, 6
	r := newRuns(t)
	want := r.queueMany(events)
	for range lives {
		one, other := startWorker(t, r.path), startWorker(t, r.path)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for other.inside() > 0 {
				other.goOn()
			}
		}()
		events := one.inside()
		for range rand.IntN(3) {
			one.goOn()
			events = one.inside()
		}
		one.kill()
		_ = other.child.Process.Kill()
		<-ended
		other.kill()
		r.exec(t, `UPDATE hookonce_event_state SET due_at = 0 WHERE state = 1`) // as if the time of their runs were over
		lost, err := r.store.SweepRuns(t.Context(), &driver.SweepRunsParams{})
		if err != nil {
			t.Fatal(err)
		}
		if len(lost) < events {
			t.Errorf("the sweep found %d events, want at least the %d of the killed run", len(lost), events)
		}
	}
	for worked := true; worked; {
		var err error
		if worked, err = workOnce(t.Context(), r.store, func(int) {}); err != nil {
			t.Fatal(err)
		}
	}
	r.wantEffects(want)
	page, err := r.store.Events(t.Context(), &driver.EventFilter{State: driver.StateDone, Limit: 200})
	if err != nil || len(page.Events) != events {
		t.Errorf("%d events are done, error %v, want %d", len(page.Events), err, events)
	}
}

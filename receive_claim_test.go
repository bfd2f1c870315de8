package hookonce_test

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/rig"
)

func TestFailedClaims(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]int{
		driver.ErrBadRow:        503, // the database refuses a value of the row
		driver.ErrLockTimeout:   503,
		driver.ErrSerialization: 503,
		driver.ErrUnavailable:   503,
		driver.ErrCommitUnknown: 503,
	} {
		in := newEngine(t, &rig.FaultStore{Store: rig.OpenSQLite(t), Before: rig.FailFor(err, "1")}, nil)
		w := httptest.NewRecorder()
		in.ServeHTTP(w, delivery("1", "{}"))
		if again := w.Header().Get("Retry-After") != ""; w.Code != want || again != (want == 503) {
			t.Errorf("%v: answer %d, with Retry-After: %t; want %d", err, w.Code, again, want)
		}
	}
}

func TestHungDatabaseIs503(t *testing.T) {
	t.Parallel()
	g := rig.NewGate()
	store := &rig.FaultStore{Store: rig.OpenSQLite(t), Before: g.Hold}
	in := newEngine(t, store, func(c *hookonce.Config) { c.Sources[0].AckTimeout = 20 * time.Millisecond })
	if got := deliver(in, delivery("1", "{}")); got.Code != 503 {
		t.Errorf("answer %d, want 503", got.Code)
	}
}

func TestFullQueueIs503(t *testing.T) {
	t.Parallel()
	g := rig.NewGate()
	store := &rig.FaultStore{Store: rig.OpenSQLite(t), Before: g.Hold}
	in := newEngine(t, store, func(c *hookonce.Config) { c.Queue = 4 })
	var wg sync.WaitGroup
	wg.Go(func() {
		if got := deliver(in, delivery("held", "{}")); got != ok {
			t.Errorf("the held delivery: %+v, want ok", got)
		}
	})
	<-g.Arrived
	for i := range 4 {
		wg.Go(func() {
			if got := deliver(in, delivery(strconv.Itoa(i), "{}")); got != ok {
				t.Errorf("a delivery that fits the queue: %+v, want ok", got)
			}
		})
	}
	rig.WaitFor(t, func() bool { return hookonce.Waiting(in) == 4 })
	if got := deliver(in, delivery("one too many", "{}")); got.Code != 503 {
		t.Errorf("a delivery beyond the queue: %+v, want 503", got)
	}
	close(g.Open)
	wg.Wait()
}

func TestBodiesAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	g := rig.NewGate()
	store := &rig.FaultStore{Store: rig.OpenSQLite(t), Before: g.Hold}
	in := newEngine(t, store, func(c *hookonce.Config) { c.BodyBytes = 1000 })
	var wg sync.WaitGroup
	wg.Go(func() {
		// A single delivery is accepted even if it is larger than BodyBytes. Otherwise it could
		// never be received.
		if got := deliver(in, delivery("held", fmt.Sprintf("%2000d", 1))); got != ok {
			t.Errorf("the held delivery: %+v, want ok", got)
		}
	})
	<-g.Arrived
	if got := deliver(in, delivery("2", "{}")); got.Code != 503 {
		t.Errorf("a delivery beyond BodyBytes: %+v, want 503", got)
	}
	close(g.Open)
	wg.Wait()
}

func TestDrainAnswersQueuedDeliveries(t *testing.T) {
	t.Parallel()
	g := rig.NewGate()
	store := &rig.FaultStore{Store: rig.OpenSQLite(t), Before: g.Hold}
	in := newEngine(t, store, nil)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if got := deliver(in, delivery(strconv.Itoa(i), "{}")); got != ok {
				t.Errorf("a delivery before the drain: %+v, want ok", got)
			}
		})
		<-g.Arrived // the first delivery is in the database before the others are queued
	}
	rig.WaitFor(t, func() bool { return hookonce.Waiting(in) == 7 })
	drained := make(chan struct{})
	go func() { in.Drain(); close(drained) }()
	rig.WaitFor(t, func() bool { return errors.Is(in.Ready(t.Context()), hookonce.ErrDraining) })
	if got := deliver(in, delivery("late", "{}")); got.Code != 503 {
		t.Errorf("a delivery during the drain: %+v, want 503", got)
	}
	select {
	case <-drained:
		t.Error("Drain returned while deliveries were queued")
	default:
	}
	close(g.Open)
	wg.Wait()
	<-drained
}

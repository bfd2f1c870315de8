package inbox_test

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
	answers := make(chan result, 5)
	for i := range 5 {
		wg.Go(func() { answers <- deliver(in, delivery(strconv.Itoa(i), "{}")) })
	}
	if got := <-answers; got.Code != 503 {
		t.Errorf("the delivery beyond the queue: %+v, want 503", got)
	}
	close(g.Open)
	wg.Wait()
	wantAll(t, answers, ok)
}

// wantAll compares the answers that wait in the channel.
func wantAll(t *testing.T, answers chan result, want result) {
	t.Helper()
	close(answers)
	for got := range answers {
		if got != want {
			t.Errorf("a delivery that fits the queue: %+v, want %+v", got, want)
		}
	}
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
	in := newEngine(t, store, func(c *hookonce.Config) { c.Queue = 7 })
	var wg sync.WaitGroup
	answers := make(chan result, 9)
	for i := range 9 {
		wg.Go(func() { answers <- deliver(in, delivery(strconv.Itoa(i), "{}")) })
		<-g.Arrived // the first delivery is in the database before the others are queued
	}
	if got := <-answers; got.Code != 503 { // so the queue is full
		t.Errorf("the delivery beyond the queue: %+v, want 503", got)
	}
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
	wantAll(t, answers, ok)
	<-drained
}

package inbox_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/rig"
)

func TestFailedClaims(t *testing.T) {
	t.Parallel()
	store := &rig.FaultStore{Store: rig.OpenSQLite(t)}
	in := newEngine(t, store, nil)
	for _, err := range []error{ // ErrBadRow: the database refuses a value of the row
		driver.ErrBadRow, driver.ErrLockTimeout, driver.ErrSerialization, driver.ErrUnavailable, driver.ErrCommitUnknown,
	} {
		store.Before = rig.FailFor(err, "1")
		if w := answered(in, delivery("1", "{}")); w.Code != 503 || w.Header().Get("Retry-After") == "" {
			t.Errorf("%v: answer %d, Retry-After %q; want 503 with a time", err, w.Code, w.Header().Get("Retry-After"))
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

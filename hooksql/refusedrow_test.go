package hooksql_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// A trigger of the database's owner refuses every change of one event. The others are taken, and swept, without it.
func TestRefusedRow(t *testing.T) {
	t.Parallel()
	r := newRuns(t, "evt_1", "evt_2", "evt_3")
	run := r.take(3)
	run.Sever() // its process is killed
	r.interrupted(t, run)
	refuse := func(id string) {
		r.exec(t, `DROP TRIGGER IF EXISTS refuse`)
		r.exec(t, fmt.Sprintf(`CREATE TRIGGER refuse BEFORE UPDATE ON hookonce_event_state WHEN NEW.key = x'%x'
			BEGIN SELECT RAISE(ABORT, 'not this one'); END`, driver.EventKey("stripe", id)))
	}
	refuse("evt_2")
	later := time.Now().Add(time.Hour)
	if lost, err := r.store.SweepRuns(t.Context(), &driver.SweepRunsParams{Now: later}); len(lost) != 2 || !errors.Is(err, driver.ErrBadRow) {
		t.Errorf("SweepRuns: %+v and the error %v, want two runs and %v", lost, err, driver.ErrBadRow)
	}
	r.queue("evt_4")
	refuse("evt_4")
	r.queue("evt_5")
	again, err := takeFrom(t.Context(), r.store, 10)
	if err != nil || again == nil || len(again.Events()) != 1 || again.Events()[0].EventID != "evt_5" {
		t.Fatalf("Take: %+v and the error %v, want evt_5 alone", again, err)
	}
	r.succeed(again)
	if run, err := takeFrom(t.Context(), r.store, 10); run != nil || !errors.Is(err, driver.ErrBadRow) {
		t.Errorf("Take of the refused event alone: %+v and the error %v, want %v", run, err, driver.ErrBadRow)
	}
}

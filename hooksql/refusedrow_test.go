package hooksql_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// A trigger of the database's owner refuses every change of one event, or fails on it. The others are taken, and swept,
// without it.
func TestRefusedRow(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]string{"refused": "RAISE(ABORT, 'not this one')", "failed": "json(NEW.source || '{')"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refusedRow(t, refusal)
		})
	}
}

func refusedRow(t *testing.T, refusal string) {
	r := newRuns(t, "evt_1", "evt_2", "evt_3")
	run := r.take(3)
	run.Sever() // its process is killed
	r.interrupted(t, run)
	refuse := func(id string) {
		r.exec(t, `DROP TRIGGER IF EXISTS refuse`)
		r.exec(t, fmt.Sprintf(`CREATE TRIGGER refuse BEFORE UPDATE ON hookonce_event_state WHEN NEW.key = x'%x'
			BEGIN SELECT %s; END`, driver.EventKey("stripe", id), refusal))
	}
	refuse("evt_2")
	later := time.Now().Add(time.Hour)
	if lost, err := r.store.SweepRuns(t.Context(), &driver.SweepRunsParams{Now: later}); len(lost) != 2 || !driver.FaultOfRows(err) {
		t.Errorf("SweepRuns: %+v and the error %v, want two runs and a fault of rows", lost, err)
	}
	r.queue("evt_4")
	refuse("evt_4")
	r.queue("evt_5")
	reserve := &driver.ReserveParams{Source: "stripe", Types: []string{"*"}, Limit: 10}
	if got, err := r.store.Reserve(t.Context(), reserve); err != nil || len(got) != 1 || got[0].EventID != "evt_5" {
		t.Errorf("Reserve: %+v and the error %v, want evt_5 alone", got, err)
	}
	again, err := takeFrom(t.Context(), r.store, 10)
	if err != nil || again == nil || len(again.Events()) != 1 || again.Events()[0].EventID != "evt_5" {
		t.Fatalf("Take: %+v and the error %v, want evt_5 alone", again, err)
	}
	r.succeed(again)
	if run, err := takeFrom(t.Context(), r.store, 10); run != nil || !driver.FaultOfRows(err) {
		t.Errorf("Take of the refused event alone: %+v and the error %v, want a fault of rows", run, err)
	}
	r.exec(t, `DROP TRIGGER refuse`)
	r.exec(t, fmt.Sprintf(`CREATE TRIGGER refuse BEFORE INSERT ON hookonce_event WHEN NEW.event_id = 'evt_6' BEGIN SELECT %s; END`, refusal))
	refused, other := newClaim("evt_6"), newClaim("evt_7")
	if _, err := r.store.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{refused, other}}); !driver.FaultOfRows(err) {
		t.Errorf("Claim: the error is %v, want a fault of rows", err)
	}
}

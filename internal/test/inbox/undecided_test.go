package inbox_test

import (
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/rig"
)

const undecidedNote = driver.NoteUndecided + "slow"

// undecided adds the routes "before", "slow" and "after"; slow gives up while stuck.
func undecided(cfg *hookonce.Config, stuck *atomic.Bool) {
	stuck.Store(true)
	cfg.Destinations = []hookonce.Destination{{Name: "d", URL: "https://d.example"}}
	cfg.Routes = []hookonce.Route{{Name: "before", To: "d"}, {Name: "slow", To: "d", Where: func(*hookonce.Event) (bool, error) {
		if stuck.Load() {
			return false, fmt.Errorf("%w: too long", hookonce.ErrUndecided)
		}
		return true, nil
	}}, {Name: "after", To: "d"}}
}

func wantUndecided(t *testing.T, store driver.Store, id string) {
	t.Helper()
	ev := eventState(t, store, id)
	if ev.State != driver.StateDead || ev.Note != undecidedNote || len(ev.Messages) != 0 {
		t.Errorf("the event is %s with the note %q and %d messages, want dead, %q and none", ev.State, ev.Note, len(ev.Messages), undecidedNote)
	}
}

// Nothing authentic is lost for a route's sake, and no message is sent twice.
func TestUndecidedConditionMakesTheEventDead(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	var stuck atomic.Bool
	in := newEngine(t, store, func(cfg *hookonce.Config) { undecided(cfg, &stuck) })
	if got := deliver(in, delivery("1", "{}")); got != ok {
		t.Errorf("the delivery is answered %+v, want 200 ok", got)
	}
	wantUndecided(t, store, "1")
	if _, err := in.Replay(t.Context(), &hookonce.ReplayRequest{Source: "gh", EventID: "1"}); !errors.Is(err, driver.ErrUndecided) {
		t.Errorf("Replay while it is undecided: got the error %v, want %v", err, driver.ErrUndecided)
	}
	worked, err := in.ReplayDead(t.Context(), &hookonce.DeadLetters{})
	if err != nil || worked.Done != 0 || worked.Passed != 1 {
		t.Errorf("ReplayDead while it is undecided: %+v, %v, want one passed", worked, err)
	}
	stuck.Store(false)
	// A redelivery is acknowledged, and does not reopen it.
	if got := deliver(in, delivery("1", "{}")); got != duplicate {
		t.Errorf("the second delivery is answered %+v, want 200 duplicate", got)
	}
	wantUndecided(t, store, "1")
	worked, err = in.ReplayDead(t.Context(), &hookonce.DeadLetters{})
	if err != nil || worked.Done != 1 || worked.Passed != 0 {
		t.Errorf("ReplayDead: %+v, %v, want one done", worked, err)
	}
	if ev := eventState(t, store, "1"); ev.State != driver.StateDone || len(ev.Messages) != 3 {
		t.Errorf("after the replay the event is %s with %d messages, want done with 3", ev.State, len(ev.Messages))
	}
}

// The conditions of one delivery have half of the time for its answer.
func TestConditionsLeaveTimeForTheClaim(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := rig.OpenSQLite(t)
		const ackTimeout = 2 * time.Second
		var evaluated atomic.Int64
		in := newEngine(t, store, func(cfg *hookonce.Config) {
			cfg.Sources[0].AckTimeout = ackTimeout
			cfg.Destinations = []hookonce.Destination{{Name: "d", URL: "https://d.example"}}
			for i := range 5 {
				cfg.Routes = append(cfg.Routes, hookonce.Route{Name: fmt.Sprint("slow-", i), To: "d", Where: func(*hookonce.Event) (bool, error) {
					evaluated.Add(1)
					time.Sleep(ackTimeout/2 + 100*time.Millisecond)
					return true, nil
				}})
			}
		})
		if got := deliver(in, delivery("1", "{}")); got.Code != http.StatusOK {
			t.Fatalf("the delivery is answered %d, want 200", got.Code)
		}
		ev := eventState(t, store, "1")
		if n := evaluated.Load(); n != 1 || ev.State != driver.StateDead || ev.Note != driver.NoteUndecided+"slow-1" {
			t.Errorf("%d conditions were evaluated, and the event is %s with the note %q, want 1, dead and slow-1", n, ev.State, ev.Note)
		}
	})
}

// The caller's own work is committed with the claim; only the routes wait for a replay.
func TestUndecidedInClaimTx(t *testing.T) {
	t.Parallel()
	l := onSQLite(t)
	var stuck atomic.Bool
	in := inbox(t, l, nil, func(cfg *hookonce.Config) { undecided(cfg, &stuck) })
	work := func(tx *sql.Tx, ev *hookonce.Event) error { return l.insert(t.Context(), tx, ev.ID) }
	wantAnswer(t, receiveInTx(t, l, in, delivery("1", "{}"), work), 200, `{"status":"ok","event_id":"1"}`)
	wantUndecided(t, l.db, "1")
	wantEffects(t, l, "1")
}

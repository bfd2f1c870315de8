package hookonce_test

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
)

// An operator's process, such as a command or a gateway, has no handlers. The work of an event does
// not depend on it.

func TestOperatorElsewhereOnPGX(t *testing.T) {
	t.Parallel()
	runLibraryTests(t, onPGX, elsewhereTests[pgx.Tx]())
}

func TestOperatorElsewhereOnSQLite(t *testing.T) {
	t.Parallel()
	runLibraryTests(t, onSQLite, elsewhereTests[*sql.Tx]())
}

func elsewhereTests[T any]() []libraryTest[T] {
	return []libraryTest[T]{
		{"an undecided event runs its handler after a replay", undecidedElsewhere[T]},
	}
}

// slowRoute is a setting with the route "slow" from every source, whose condition is err.
func slowRoute(err error) func(*hookonce.Config) {
	return func(cfg *hookonce.Config) {
		cfg.Destinations = []hookonce.Destination{{Name: "d", Sender: newSent()}}
		cfg.Routes = []hookonce.Route{{Name: "slow", To: "d", Where: func(*hookonce.Event) (bool, error) { return err == nil, err }}}
	}
}

func undecidedElsewhere[T any](t *testing.T, l *library[T]) {
	mux := &hookonce.Mux[T]{}
	hookonce.Handle(mux, "gh", "push", effectOf(l))
	in := inbox(t, l, mux, slowRoute(fmt.Errorf("%w: too long", hookonce.ErrUndecided)))
	deliverAll(t, in, "1", "2")
	wantUndecided(t, l.db, "1")
	wantUndecided(t, l.db, "2")

	// Without routes the process would drop the messages too.
	_, err := newEngine(t, l.db, nil).Replay(t.Context(), &hookonce.ReplayRequest{Source: "gh", EventID: "1"})
	if !errors.Is(err, driver.ErrNoRoute) {
		t.Errorf("Replay by a process that knows nothing of the source: got the error %v, want %v", err, driver.ErrNoRoute)
	}
	_, err = newEngine(t, l.db, func(c *hookonce.Config) { c.Sources[0].Name = "other" }).
		Replay(t.Context(), &hookonce.ReplayRequest{Source: "gh", EventID: "1"})
	if !errors.Is(err, driver.ErrNoRoute) {
		t.Errorf("Replay by a process without the source: got the error %v, want %v", err, driver.ErrNoRoute)
	}
	wantUndecided(t, l.db, "1")

	elsewhere := newEngine(t, l.db, slowRoute(nil))
	if _, err := elsewhere.Replay(t.Context(), &hookonce.ReplayRequest{Source: "gh", EventID: "1"}); err != nil {
		t.Fatal(err)
	}
	if worked, err := elsewhere.ReplayDead(t.Context(), &hookonce.DeadLetters{}); err != nil || worked.Done != 1 {
		t.Fatalf("ReplayDead: %+v, %v, want one done", worked, err)
	}
	for _, id := range []string{"1", "2"} {
		if ev := eventState(t, l.db, id); ev.State != driver.StatePending || len(ev.Messages) != 1 {
			t.Errorf("after the replay event %s is %s with %d messages, want pending with one", id, ev.State, len(ev.Messages))
		}
	}
	run(t, in)
	for _, id := range []string{"1", "2"} {
		wantOutcome(t, l, id, outcome{State: "done", Attempts: 1, Generation: 1})
	}
	wantEffects(t, l, "1", "2")
}

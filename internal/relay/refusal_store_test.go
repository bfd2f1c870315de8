package relay_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/internal/relay"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// A trigger of the database's owner refuses that one message becomes sent. Each attempt with it has failed, and the others
// are sent once.
func TestRefusedOutcome(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	claimMany(t, store, 10, "{}")
	refuse(t, store, "3", "NEW.state = 2")
	sends := make(chan string, 100)
	stop := run(t, newGroup(store, nil, destination(func(_ context.Context, m *driver.Message) error {
		sends <- m.EventID
		return nil
	}, nil)))
	ev := settled(t, store, "3", driver.StateDead)
	for i := range 10 {
		if i != 3 {
			settled(t, store, fmt.Sprint(i), driver.StateSent)
		}
	}
	stop()
	close(sends)
	got, want := map[string]int{}, map[string]int{}
	for id := range sends {
		got[id]++
	}
	for i := range 10 {
		want[fmt.Sprint(i)] = 1
	}
	want["3"] = 3 // all its attempts
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sends (-want +got):\n%s", diff)
	}
	for _, a := range ev.Tries {
		if diff := cmp.Diff(`the database refused the outcome "sent": completing messages: the database refused the row: `, a.Error[:min(len(a.Error), 92)]); diff != "" {
			t.Errorf("error of attempt %d (-want +got):\n%s", a.Number, diff)
		}
	}
}

// The database refuses all changes of one message. It stops no other one, and is looked at again later.
func TestRefusedLease(t *testing.T) {
	t.Parallel()
	store, log := rig.OpenSQLite(t), &rig.Log{}
	leases := &leaseStore{Store: store}
	claimMany(t, store, 10, "{}")
	refuse(t, store, "0", "true")
	g := newGroup(leases, logTo(log), destination(func(context.Context, *driver.Message) error { return nil }, func(d *relay.Destination) {
		d.Concurrency = 1 // so that it leases one message at a time
	}))
	stop := run(t, g)
	for i := 1; i < 10; i++ {
		settled(t, store, fmt.Sprint(i), driver.StateSent)
	}
	before := leases.count("app")
	eventually.True(t, "the relay looks again", func() bool { g.Wake("app"); return leases.count("app") > before+3 })
	stop()
	log.WantOne(t, "the database refuses to change the row of a message")
	if got := messageOf(t, store, "0"); got.State != driver.StatePending || got.Attempts != 0 {
		t.Errorf("the refused message is %s after %d attempts, want it pending", got.State, got.Attempts)
	}
}

// refuse has a trigger refuse changes of the message of an event.
func refuse(t *testing.T, store *hooksql.Store, id, when string) {
	t.Helper()
	m := messageOf(t, store, id)
	sql := fmt.Sprintf(`CREATE TRIGGER refuse BEFORE UPDATE ON hookonce_message WHEN NEW.id = '%s' AND %s
		BEGIN SELECT RAISE(ABORT, 'not this one'); END`, m.ID, when)
	if _, err := store.Writer().ExecContext(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

package relay_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/relay"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// The database refuses the place of one message in its line. The others of its batch get their turns.
func TestRefusedPlace(t *testing.T) {
	t.Parallel()
	store, log := rig.OpenSQLite(t), &rig.Log{}
	claimMany(t, store, 10, "{}")
	if _, err := store.Writer().ExecContext(t.Context(), fmt.Sprintf(`CREATE TRIGGER refuse BEFORE INSERT ON hookonce_ordered_message
		WHEN NEW.number = (SELECT number FROM hookonce_message WHERE event_key = x'%x') BEGIN SELECT RAISE(ABORT, 'not this one'); END`,
		driver.EventKey("lab", "3"))); err != nil {
		t.Fatal(err)
	}
	var sends atomic.Int64
	g := newGroup(store, func(o *relay.Options) {
		o.Log = log.Logger()
		o.Ordered = func() bool { return true }
		o.OrderOf = func(m *driver.Message) *driver.Order {
			return &driver.Order{Line: driver.ObjectVersion{Object: driver.ObjectKey("lab", "r", m.EventID), Source: "lab"}}
		}
	}, destination(func(_ context.Context, m *driver.Message) error {
		if m.EventID == "3" {
			t.Error("a message without its place is sent")
		}
		sends.Add(1)
		return nil
	}, nil))
	stop := run(t, g)
	for i := range 10 {
		if i != 3 {
			settled(t, store, fmt.Sprint(i), driver.StateSent)
		}
	}
	eventually.True(t, "the refusal is logged", func() bool {
		return strings.Contains(log.Text(), "the database refuses to change the row of a message")
	})
	stop()
	if got := messageOf(t, store, "3"); got.State != driver.StateSending || got.LeasedUntil.Before(time.Now()) {
		t.Errorf("the refused message is %s until %v, want it to rest until the end of its lease", got.State, got.LeasedUntil)
	}
	if n := sends.Load(); n != 9 {
		t.Errorf("%d sends, want 9", n)
	}
}

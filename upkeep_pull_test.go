package hookonce_test

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

// Events are claimed while the database's clock is ahead by a month. Once it is right again, their
// messages are sent.
func TestDueTimesArePulledBack(t *testing.T) {
	t.Parallel()
	store, log := rig.OpenSQLite(t), &rig.Log{}
	var claims []driver.Claim
	for _, id := range []string{"1", "2", "3"} {
		key := driver.EventKey("gh", id)
		claims = append(claims, driver.Claim{Key: key, Source: "gh", EventID: id, Headers: []byte("{}"), Messages: []driver.NewMessage{
			{ID: driver.MessageID(key, 0, "all"), Route: "all", Destination: "app"},
		}})
	}
	slices.SortFunc(claims, func(a, b driver.Claim) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	ahead := time.Now().Add(30 * 24 * time.Hour)
	if _, err := store.Claim(t.Context(), &driver.ClaimParams{Claims: claims, Now: ahead}); err != nil {
		t.Fatal(err)
	}
	in := engineOf(t, store, &hookonce.Config{
		Destinations: []hookonce.Destination{{
			Name: "app", Sender: hookonce.SenderFunc(func(context.Context, *hookonce.Outgoing) error { return nil }),
		}},
		Logger: log.Logger(),
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx) }()
	if err := hookonce.PullBack(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	for _, c := range claims {
		eventually.True(t, "event "+c.EventID+" is done", func() bool {
			ev, err := store.Event(t.Context(), "gh", c.EventID)
			if err != nil {
				t.Fatal(err)
			}
			return ev.State == driver.StateDone
		})
	}
	log.WantOne(t, "pulled due times back")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A source was armed while the database's clock was ahead. The upkeep shortens its arming.
func TestArmedWhileTheClockWasAhead(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	in := engineOf(t, store, settingsOf(hookonce.Source{Name: "asana", Provider: provider.Asana}))
	if _, err := store.Arm(t.Context(), &driver.ArmParams{Source: "asana", For: time.Hour, Now: time.Now().AddDate(1, 0, 0)}); err != nil {
		t.Fatal(err)
	}
	if err := hookonce.PullBack(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	state, err := store.LearnedSecrets(t.Context(), []string{"asana"})
	if err != nil || !state[0].Armed() || state[0].ArmedUntil.Sub(state[0].Now) > time.Hour {
		t.Errorf("armed for an hour: %+v, error %v", state, err)
	}
}

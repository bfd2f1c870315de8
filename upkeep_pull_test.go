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

// aheadStore notes how far ahead the calls of PullBack let due times lie.
type aheadStore struct {
	*setClock
	looks []time.Duration
}

func (s *aheadStore) PullBack(ctx context.Context, p *driver.PullBackParams) (events, messages int, err error) {
	s.looks = append(s.looks, p.Ahead)
	return s.setClock.PullBack(ctx, p)
}

// The upkeep looks closely after the database's clock was set back, and at the start: it may have been before.
func TestPullingBackAfterAStep(t *testing.T) {
	t.Parallel()
	store := &aheadStore{setClock: &setClock{Store: rig.OpenSQLite(t)}}
	in := engineOf(t, store, settingsOf(stripe))
	var want []time.Duration
	for _, step := range []struct {
		ahead time.Duration
		look  time.Duration
	}{
		{0, 5*time.Minute + 10*time.Second}, // and the Refetch of a source
		{0, 0},
		{2 * time.Hour, 0},
		{0, 5*time.Minute + 10*time.Second},
		{time.Second, 0},
		{0, 0},
	} {
		store.ahead.Store(int64(step.ahead))
		if _, _, err := in.Operator().Clock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := hookonce.PullBack(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		want = append(want, step.look)
	}
	if !slices.Equal(want, store.looks) {
		t.Errorf("looks %v, want %v", store.looks, want)
	}
}

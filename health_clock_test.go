package hookonce_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/hooktest"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

// setClock is a store whose clock a test sets, and which counts the readings.
type setClock struct {
	driver.Store
	ahead    atomic.Int64 // of this machine's clock, in ns
	readings atomic.Int64
}

func (s *setClock) Now(ctx context.Context) (time.Time, error) {
	s.readings.Add(1)
	now, err := s.Store.Now(ctx)
	return now.Add(time.Duration(s.ahead.Load())), err
}

var stripe = hookonce.Source{
	Name: "stripe", Provider: provider.Stripe, Secrets: hookonce.StaticSecrets("whsec_test"), Tolerance: 5 * time.Minute, AckTimeout: 30 * time.Second,
}

// stripeAt returns a signed delivery of that time.
func stripeAt(t *testing.T, at time.Time) *http.Request {
	t.Helper()
	body := fmt.Sprintf(`{"id":"evt_%d","type":"x"}`, at.UnixNano())
	return hooktest.NewRequest(t, stripe, body, hooktest.WithTime(at))
}

func stripeEngine(t *testing.T) (*hookonce.Engine, *setClock) {
	t.Helper()
	store, cfg := &setClock{Store: rig.OpenSQLite(t)}, settingsOf(stripe)
	cfg.UnverifiedRate = hookonce.Rate{Count: 1000, Per: time.Second} // the limit on 401s is not the topic
	in := engineOf(t, store, cfg)
	// As at the start of Run.
	if _, _, err := in.Operator().Clock(t.Context()); err != nil {
		t.Fatal(err)
	}
	return in, store
}

func wantAnswerTo(t *testing.T, in *hookonce.Engine, r *http.Request, want string) {
	t.Helper()
	if got := answerTo(in, r); got != want {
		t.Errorf("the answer is %s, want %s", got, want)
	}
}

// A sender may never repeat a delivery that was answered 401.
func TestClockThatWasSetLately(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	t.Run("this machine's", func(t *testing.T) {
		t.Parallel()
		for _, step := range []time.Duration{hour, -hour} {
			in, store := stripeEngine(t)
			hookonce.StepClock(in, step)
			before := store.readings.Load()
			wantAnswerTo(t, in, stripeAt(t, time.Now().Add(-step)), "503")
			if n := store.readings.Load() - before; n != 0 {
				t.Errorf("a step of %s was noticed after %d readings of the database's clock, want 0", step, n)
			}
			// The next reading settles it: here both clocks were set.
			if _, _, err := in.Operator().Clock(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantAnswerTo(t, in, stripeAt(t, time.Now().Add(-step)), "401")
			wantAnswerTo(t, in, stripeAt(t, time.Now()), "ok")
		}
	})
	t.Run("this machine's, to the right time", func(t *testing.T) {
		t.Parallel()
		in, store := stripeEngine(t)
		store.ahead.Store(int64(hour))
		if _, _, err := in.Operator().Clock(t.Context()); err != nil {
			t.Fatal(err)
		}
		hookonce.StepClock(in, hour) // the clock was an hour behind, and no longer is
		store.ahead.Store(0)
		wantAnswerTo(t, in, stripeAt(t, time.Now().Add(-hour)), "401")
	})
	t.Run("the database's", func(t *testing.T) {
		t.Parallel()
		for _, ahead := range []time.Duration{hour, -hour} {
			in, store := stripeEngine(t)
			store.ahead.Store(int64(ahead))
			wantAnswerTo(t, in, stripeAt(t, time.Now().Add(ahead)), "503")
		}
	})
}

// A flood of replayed deliveries must not become a flood of questions to the database.
func TestStaleDeliveriesRarelyReadTheClock(t *testing.T) {
	t.Parallel()
	in, store := stripeEngine(t)
	before, began := store.readings.Load(), time.Now()
	const n = 200
	for range n {
		wantAnswerTo(t, in, stripeAt(t, time.Now().Add(-time.Hour)), "401")
	}
	// One at the beginning, and at most one for each second since then.
	if got, most := store.readings.Load()-before, int64(time.Since(began)/time.Second)+1; got < 1 || got > most {
		t.Errorf("%d readings for %d stale deliveries, want 1 to %d", got, n, most)
	}
	// A forged signature causes none.
	forged := stripeAt(t, time.Now().Add(-time.Hour))
	forged.Header.Set("Stripe-Signature", strings.Replace(forged.Header.Get("Stripe-Signature"), "v1=", "v1=00", 1))
	in, store = stripeEngine(t)
	before = store.readings.Load()
	wantAnswerTo(t, in, forged, "401")
	if got := store.readings.Load() - before; got != 0 {
		t.Errorf("%d readings for a forged delivery, want none", got)
	}
}

// Nothing tells whether a delivery is stale while the database is silent, and nothing could be
// claimed.
func TestStaleDeliveryWithoutADatabase(t *testing.T) {
	t.Parallel()
	in, store := stripeEngine(t)
	db := store.Store.(*hooksql.Store)
	if err := errors.Join(db.Reader().Close(), db.Writer().Close()); err != nil {
		t.Fatal(err)
	}
	wantAnswerTo(t, in, stripeAt(t, time.Now().Add(-time.Hour)), "503")
}

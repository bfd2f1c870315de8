package hookonce_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
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

// stripeAt returns a signed delivery of that time.
func stripeAt(at time.Time) *http.Request {
	body := fmt.Sprintf(`{"id":"evt_%d","type":"x"}`, at.UnixNano())
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%d.%s", at.Unix(), body)
	r := httptest.NewRequest(http.MethodPost, "/webhooks/stripe", strings.NewReader(body))
	r.Header.Set("Stripe-Signature", fmt.Sprintf("t=%d,v1=%s", at.Unix(), hex.EncodeToString(mac.Sum(nil))))
	return r
}

func stripeEngine(t *testing.T) (*hookonce.Engine, *setClock) {
	t.Helper()
	store := &setClock{Store: rig.OpenSQLite(t)}
	in := newEngine(t, store, func(cfg *hookonce.Config) {
		cfg.UnverifiedRate = hookonce.Rate{Count: 1000, Per: time.Second} // the limit on 401s is not the topic
		cfg.Sources = append(cfg.Sources, hookonce.Source{
			Name: "stripe", Provider: provider.Stripe, Secrets: hookonce.StaticSecrets(secret), Tolerance: 5 * time.Minute, AckTimeout: 30 * time.Second,
		})
	})
	// As at the start of Run.
	if _, _, err := in.Clock(t.Context()); err != nil {
		t.Fatal(err)
	}
	return in, store
}

func wantCode(t *testing.T, in *hookonce.Engine, r *http.Request, want int) {
	t.Helper()
	if got := deliver(in, r); got.Code != want {
		t.Errorf("the answer is %d, want %d", got.Code, want)
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
			wantCode(t, in, stripeAt(time.Now().Add(-step)), http.StatusServiceUnavailable)
			if n := store.readings.Load() - before; n != 0 {
				t.Errorf("a step of %s was noticed after %d readings of the database's clock, want 0", step, n)
			}
			// The next reading settles it: here both clocks were set.
			if _, _, err := in.Clock(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantCode(t, in, stripeAt(time.Now().Add(-step)), http.StatusUnauthorized)
			wantCode(t, in, stripeAt(time.Now()), http.StatusOK)
		}
	})
	t.Run("this machine's, to the right time", func(t *testing.T) {
		t.Parallel()
		in, store := stripeEngine(t)
		store.ahead.Store(int64(hour))
		if _, _, err := in.Clock(t.Context()); err != nil {
			t.Fatal(err)
		}
		hookonce.StepClock(in, hour) // the clock was an hour behind, and no longer is
		store.ahead.Store(0)
		wantCode(t, in, stripeAt(time.Now().Add(-hour)), http.StatusUnauthorized)
	})
	t.Run("the database's", func(t *testing.T) {
		t.Parallel()
		for _, ahead := range []time.Duration{hour, -hour} {
			in, store := stripeEngine(t)
			store.ahead.Store(int64(ahead))
			wantCode(t, in, stripeAt(time.Now().Add(ahead)), http.StatusServiceUnavailable)
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
		wantCode(t, in, stripeAt(time.Now().Add(-time.Hour)), http.StatusUnauthorized)
	}
	// One at the beginning, and at most one for each second since then.
	if got, most := store.readings.Load()-before, int64(time.Since(began)/time.Second)+1; got < 1 || got > most {
		t.Errorf("%d readings for %d stale deliveries, want 1 to %d", got, n, most)
	}
	// A forged signature causes none.
	forged := stripeAt(time.Now().Add(-time.Hour))
	forged.Header.Set("Stripe-Signature", strings.Replace(forged.Header.Get("Stripe-Signature"), "v1=", "v1=00", 1))
	in, store = stripeEngine(t)
	before = store.readings.Load()
	wantCode(t, in, forged, http.StatusUnauthorized)
	if got := store.readings.Load() - before; got != 0 {
		t.Errorf("%d readings for a forged delivery, want none", got)
	}
}

// Nothing tells whether a delivery is stale while the database is silent, and nothing could be
// claimed.
func TestStaleDeliveryWithoutADatabase(t *testing.T) {
	t.Parallel()
	in, store := stripeEngine(t)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	wantCode(t, in, stripeAt(time.Now().Add(-time.Hour)), http.StatusServiceUnavailable)
}

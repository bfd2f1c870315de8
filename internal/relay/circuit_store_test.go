package relay_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/relay"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// With a cooldown of a minute, no message follows the failures that open the circuit, so the number
// of attempts stays.
func TestOpenCircuitSpendsNoAttempts(t *testing.T) {
	t.Parallel()
	const events = 15
	store := rig.OpenSQLite(t)
	claimMany(t, store, events, "{}")
	var calls atomic.Int64
	d := destination(func(context.Context, *driver.Message) error {
		calls.Add(1)
		return errors.New("down")
	}, func(d *relay.Destination) {
		d.Concurrency, d.Retry = 1, driver.Retry{Attempts: 2, First: time.Minute, Max: time.Minute}
	})
	stop := run(t, newGroup(store, nil, d))
	eventually.True(t, "the circuit opens", func() bool { return d.Circuit.Status().Open })
	stop()
	if got := d.Circuit.Status().Failures; got != 10 || calls.Load() != 10 {
		t.Errorf("%d failures in a row, %d calls; want 10 of both", got, calls.Load())
	}
	spent := 0
	for i := range events {
		m := messageOf(t, store, fmt.Sprint(i))
		spent += m.Attempts
		if m.State != driver.StatePending {
			t.Errorf("message %d is %s, want pending", i, m.State)
		}
	}
	if spent != 10 {
		t.Errorf("%d attempts were spent, want 10", spent)
	}
}

func TestCircuitClosesWhenTheDestinationIsBack(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ events, failures int }{
		"untried messages":           {15, 13},
		"only messages tried before": {10, 12}, // the second probe finds no untried one
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, log := rig.OpenSQLite(t), &rig.Log{}
			claimMany(t, store, tt.events, "{}")
			var calls atomic.Int64
			d := destination(func(context.Context, *driver.Message) error {
				if calls.Add(1) <= int64(tt.failures) {
					return errors.New("down")
				}
				return nil
			}, func(d *relay.Destination) {
				d.Concurrency, d.Retry = 1, driver.Retry{Attempts: 5, First: 5 * time.Millisecond, Max: 5 * time.Millisecond}
			})
			run(t, newGroup(store, logTo(log), d))
			for i := range tt.events {
				settled(t, store, fmt.Sprint(i), driver.StateSent)
			}
			if n := int(calls.Load()); n != tt.events+tt.failures {
				t.Errorf("%d calls, want %d", n, tt.events+tt.failures)
			}
			if got := d.Circuit.Status(); got != (relay.CircuitStatus{}) {
				t.Errorf("circuit %+v, want it closed", got)
			}
			log.WantOne(t, "circuit opened")
			log.WantOne(t, "circuit closed")
		})
	}
}

// Bad messages do not delay good ones for long: refused messages leave the circuit closed, and an
// open circuit lets untried messages through.
func TestBadMessagesDelayNoOthers(t *testing.T) {
	t.Parallel()
	const bad = 30
	for status, most := range map[int]int{
		400: bad + 1, // each once, in their order
		500: 12,      // those that open the circuit, and two probes
	} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			store, app, log := rig.OpenSQLite(t), newAnswers(t), &rig.Log{}
			claimMany(t, store, bad, fmt.Sprintf(`{"refuse":%d}`, status))
			claim(t, store, "good", "{}")
			d := destination(nil, func(d *relay.Destination) {
				d.Concurrency, d.Retry = 1, driver.Retry{Attempts: 20, First: 20 * time.Millisecond, Max: time.Hour}
				byHTTP(app.url)(d)
			})
			run(t, newGroup(store, logTo(log), d))
			settled(t, store, "good", driver.StateSent)
			place := slices.Index(app.got(), "{}") + 1
			if place > most {
				t.Errorf("the good message was number %d, want it among the first %d", place, most)
			}
			if opened := strings.Contains(log.Text(), "circuit opened"); opened != (status == 500) {
				t.Errorf("status %d opened the circuit: %t", status, opened)
			}
		})
	}
}

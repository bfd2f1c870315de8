package relay

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
)

// circuitWorld drives a circuit with its own clock.
type circuitWorld struct {
	*testing.T
	c   *Circuit
	now time.Time
}

func newCircuitWorld(t *testing.T, r driver.Retry) *circuitWorld {
	return &circuitWorld{T: t, c: NewCircuit(r), now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

type allowance struct {
	N     int
	Probe probe
	Wait  time.Duration
}

func (w *circuitWorld) allows(want allowance) {
	w.Helper()
	var got allowance
	got.N, got.Probe, got.Wait = w.c.allow(16, w.now)
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("allowed (-want +got):\n%s", diff)
	}
}

// fail reports n failures of sends that were no probe.
func (w *circuitWorld) fail(n int) (openings int) {
	for range n {
		if opened, _ := w.c.report(false, false, w.now); opened {
			openings++
		}
	}
	return openings
}

func TestCircuitOpensAtTheTenthFailureInARow(t *testing.T) {
	t.Parallel()
	w := newCircuitWorld(t, driver.Retry{First: 10 * time.Second})
	closed := allowance{N: 16}
	if n := w.fail(9); n != 0 {
		t.Errorf("nine failures opened the circuit")
	}
	w.allows(closed)
	w.c.report(true, false, w.now)
	if n := w.fail(9); n != 0 {
		t.Errorf("nine failures after a success opened the circuit")
	}
	w.allows(closed)
	// The other sends in progress fail too, and change nothing.
	if n := w.fail(15); n != 1 {
		t.Errorf("opened %d times, want once", n)
	}
	w.allows(allowance{Wait: 10 * time.Second})
	want := CircuitStatus{Failures: 24, Open: true, Since: w.now, NextProbe: w.now.Add(10 * time.Second)}
	if diff := cmp.Diff(want, w.c.Status()); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestCircuitLetsOneProbeThrough(t *testing.T) {
	t.Parallel()
	w := newCircuitWorld(t, driver.Retry{First: 10 * time.Second})
	w.fail(circuitThreshold)
	oldest, held := allowance{N: 1, Probe: probeOldest}, allowance{}
	untried := allowance{N: 1, Probe: probeUntried}

	w.now = w.now.Add(10*time.Second - 1)
	w.allows(allowance{Wait: 1})
	w.now = w.now.Add(1)
	w.allows(oldest)
	w.allows(held) // until the probe has ended
	w.fail(1)      // a send that was in progress when the circuit opened is no probe
	w.allows(held)
	w.c.dismiss() // there was nothing to send
	w.allows(oldest)

	if opened, closed := w.c.report(false, true, w.now); opened || closed {
		t.Errorf("a failed probe opened the circuit: %t, closed it: %t", opened, closed)
	}
	w.allows(allowance{Wait: 10 * time.Second})
	w.now = w.now.Add(10 * time.Second)
	w.allows(untried)
	if _, closed := w.c.report(true, true, w.now); !closed {
		t.Error("a successful probe did not close the circuit")
	}
	w.allows(allowance{N: 16})
	if diff := cmp.Diff(CircuitStatus{}, w.c.Status()); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestAnySuccessClosesTheCircuit(t *testing.T) {
	t.Parallel()
	w := newCircuitWorld(t, driver.Retry{First: time.Second})
	w.fail(circuitThreshold)
	if _, closed := w.c.report(true, false, w.now); !closed {
		t.Error("a send that was in progress succeeded and did not close the circuit")
	}
	w.allows(allowance{N: 16})
}

func TestCircuitCooldownIsBounded(t *testing.T) {
	t.Parallel()
	w := newCircuitWorld(t, driver.Retry{First: 6 * time.Hour})
	w.fail(circuitThreshold)
	w.allows(allowance{Wait: time.Minute})
}

func TestHurryMakesTheNextProbeDue(t *testing.T) {
	t.Parallel()
	w := newCircuitWorld(t, driver.Retry{First: 10 * time.Second})
	w.c.hurry(w.now)
	w.allows(allowance{N: 16}) // a closed circuit stays closed
	w.fail(circuitThreshold)
	w.allows(allowance{Wait: 10 * time.Second})
	w.c.hurry(w.now)
	w.allows(allowance{N: 1, Probe: probeOldest})
	w.c.hurry(w.now)
	w.allows(allowance{}) // one probe at a time
	w.c.report(false, true, w.now)
	w.allows(allowance{Wait: 10 * time.Second})
}

package relay

import (
	"sync"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	// circuitThreshold is the number of failed sends in a row that open a circuit.
	circuitThreshold = 10
	// maxCooldown bounds the time between two probes, and with it how late a recovered destination
	// is noticed.
	maxCooldown = time.Minute
)

// Circuit keeps relays from spending attempts on a destination that fails every time. Ten failures in
// a row open it; while it is open, nothing is sent except one probe after each cooldown. A success
// closes it. Every second probe is a message that was never tried: a message that the destination
// always refuses must not keep the circuit open. A Circuit is safe for concurrent use.
type Circuit struct {
	cooldown time.Duration

	mu        sync.Mutex
	failures  int // in a row
	openSince time.Time
	openUntil time.Time // while open: the next probe
	probing   bool
	probes    int // since it opened
}

// probe says which message a probe of the circuit takes.
type probe int

const (
	noProbe probe = iota
	probeOldest
	probeUntried
)

// NewCircuit returns a closed circuit for a destination with this schedule.
func NewCircuit(r driver.Retry) *Circuit { return &Circuit{cooldown: min(r.First, maxCooldown)} }

// Fits reports whether the circuit serves this schedule as well.
func (c *Circuit) Fits(r driver.Retry) bool { return c.cooldown == min(r.First, maxCooldown) }

// allow returns how many of n sends may begin, and whether they are a probe. If none may, wait is the
// time until the next probe; 0 means that a send must end first.
func (c *Circuit) allow(n int, now time.Time) (allowed int, kind probe, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.failures < circuitThreshold:
		return n, noProbe, 0
	case c.probing:
		return 0, noProbe, 0
	case now.Before(c.openUntil):
		return 0, noProbe, c.openUntil.Sub(now)
	}
	c.probing = true
	c.probes++
	if c.probes%2 == 0 {
		return 1, probeUntried, 0
	}
	return 1, probeOldest, 0
}

// hurry makes the next probe of an open circuit due.
func (c *Circuit) hurry(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.openUntil = now
}

// dismiss undoes allow for a probe that was not sent.
func (c *Circuit) dismiss() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probing = false
	c.probes = max(c.probes-1, 0)
}

// report records whether the destination worked for a send, and returns whether that opened or closed
// the circuit. Sends that were in progress when the circuit opened are reported too.
func (c *Circuit) report(works, probed bool, now time.Time) (opened, closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if probed {
		c.probing = false
	}
	if works {
		closed = c.failures >= circuitThreshold
		c.failures, c.probes = 0, 0
		return false, closed
	}
	c.failures++
	opened = c.failures == circuitThreshold
	if opened {
		c.openSince = now
	}
	if opened || probed {
		c.openUntil = now.Add(c.cooldown)
	}
	return opened, false
}

// CircuitStatus is the state of a circuit.
type CircuitStatus struct {
	Failures         int // sends in a row that failed
	Open             bool
	Since, NextProbe time.Time // zero unless Open
}

// Status returns the present state.
func (c *Circuit) Status() CircuitStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := CircuitStatus{Failures: c.failures, Open: c.failures >= circuitThreshold}
	if s.Open {
		s.Since, s.NextProbe = c.openSince, c.openUntil
	}
	return s
}

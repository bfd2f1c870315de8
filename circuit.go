package hookonce

import (
	"sync"
	"time"
)

const (
	// circuitThreshold is how many sends in a row must fail to open the circuit
	// of a destination.
	circuitThreshold = 10
	// maxCooldown bounds how long an open circuit leaves a destination alone,
	// and so how late it is noticed that the destination is back.
	maxCooldown = time.Minute
)

// circuit keeps a relay from spending attempts on a destination that fails
// every time. It is closed while that works now and then; circuitThreshold
// failures in a row open it, and nothing is sent. After each cooldown one send,
// the probe, is let through: its success closes the circuit. Every second probe
// takes what was never tried: what fails because of what it is must not keep a
// destination closed that would take the rest.
type circuit struct {
	cooldown time.Duration

	mu        sync.Mutex
	failures  int // in a row
	openSince time.Time
	openUntil time.Time // while open: the next probe
	probing   bool
	probes    int // since it opened
}

// probe says what a send is to the circuit.
type probe int

const (
	noProbe probe = iota
	probeOldest
	probeUntried
)

func newCircuit(r Retry) *circuit { return &circuit{cooldown: min(r.First, maxCooldown)} }

// allow returns how many of n sends may begin, and whether they are a probe. If
// none may, wait says when to ask again; 0 means when a send has ended.
func (c *circuit) allow(n int, now time.Time) (allowed int, kind probe, wait time.Duration) {
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

// dismiss takes back a probe that did not begin.
func (c *circuit) dismiss() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.probing = false
	c.probes = max(c.probes-1, 0)
}

// report tells whether the destination worked for a send that has ended, and
// returns whether that opened or closed the circuit. The sends that were under
// way when it opened are reported too.
func (c *circuit) report(works, probed bool, now time.Time) (opened, closed bool) {
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

// CircuitStatus tells of the circuit of a destination, as one process sees it.
type CircuitStatus struct {
	// Failures is how many sends in a row have failed.
	Failures int
	// Open says that nothing but a probe now and then is sent.
	Open bool
	// Since and NextProbe are zero unless it is open.
	Since, NextProbe time.Time
}

func (c *circuit) status() CircuitStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := CircuitStatus{Failures: c.failures, Open: c.failures >= circuitThreshold}
	if s.Open {
		s.Since, s.NextProbe = c.openSince, c.openUntil
	}
	return s
}

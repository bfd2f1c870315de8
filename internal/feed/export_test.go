package feed

import "context"

// The bounds of a group of rows.
const (
	MaxGroup   = maxGroup
	MaxRoutine = maxRoutine
)

// Start makes c hold rows, as Run does.
func (c *Collector) Start() { c.running.Store(true) }

// Watched reports whether c knows of a viewer.
func (c *Collector) Watched() bool { return c.watched.Load() }

// Step does what Run does at each tick.
func (c *Collector) Step(ctx context.Context) { c.step(ctx) }

// Restore returns a stored row.
var Restore = restore

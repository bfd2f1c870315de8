package feed

import "context"

// The bounds of a group of rows.
const (
	MaxGroup   = maxGroup
	MaxRoutine = maxRoutine
)

// Step does what Run does at each tick.
func (c *Collector) Step(ctx context.Context) { c.step(ctx) }

// Restore returns a stored row.
var Restore = restore

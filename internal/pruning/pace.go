package pruning

import "time"

const (
	firstChunk = 100
	minChunk   = 25 // smaller ones cost more in statements than in rows
	maxChunk   = 2000
	// step is the largest change of a chunk's size from the one before. Small steps follow the median: a
	// stall of the disk does not make chunks small.
	step = 0.1
)

// Pace sizes chunks by the time that they take.
type Pace struct {
	longest time.Duration // how long half of the chunks take at most
	size    float64
	fixed   bool
}

// NewPace returns a pace. Half of the chunks take longest at most, unless a positive size is that of every chunk.
func NewPace(size int, longest time.Duration) *Pace {
	if size > 0 {
		return &Pace{longest, float64(min(size, 10_000)), true}
	}
	return &Pace{longest, firstChunk, false}
}

// Size returns the size of the next chunk.
func (p *Pace) Size() int { return int(p.size) }

// Took records how long a chunk of n rows took.
func (p *Pace) Took(n int, took time.Duration) {
	switch {
	case p.fixed:
	case took > p.longest:
		p.size = max(p.size*(1-step), minChunk)
	case n == p.Size(): // a part of a chunk does not show that a larger one is quick
		p.size = min(p.size*(1+step), maxChunk)
	}
}

package pruning

import "fmt"

// Refused counts events and bodies that the database refuses to remove in a pass. They stay.
type Refused struct {
	n      int
	latest error
}

// Add adds n events or bodies, or another row if n is 0, and why the database refuses the last one.
func (r *Refused) Add(n int, err error) { r.n, r.latest = r.n+n, err }

// Err says how many stay, and why the last one does. It is nil if none does.
func (r *Refused) Err() error {
	if r.n == 0 {
		return r.latest
	}
	return fmt.Errorf("events and bodies that the database refuses to remove: %d; the last refusal: %w", r.n, r.latest)
}

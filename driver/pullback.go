package driver

import "time"

// MaxAhead is how far ahead due times may lie, apart from those of failed attempts with a longer
// wait. Leases and reservations are shorter.
const MaxAhead = 24 * time.Hour

// PullBackParams are the parameters of Store.PullBack.
type PullBackParams struct {
	Sources, Destinations []string // whose events and messages to look at
	Armable               []string // sources that may be armed
	Limit                 int
	// Ahead is how far ahead due times may lie, as MaxAhead, which 0 means. A small one reads all that wait.
	Ahead time.Duration
	Now   time.Time // tests only; zero means the database's clock
}

package bench

import (
	"os"
	"testing"
	"time"
)

// scaleVariable names the environment variable that sets the scale. Empty: one short round of every row. scaleFull: figures
// for the page.
const (
	scaleVariable = "HOOKONCE_BENCH"
	scaleFull     = "full"
)

// scale sets the amount of measuring.
type scale struct {
	full      bool
	rounds    int
	stalls    int // rounds of the rows that compare the slowest answers: one stall of the disk decides a round
	warm      time.Duration
	lasts     time.Duration // duration of one measurement under load
	events    int           // to handle, take or send
	inFlight  int
	knownIDs  int           // claimed ids in the full table
	oldEvents int           // events to prune
	waiting   int           // messages for a dead destination
	open      time.Duration // how long a transaction is open before figures beside it count
	fills     time.Duration // how long the full table is received into before figures count
}

func scaleOf(t testing.TB) *scale {
	t.Helper()
	brief := scale{
		rounds: 1, stalls: 1, warm: 50 * time.Millisecond, lasts: 300 * time.Millisecond, events: 500, inFlight: 200,
		knownIDs: 20_000, oldEvents: 5_000, waiting: 5_000,
	}
	switch given := os.Getenv(scaleVariable); given {
	case "":
	case scaleFull:
		return &scale{
			full: true, rounds: 5, stalls: 15, warm: time.Second, lasts: 4 * time.Second, events: 20_000, inFlight: 5_000,
			knownIDs: 20_000_000, oldEvents: 5_000_000, waiting: 1_000_000,
			open: 10 * time.Minute, fills: 2 * time.Minute,
		}
	default:
		t.Fatalf("%s is %q: use %q or nothing", scaleVariable, given, scaleFull)
	}
	return &brief
}

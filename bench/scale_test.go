package bench

import (
	"os"
	"testing"
	"time"
)

// scaleVariable names the environment variable that says how much is measured: "" is
// one short round of what needs nothing but PostgreSQL, scaleBrief that of everything,
// and scaleFull is for figures.
const (
	scaleVariable = "HOOKONCE_BENCH"
	scaleBrief    = "brief"
	scaleFull     = "full"
)

// scale says how much is measured.
type scale struct {
	full       bool
	everything bool // the baselines too that bench/setup installs
	rounds     int
	stalls     int // rounds where the slowest answers are compared: one stall of the disk decides a round
	warm       time.Duration
	lasts      time.Duration // of one measurement under load
	events     int           // to work off
	inFlight   int
	knownIDs   int // in a table that is full of them
	oldEvents  int // to prune
}

func scaleOf(t testing.TB) *scale {
	t.Helper()
	brief := scale{
		rounds: 1, stalls: 1, warm: 50 * time.Millisecond, lasts: 300 * time.Millisecond, events: 500, inFlight: 200,
		knownIDs: 20_000, oldEvents: 5_000,
	}
	switch given := os.Getenv(scaleVariable); given {
	case "":
	case scaleBrief:
		brief.everything = true
	case scaleFull:
		return &scale{
			full: true, everything: true, rounds: 5, stalls: 15, warm: time.Second, lasts: 4 * time.Second, events: 20_000, inFlight: 5_000,
			knownIDs: 20_000_000, oldEvents: 5_000_000,
		}
	default:
		t.Fatalf("%s is %q: use %q, %q or nothing", scaleVariable, given, scaleBrief, scaleFull)
	}
	return &brief
}

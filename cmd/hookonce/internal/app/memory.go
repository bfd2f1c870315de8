package app

import (
	"os"
	"runtime"
)

// headroomBytes is how much more than the live heap may be allocated between two
// collections, beside as much again as is alive. A gateway keeps next to nothing: left
// to the live heap alone the collector would run dozens of times a second, stop
// everybody, and take a fifth of the processor.
const headroomBytes = 32 << 20

// keepHeadroom makes the collector count headroomBytes as alive that nobody ever
// touches, so that they cost addresses and no memory. The returned function lets go of
// them. Whoever sets GOGC or GOMEMLIMIT knows better.
func keepHeadroom() (release func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	headroom := make([]byte, headroomBytes)
	return func() { runtime.KeepAlive(headroom) }
}

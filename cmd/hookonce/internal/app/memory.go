package app

import (
	"os"
	"runtime"
)

// headroomBytes is added to the live heap for the pace of the garbage collector. A gateway keeps
// almost nothing alive: without headroom, the collector would run dozens of times a second, stop
// every goroutine, and take a fifth of the processor.
const headroomBytes = 32 << 20

// keepHeadroom allocates headroomBytes that are never touched, so they cost address space but no
// memory. The returned function releases them. It does nothing if GOGC or GOMEMLIMIT is set: the
// operator's choice wins.
func keepHeadroom() (release func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	headroom := make([]byte, headroomBytes)
	return func() { runtime.KeepAlive(headroom) }
}

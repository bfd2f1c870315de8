package bench

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/observe"
)

const (
	// busyCPU is the share of the processors beyond which they bound a figure.
	busyCPU = 0.85
	// busyStore is the same for the share of the time that claims take to commit.
	busyStore = 0.6
	// noDisk is an fsync that is too fast for a disk.
	noDisk = 20 * time.Microsecond
)

// commits sums up the claims.
type commits struct {
	mu     sync.Mutex
	n      int
	events int
	took   time.Duration
}

func (c *commits) add(o observe.Claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	c.events += o.Size
	c.took += o.Took
}

func (c *commits) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n, c.events, c.took = 0, 0, 0
}

// usage is the share of the processors in use.
type usage struct {
	all float64 // by all processes; of this one alone where the system does not tell
	own float64 // by this process
}

// boundOfClaims says what bounds the claims that were made while cpu was in use, in the time lasted.
func (m *meter) boundOfClaims(cpu usage, c *commits, lasted time.Duration) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	inCommits := c.took.Seconds() / lasted.Seconds()
	switch {
	case cpu.all >= busyCPU || c.n == 0:
		return cpu.String()
	case m.sqlite && inCommits >= busyStore:
		return fmt.Sprintf("fsync: %.0f commits/s of %d events", float64(c.n)/lasted.Seconds(), c.events/c.n)
	case inCommits >= busyStore:
		return fmt.Sprintf("round trips: %s for a commit of %d events", say.Brief(c.took/time.Duration(c.n)), c.events/c.n)
	}
	return "latency of one commit; " + cpu.String()
}

// boundOfWork says what bounds messages or handlers.
func (m *meter) boundOfWork(cpu usage) string {
	switch {
	case cpu.all >= busyCPU:
		return cpu.String()
	case m.sqlite:
		return "fsync; " + cpu.String()
	}
	return "round trips; " + cpu.String()
}

func (u usage) String() string {
	text := fmt.Sprintf("CPU %.0f %% of %s", 100*min(u.all, 1), say.Count(runtime.GOMAXPROCS(0), "core"))
	if u.own < u.all-0.1 { // the server of the database, or other work
		text += fmt.Sprintf(", %.0f %% by this process", 100*u.own)
	}
	return text
}

// cpuWatch measures the load of the processors.
type cpuWatch struct {
	began             time.Time
	process           time.Duration
	machine, capacity float64
}

func watchCPU() *cpuWatch {
	w := &cpuWatch{began: time.Now(), process: processTime()}
	w.machine, w.capacity = machineTime()
	return w
}

// usage returns the share of the processors in use since the start of w.
func (w *cpuWatch) usage() usage {
	u := usage{own: (processTime() - w.process).Seconds() / time.Since(w.began).Seconds() / float64(runtime.GOMAXPROCS(0))}
	u.all = u.own
	if used, capacity := machineTime(); capacity > w.capacity {
		u.all = max(u.own, (used-w.machine)/(capacity-w.capacity))
	}
	return u
}

// machineTime returns the processor time that this machine has used, and the time that it had, both in
// ticks since its start; 0 where there is no /proc/stat. See proc_stat(5).
func machineTime() (used, capacity float64) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	for i, field := range strings.Fields(strings.TrimPrefix(line, "cpu")) {
		const idle, iowait, guest = 3, 4, 8 // guests are counted in user, too
		ticks, err := strconv.ParseFloat(field, 64)
		if err != nil || i >= guest {
			break
		}
		capacity += ticks
		if i != idle && i != iowait {
			used += ticks
		}
	}
	return used, capacity
}

package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// ProcessorTime returns the time that processes have used so far, with that of their ended
// children. The system counts it in hundredths of a second.
func ProcessorTime(t testing.TB, pids ...int) time.Duration {
	t.Helper()
	var ticks int64
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it has ended since it was listed, and its parent has its time
		}
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(stat), ") ") // the name in brackets may contain spaces
		for _, field := range strings.Fields(rest)[11:15] {
			n, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

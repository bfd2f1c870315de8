package cli

import (
	"bytes"
	"testing"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/bench"
)

func TestBenchTable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	(&program{stdout: &out}).printBench(&bench.Report{
		Version: "v1.2.3", Database: "sqlite:/tmp/…", Platform: "linux/amd64", Cores: 1,
		Figures: []bench.Figure{
			{Name: "receive", Unit: "deliveries", PerSecond: 12345.6, Median: 0.0012, P99: 0.25, Bound: "fsync"},
			{Name: "take", Unit: "events", PerSecond: 7, Bound: "CPU 97 % of 1 core"},
		},
	})
	want := `hookonce v1.2.3 · sqlite:/tmp/… · linux/amd64, 1 core
MEASURED  FIGURE               MEDIAN  P99     BOUND BY
receive   12,346 deliveries/s  1.2 ms  250 ms  fsync
take      7 events/s           -       -       CPU 97 % of 1 core
`
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", &out, want)
	}
}

package proof

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/internal/test/group"
	"github.com/hookonce/hookonce/internal/test/report"
)

// pageVariable names the environment variable of make proof: the number of events of each trial.
const pageVariable = "HOOKONCE_PROOF"

// pageEvents returns the number in pageVariable; 0 if it is not set.
func pageEvents(t testing.TB) int {
	t.Helper()
	text := os.Getenv(pageVariable)
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < fewEvents {
		t.Fatalf("%s=%s: give a number of events, at least %d", pageVariable, text, fewEvents)
	}
	return n
}

// column is a column of the page's table: a heading, and the figures whose sum it holds.
type column struct {
	heading string
	figures []string
}

var columns = []column{
	{"events", []string{"events"}},
	{"deliveries answered 2xx", []string{"deliveries that were acknowledged"}},
	{"second copies", []string{"second copies sent at the same moment", "second copies sent later"}},
	{"processes killed", []string{"processes killed by the test", "processes ended by an event"}},
	{"power cuts", []string{cutsName}},
	{"rows refused by the database", []string{"changes of rows that the database refused"}},
	{"handler calls", []string{"calls of the handler"}},
	{"effects", []string{"effects"}},
	{"dead, as they should be", []string{"dead letters"}},
}

// TestProofPage runs the trials and plants the faults one after another, and writes docs/proof.md.
func TestProofPage(t *testing.T) {
	if pageEvents(t) == 0 {
		t.Skipf("%s=N runs this test: it writes docs/proof.md (make proof)", pageVariable)
	}
	group.NeedLong(t)
	seed := seedOf(t)
	t.Setenv(seedVariable, strconv.FormatUint(seed, 10))
	var b strings.Builder
	heading, line := "| trial |", "|---|"
	for _, c := range columns {
		heading, line = heading+" "+c.heading+" |", line+"---|"
	}
	fmt.Fprintf(&b, "%s time |\n%s---|\n", heading, line)
	for _, trial := range []struct {
		name string
		run  func(*testing.T) []figure
	}{
		{"pgx, three processes", func(t *testing.T) []figure { return exactlyOnce(t, withPgx, 3, 5*time.Second) }},
		{"database/sql on PostgreSQL, three", func(t *testing.T) []figure { return exactlyOnce(t, withSQL, 3, 5*time.Second) }},
		{"Python and SQL functions, two and two", exactlyOncePython},
		{"SQLite, two", func(t *testing.T) []figure { return exactlyOnce(t, withSQLite, 2, time.Second) }},
		{"pgx, power cuts", powerCutsPostgres},
		{"SQLite, power cuts", powerCutsSQLite},
	} {
		t.Run(trial.name, func(t *testing.T) {
			began := time.Now()
			figures := trial.run(t)
			fmt.Fprintf(&b, "| %s |", trial.name)
			for _, c := range columns {
				fmt.Fprintf(&b, " %s |", c.sum(figures))
			}
			fmt.Fprintf(&b, " %s |\n", say.Brief(time.Since(began)))
		})
	}
	var noticed strings.Builder
	noticed.WriteString("| planted fault | noticed by |\n|---|---|\n")
	for i := range plants {
		t.Run(plants[i].broken, func(t *testing.T) {
			fmt.Fprintf(&noticed, "| %s | `%s` |\n", plants[i].broken, notice(t, i))
		})
	}
	if t.Failed() {
		return // the page keeps what held
	}
	page := report.Docs(3) + "/proof.md"
	report.Write(t, page, "trials", "proof", fmt.Sprintf("%s, on %s, with `%s=%d`.\n\n%s",
		time.Now().UTC().Format(time.DateOnly), report.Machine(), seedVariable, seed, b.String()))
	report.Write(t, page, "planted faults", "proof", noticed.String())
}

// sum returns the sum of the column's figures; "–" if there are none.
func (c *column) sum(figures []figure) string {
	n, found := 0, false
	for _, f := range figures {
		if slices.Contains(c.figures, f.name) {
			n, found = n+f.n, true
		}
	}
	if !found {
		return "–"
	}
	return say.Number(n)
}

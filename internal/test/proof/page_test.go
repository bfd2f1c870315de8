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
	{"lost replies", []string{lostName}},
	{"rows refused by the database", []string{"changes of rows that the database refused"}},
	{"handler calls", []string{"calls of the handler"}},
	{"effects", []string{"effects"}},
	{"dead, as they should be", []string{"dead letters"}},
}

// trials are the rows of the page's table.
var trials = []struct {
	name string
	run  func(*testing.T) []figure
}{
	{"pgx, three processes", func(t *testing.T) []figure { return exactlyOnce(t, withPgx, 3, 5*time.Second) }},
	{"database/sql on PostgreSQL, three", func(t *testing.T) []figure { return exactlyOnce(t, withSQL, 3, 5*time.Second) }},
	{"Python and SQL functions, two and two", exactlyOncePython},
	{"SQLite, two", func(t *testing.T) []figure { return exactlyOnce(t, withSQLite, 2, time.Second) }},
	{"pgx, two, lost replies", lostReplies},
	{"pgx, power cuts", powerCutsPostgres},
	{"SQLite, power cuts", powerCutsSQLite},
}

// page is the file, and the target of make that writes it.
var page, target = report.Docs(3) + "/proof.md", "proof"

// TestProofPage runs the trials and the other tests, plants the faults, one after another, and writes docs/proof.md.
func TestProofPage(t *testing.T) {
	if pageEvents(t) == 0 {
		t.Skipf("%s=N runs this test: it writes docs/proof.md (make proof)", pageVariable)
	}
	group.NeedLong(t)
	seed := seedOf(t)
	t.Setenv(seedVariable, strconv.FormatUint(seed, 10))
	var b, beside, noticed strings.Builder
	heading, line := "| trial |", "|---|"
	for _, c := range columns {
		heading, line = heading+" "+c.heading+" |", line+"---|"
	}
	fmt.Fprintf(&b, "%s time |\n%s---|\n", heading, line)
	for _, trial := range trials {
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
	write(t, "trials", fmt.Sprintf("%s, on %s,\nwith `%s=%d`.\n\n%s",
		time.Now().UTC().Format(time.DateOnly), report.Machine(), seedVariable, seed, b.String()))
	beside.WriteString("| tests | result | time |\n|---|---|---|\n")
	for i := range others {
		t.Run(others[i].name, func(t *testing.T) {
			began := time.Now()
			result := other(t, i)
			fmt.Fprintf(&beside, "| %s | %s | %s |\n", others[i].name, result, say.Brief(time.Since(began)))
		})
	}
	write(t, "other tests", beside.String())
	noticed.WriteString("| planted fault | noticed by |\n|---|---|\n")
	for i := range plants {
		t.Run(plants[i].broken, func(t *testing.T) {
			fmt.Fprintf(&noticed, "| %s | `%s` |\n", plants[i].broken, notice(t, i))
		})
	}
	write(t, "planted faults", noticed.String())
}

// write writes a table into the page, which keeps what held.
func write(t *testing.T, section, text string) {
	t.Helper()
	if !t.Failed() {
		report.Write(t, page, section, target, text)
	}
}

// The page has a row for each trial, test and fault, and the code still has the lines that a planted fault changes.
func TestPageIsWhole(t *testing.T) {
	t.Parallel()
	want := map[string][]string{}
	for _, trial := range trials {
		want["trials"] = append(want["trials"], trial.name)
	}
	for _, o := range others {
		want["other tests"] = append(want["other tests"], o.name)
	}
	for _, p := range plants {
		want["planted faults"] = append(want["planted faults"], p.broken)
		overlay(t, p.edits)
	}
	for section, names := range want {
		text := report.Read(t, page, section, target)
		for _, name := range names {
			if !strings.Contains(text, "\n| "+name+" | ") {
				t.Errorf("docs/proof.md has no row %q: make proof writes it", name)
			}
		}
		if rows := strings.Count(text, "\n| ") - 1; rows != len(names) {
			t.Errorf("docs/proof.md has %d %s, want %d", rows, section, len(names))
		}
	}
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

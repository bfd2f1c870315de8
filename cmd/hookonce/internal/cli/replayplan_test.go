package cli

import (
	"bytes"
	"testing"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
)

// No two lines of a plan read alike: they name the routes.
func TestPlanRowsNameRoutes(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	table := newFacts(&b)
	planRows(table, &hookadmin.Job{
		Sends: []driver.PlanPart{{Destination: "crm", Route: "corrected", Messages: 5}},
		Skips: []driver.PlanPart{{Destination: "ci", Route: "wrong", Messages: 3}},
		Stays: []driver.PlanPart{{Destination: "billing", Route: "invoices", Messages: 50}, {Destination: "billing", Messages: 10}},
	})
	table.Flush()
	const want = "  5   → crm (route corrected)\n" +
		"  3   messages to ci (route wrong) that wait or failed are skipped\n" +
		"  50  messages to billing (route invoices) stay as they are\n" +
		"  10  messages to billing (no route) stay as they are\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &b, want)
	}
}

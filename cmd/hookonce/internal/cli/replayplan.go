package cli

import (
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/say"
)

// planRows writes the effect of a planned replay of events, by destination.
func planRows(t *columns, job *hookadmin.Job) {
	row := func(n int, text string) { t.row("  "+say.Number(n), text) }
	for _, m := range job.Sends {
		row(m.Messages, "→ "+m.To())
	}
	if job.Handled > 0 {
		row(job.Handled, "→ the handler, which runs again")
	}
	messages := func(m *driver.PlanPart) string {
		if m.Route == "" {
			return "messages to " + m.To() + " (no route)"
		}
		return "messages to " + m.To()
	}
	for _, m := range job.Skips {
		row(m.Messages, messages(&m)+" that wait or failed are skipped")
	}
	for _, m := range job.Stays {
		row(m.Messages, messages(&m)+" stay as they are")
	}
	for _, reason := range sortedNames(job.Refused) {
		if reason != driver.ErrModeNeeded.Error() { // the row of done events says that
			row(job.Refused[reason], "refused: "+reason)
		}
	}
}

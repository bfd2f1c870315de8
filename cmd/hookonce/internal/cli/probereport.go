package cli

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/probe"
	"github.com/hookonce/hookonce/internal/shown"
)

// probeMarks are the signs of the verdicts, and their colours on a terminal.
var probeMarks = map[probe.Verdict]struct {
	sign   string
	colour text.Colors
}{
	probe.Pass:    {"✓", text.Colors{text.FgGreen}},
	probe.Fail:    {"✗", text.Colors{text.FgRed}},
	probe.Unknown: {"?", text.Colors{text.FgYellow}},
}

// probeWidth is the width of the report, in columns.
const probeWidth = 80

func (p *program) printProbe(r *probe.Report, asJSON bool) error {
	for _, left := range r.LeftOut {
		fmt.Fprintf(p.stderr, "Left out: %s: %s\n", left.Name, left.Why)
	}
	if asJSON {
		return writeJSON(p.stdout, r)
	}
	width, isTerminal := terminalWidth(p.stdout)
	if width = min(width, probeWidth); !isTerminal {
		width = probeWidth
	}
	for i := 0; i < len(r.Checks); i++ {
		c := &r.Checks[i]
		mark := probeMarks[c.Verdict]
		sign, title := mark.sign, c.Title
		if isTerminal && coloured() {
			sign = mark.colour.Sprint(sign)
		}
		if n := notRunAlike(r.Checks[i:]); n > 1 {
			title, i = fmt.Sprintf("%d other checks", n), i+n-1
		}
		const before = 34 // columns: sign, title
		saw := strings.Split(text.WrapSoft(shown.Escape(c.Saw), max(width-before, 20)), "\n")
		fmt.Fprintf(p.stdout, " %s %-29s  %s\n", sign, title, strings.TrimSpace(saw[0]))
		for _, line := range saw[1:] {
			fmt.Fprintf(p.stdout, "%*s%s\n", before, "", strings.TrimSpace(line))
		}
		if c.Verdict == probe.Fail {
			p.printIndented("Sent: "+c.Sent+".", width)
			p.printIndented(c.Why, width)
			p.printIndented(c.Remedy, width)
		}
	}
	if r.Failed > 0 {
		fmt.Fprintf(p.stdout, "More about each check:\n  %s\n", probe.Page())
	}
	_, err := fmt.Fprintf(p.stdout, "%d passed · %d failed · %d unknown\n", r.Passed, r.Failed, r.Unknown)
	return err
}

// notRunAlike returns the number of checks at the start of a list that did not run for the same reason.
// They share a row, so that the reason stays in sight.
func notRunAlike(checks []probe.Result) int {
	n := 0
	for n < len(checks) && checks[n].NotRun && checks[n].Saw == checks[0].Saw {
		n++
	}
	return n
}

func (p *program) printIndented(paragraph string, width int) {
	for line := range strings.SplitSeq(text.WrapSoft(paragraph, max(width-5, 20)), "\n") {
		fmt.Fprintf(p.stdout, "     %s\n", strings.TrimSpace(line))
	}
}

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/internal/shown"
)

// tailWriter writes the rows of "events tail".
type tailWriter interface {
	write(row *hookadmin.StreamRow) error
}

func (p *program) newTailWriter(asJSON bool) tailWriter {
	if asJSON {
		return tailJSON{shown.NewEncoder(p.stdout)}
	}
	return &tailText{out: p.stdout, colored: isTerminal(p.stdout) && p.variable("NO_COLOR") == "" && p.variable("TERM") != "dumb"}
}

type tailJSON struct{ *json.Encoder }

func (w tailJSON) write(row *hookadmin.StreamRow) error { return w.Encode(row) }

// tailText writes rows as lines for people. Its columns grow for the rest of the run, because the widths
// of later rows are not known.
type tailText struct {
	out     io.Writer
	colored bool
	widths  []int // of all columns but the last; nil before the heading
}

// tailColumns are the widths of the columns at the beginning, without the reason at the end of a row.
var tailColumns = []int{len("15:04:05Z"), 1, 14, 26, 32, 14, 7}

var tailHeading = []string{"TIME", " ", "WHERE", "TYPE", "EVENT ID", "OUTCOME", "TOOK"}

// The columns that a refusal does not use.
const tailType, tailID = 3, 4

// tailNarrow are the steps to fit a terminal.
var tailNarrow = []narrowing{
	{"TYPE", 16},
	{"WHERE", 10},
	{"EVENT ID", 20},
	{"TYPE", 11},
	{"EVENT ID", 16},
	{"TYPE", out},
	{"EVENT ID", 12},
	{"WHERE", 6},
	{"TOOK", out},
	{"OUTCOME", 12},
}

// The symbols of rows, each with its color.
var tailSymbols = map[string]struct{ symbol, color string }{
	"ok": {"→", ""}, "handshake": {"→", ""}, "pending": {"→", ""}, "running": {"→", ""},
	"duplicate": {"=", "2"}, "skipped": {"-", "2"}, "discarded": {"-", "2"},
	"sent": {"✓", "32"}, "done": {"✓", "32"},
	"retry": {"↻", "33"}, "reopened": {"↻", "33"}, "replayed": {"↻", "33"}, "retried": {"↻", "33"},
}

// write writes a row, and a heading before the first one.
func (w *tailText) write(row *hookadmin.StreamRow) error {
	var b strings.Builder
	if w.widths == nil {
		w.widths = slices.Clone(tailColumns)
		w.line(&b, "", tailHeading, "")
	}
	as, known := tailSymbols[row.Outcome]
	if !known {
		as.symbol, as.color = "✗", "31"
	}
	where := row.Source
	if row.Destination != "" {
		where = row.Destination
	}
	w.line(&b, as.color, []string{
		time.Time(row.At).UTC().Format("15:04:05Z"), as.symbol, orDash(where), orDash(row.Type), orDash(row.EventID), outcomeOf(row), tookOf(row),
	}, shown.Escape(remarkOf(row)))
	_, err := io.WriteString(w.out, b.String())
	return err
}

// line adds a line of aligned cells, which ends with the reason. Its symbol has a color, unless that is "".
// On a terminal the line fits the width. A reason that does not fit there stands in the cells of the type and
// the id, if the row has neither, or else on a line of its own.
func (w *tailText) line(b *strings.Builder, color string, row []string, reason string) {
	cells := make([]string, len(row))
	for i, cell := range row {
		cells[i] = shown.Escape(cell)
		w.widths[i] = max(w.widths[i], text.StringWidthWithoutEscSequences(cells[i]))
	}
	widths, width, isTerminal := w.fit()
	after, size := 0, text.StringWidthWithoutEscSequences(reason)
	for _, used := range widths {
		if used != out {
			after += used + gap
		}
	}
	if !isTerminal || size == 0 || after+size <= width {
		w.cells(b, color, cells, widths, reason)
		return
	}
	unused := widths[tailID]
	if widths[tailType] != out {
		unused += widths[tailType] + gap
	}
	if cells[tailType] == "-" && cells[tailID] == "-" && size <= unused {
		widths[tailType], widths[tailID], cells[tailID] = out, unused, reason
		w.cells(b, color, cells, widths, "")
		return
	}
	w.cells(b, color, cells, widths, "")
	indent := widths[0] + widths[1] + 2*gap
	b.WriteString(strings.Repeat(" ", indent) + snip(reason, width-indent) + "\n")
}

// fit returns the widths of the columns, 0 for one that is left out, and the width of the terminal.
func (w *tailText) fit() (widths []int, width int, isTerminal bool) {
	widths = slices.Clone(w.widths)
	if width, isTerminal = terminalWidth(w.out); isTerminal {
		(&columns{heading: tailHeading, narrow: tailNarrow}).fit(widths, width)
	}
	return widths, width, isTerminal
}

// cells adds a line of cells with these widths, and an end.
func (w *tailText) cells(b *strings.Builder, color string, cells []string, widths []int, end string) {
	var line strings.Builder
	for column, cell := range cells {
		if widths[column] == out {
			continue
		}
		if cell = snipCell(tailHeading[column], cell, widths[column]); column == 1 && w.colored && color != "" {
			cell = "\x1b[" + color + "m" + cell + "\x1b[0m"
		}
		line.WriteString(text.Pad(cell, widths[column]+gap, ' '))
	}
	b.WriteString(strings.TrimRight(line.String()+end, " ") + "\n")
}

// outcomeOf returns the outcome with the status and the number of the attempt.
func outcomeOf(row *hookadmin.StreamRow) string {
	outcome := row.Outcome
	if row.Status > 0 && (row.Destination != "" || row.Status >= 400) {
		outcome += fmt.Sprintf(" %d", row.Status)
	}
	if row.Attempt > 0 {
		outcome += fmt.Sprintf(" #%d", row.Attempt)
	}
	if row.Count > 1 {
		outcome += fmt.Sprintf(" ×%d", row.Count)
	}
	return outcome
}

// tookOf returns the duration, "" if it is unknown.
func tookOf(row *hookadmin.StreamRow) string {
	if row.TookSeconds <= 0 {
		return ""
	}
	return say.BriefSeconds(row.TookSeconds)
}

// remarkOf says why, and from where.
func remarkOf(row *hookadmin.StreamRow) string {
	var parts []string
	if row.Reason != "" || row.Error != "" {
		parts = append(parts, remark(strings.ReplaceAll(row.Reason, "_", " "), row.Error))
	}
	if row.Remote != "" && row.Status >= 400 {
		parts = append(parts, row.Remote)
	}
	if row.Dropped > 0 {
		parts = append(parts, fmt.Sprintf("(%d rows left out)", row.Dropped))
	}
	return strings.Join(parts, "  ")
}

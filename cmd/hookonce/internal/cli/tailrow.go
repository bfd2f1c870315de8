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
)

// tailWriter writes the rows of "events tail".
type tailWriter interface {
	write(row *hookadmin.StreamRow) error
}

func (p *program) newTailWriter(asJSON bool) tailWriter {
	if asJSON {
		enc := json.NewEncoder(p.stdout)
		enc.SetEscapeHTML(false)
		return tailJSON{enc}
	}
	return &tailText{out: p.stdout, colored: isTerminal(p.stdout) && p.variable("NO_COLOR") == "" && p.variable("TERM") != "dumb"}
}

type tailJSON struct{ *json.Encoder }

func (w tailJSON) write(row *hookadmin.StreamRow) error { return w.Encode(row) }

// tailText writes rows as lines for people.
type tailText struct {
	out     io.Writer
	colored bool
	headed  bool
}

// tailColumns are the minimum widths of the columns: the widths of later rows are not known when the
// first ones are printed.
var tailColumns = []int{len("15:04:05Z"), 1, 14, 24, 32, 14, 7}

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
	if !w.headed {
		w.headed = true
		w.line(&b, "", "TIME", " ", "WHERE", "TYPE", "EVENT ID", "OUTCOME", "TOOK", "")
	}
	as, known := tailSymbols[row.Outcome]
	if !known {
		as.symbol, as.color = "✗", "31"
	}
	where := row.Source
	if row.Destination != "" {
		where = row.Destination
	}
	w.line(&b, as.color, time.Time(row.At).UTC().Format("15:04:05Z"), as.symbol, orDash(where), orDash(row.Type), orDash(row.EventID),
		outcomeOf(row), tookOf(row), remarkOf(row))
	_, err := io.WriteString(w.out, b.String())
	return err
}

// line adds a line of aligned cells. Its symbol has a color, unless that is "". On a terminal the line
// fits the width.
func (w *tailText) line(b *strings.Builder, color string, cells ...string) {
	columns := tailColumns
	width, isTerminal := terminalWidth(w.out)
	narrow := isTerminal && width < sum(tailColumns)+gap*len(tailColumns)
	if narrow {
		columns = narrowColumns(width)
	}
	var line strings.Builder
	for column, cell := range cells {
		if column < len(columns) && columns[column] == 0 {
			continue
		}
		cell = printable(cell)
		if narrow && column < len(columns) {
			cell = snip(cell, columns[column])
		}
		used := text.StringWidthWithoutEscSequences(cell)
		if column == 1 && w.colored && color != "" {
			cell = "\x1b[" + color + "m" + cell + "\x1b[0m"
		}
		line.WriteString(cell)
		if column < len(columns) {
			fmt.Fprintf(&line, "%*s", max(columns[column]-used, 0)+gap, "")
		}
	}
	shown := strings.TrimRight(line.String(), " ")
	if isTerminal {
		shown = snip(shown, width)
	}
	b.WriteString(shown)
	b.WriteByte('\n')
}

// narrowColumns returns the widths of the columns on a terminal with this many; 0 for one that is left
// out.
func narrowColumns(width int) []int {
	columns := slices.Clone(tailColumns)
	const where, typ, id = 2, 3, 4
	columns[where], columns[typ], columns[id] = 0, 0, 0
	rest := max(width-sum(columns)-gap*len(columns), 0)
	if rest < 30 { // the type needs too much
		columns[where], columns[id] = max(rest/3, 6), max(rest-rest/3, 10)
		return columns
	}
	columns[where], columns[typ] = rest/4, rest/3
	columns[id] = rest - columns[where] - columns[typ]
	return columns
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
	switch took := row.TookSeconds; {
	case took <= 0:
		return ""
	case took < 0.0095:
		return fmt.Sprintf("%.1f ms", took*1000)
	case took < 0.9995:
		return fmt.Sprintf("%.0f ms", took*1000)
	default:
		return fmt.Sprintf("%.1f s", took)
	}
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

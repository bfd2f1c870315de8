package cli

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"

	"github.com/hookonce/hookonce/internal/shown"
)

// columns is a table: rows under a heading, or rows of a name and its values. On a terminal it fits
// the width, and colours the states. Elsewhere every cell is complete.
type columns struct {
	w       io.Writer
	heading []string
	rows    [][]string
	narrow  []narrowing
	wraps   bool // the last cell is continued on more lines, not shortened
	checks  bool // the first cells are results of checks
	cut     bool // a cell was shortened
}

// newTable returns a listing. Where the terminal is too narrow, it carries out the steps of narrow, in
// their order, until the rows fit.
func newTable(w io.Writer, narrow []narrowing, heading ...string) *columns {
	return &columns{w: w, heading: slices.Clone(heading), narrow: narrow} // fit shortens headings
}

// newFacts returns a table whose last cells are texts of any length; the heading may be empty.
func newFacts(w io.Writer, heading ...string) *columns {
	return &columns{w: w, heading: heading, wraps: true}
}

// row adds a row; cells may hold anything.
func (t *columns) row(cells ...string) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = shown.Escape(cell)
	}
	t.rows = append(t.rows, row)
}

// gap is the number of columns between two cells.
const gap = 2

// Flush prints the table. An error of w is that of output, which tells it at the end.
func (t *columns) Flush() {
	width, isTerminal := terminalWidth(t.w)
	if isTerminal && !t.wraps {
		t.dropEmpty()
	}
	widths := t.widths()
	var left []string
	switch {
	case isTerminal && t.wraps:
		last := len(widths) - 1
		if rest := width - sum(widths[:max(last, 0)]) - gap*last; last >= 0 && rest >= 20 {
			widths[last] = min(widths[last], rest)
		}
	case isTerminal:
		left = t.fit(widths, width)
	}
	fmt.Fprint(t.w, t.render(widths, width, isTerminal && coloured()))
	if t.cut {
		left = append(left, "texts with …")
	}
	if len(left) > 0 {
		fmt.Fprintln(t.w, wrap("Too wide for this terminal: "+strings.Join(left, ", ")+"; a pipe (| cat) has them whole.", width))
	}
}

// dropEmpty removes the columns that have no value in any row.
func (t *columns) dropEmpty() {
	for i := len(t.heading) - 1; i >= 0 && len(t.rows) > 0; i-- {
		if slices.ContainsFunc(t.rows, func(row []string) bool { return row[i] != "-" }) {
			continue
		}
		t.heading = slices.Delete(t.heading, i, i+1)
		for r := range t.rows {
			t.rows[r] = slices.Delete(t.rows[r], i, i+1)
		}
	}
}

// widths returns the width of each column, as its widest cell has it.
func (t *columns) widths() []int {
	var widths []int
	for _, row := range append([][]string{t.heading}, t.rows...) {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], text.StringWidthWithoutEscSequences(cell))
		}
	}
	return widths
}

// render returns the table with these widths, for a terminal with so many columns, or 0.
func (t *columns) render(widths []int, columns int, colours bool) string {
	out := table.NewWriter()
	out.SetStyle(table.Style{
		Box:     table.BoxStyle{PaddingRight: strings.Repeat(" ", gap)},
		Options: table.OptionsNoBordersAndSeparators,
	})
	out.SuppressTrailingSpaces()
	var configs []table.ColumnConfig
	for i, width := range widths {
		heading := ""
		if i < len(t.heading) {
			heading = t.heading[i]
		}
		config := table.ColumnConfig{Number: i + 1, WidthMax: width, Hidden: width <= 0, WidthMaxEnforcer: func(cell string, width int) string {
			short := snipCell(heading, cell, width)
			t.cut = t.cut || short != cell
			return short
		}}
		if t.wraps {
			config.WidthMaxEnforcer = wrapWords
		}
		if colours && i == t.states() {
			config.Transformer = colourState
		}
		configs = append(configs, config)
	}
	out.SetColumnConfigs(configs)
	if len(t.heading) > 0 {
		out.AppendHeader(cells(t.heading))
	}
	for _, row := range t.rows {
		out.AppendRow(cells(row))
	}
	if t.wraps {
		return outdentLinks(out.Render(), columns) + "\n"
	}
	return t.addBelow(out.Render(), widths, columns) + "\n"
}

// snipCell shortens a cell of the column with this heading.
func snipCell(heading, cell string, width int) string {
	if slices.Contains(endsDiffer, heading) {
		return snipMiddle(cell, width)
	}
	return snip(cell, width)
}

func snip(cell string, width int) string { return text.Snip(cell, width, "…") }

// snipMiddle shortens an id or a type: many differ only at their end.
func snipMiddle(cell string, width int) string {
	runes := []rune(cell)
	if text.StringWidthWithoutEscSequences(cell) <= width || width < 5 || len(runes) != text.StringWidthWithoutEscSequences(cell) {
		return snip(cell, width)
	}
	end := width / 3
	return string(runes[:width-1-end]) + "…" + string(runes[len(runes)-end:])
}

// states returns the index of the column with states, or -1.
func (t *columns) states() int {
	if t.checks {
		return 0
	}
	return slices.IndexFunc(t.heading, func(name string) bool { return name == "STATE" || name == "OUTCOME" })
}

func cells(row []string) table.Row {
	out := make(table.Row, len(row))
	for i, cell := range row {
		out[i] = cell
	}
	return out
}

// stateColours are the colours of states, outcomes and results of checks.
var stateColours = map[string]text.Colors{
	"done": {text.FgGreen}, "sent": {text.FgGreen}, "ok": {text.FgGreen},
	"pending": {text.FgCyan}, "running": {text.FgCyan}, "sending": {text.FgCyan},
	"retry": {text.FgYellow}, "warning": {text.FgYellow},
	"dead": {text.FgRed}, "failure": {text.FgRed},
	"skipped": {text.Faint},
}

func colourState(cell any) string {
	state, _ := cell.(string)
	return stateColours[strings.TrimSpace(state)].Sprint(state)
}

// coloured reports whether the user wants colours on a terminal; see https://no-color.org.
func coloured() bool { return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" }

// terminalWidth returns the number of columns of w if it is a terminal; COLUMNS, if set, says how many.
func terminalWidth(w io.Writer) (width int, isTerminal bool) {
	if s, ok := w.(interface{ width() int }); ok {
		return s.width(), true
	}
	file, ok := fileOf(w)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return 0, false
	}
	if width, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && width > 0 {
		return width, true
	}
	width, _, err := term.GetSize(int(file.Fd()))
	return width, err == nil && width > 0
}

package cli

import (
	"io"
	"os"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"
)

// columns is a table: rows under a heading, or rows of a name and its values. On a terminal it fits
// the width, and colours the states. Elsewhere the last cell of a listing has at most widest columns, and
// every other cell is complete.
type columns struct {
	w       io.Writer
	heading []string
	rows    [][]string
	narrow  []narrowing
	wraps   bool // the last cell is continued on more lines, not shortened
	checks  bool // the first cells are results of checks
}

// narrowing is a step to make a table narrower: the column gets this width, or one of the values below.
type narrowing struct {
	column string
	to     int
}

const (
	out   = 0  // the column is left out
	below = -1 // each of its cells stands on a line of its own, below the row
)

// newTable returns a listing. Where the terminal is too narrow, it carries out the steps of narrow, in
// their order, until the rows fit.
func newTable(w io.Writer, narrow []narrowing, heading ...string) *columns {
	return &columns{w: w, heading: heading, narrow: narrow}
}

// newFacts returns a table whose last cells are texts of any length; the heading may be empty.
func newFacts(w io.Writer, heading ...string) *columns {
	return &columns{w: w, heading: heading, wraps: true}
}

// row adds a row; cells may hold anything.
func (t *columns) row(cells ...string) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = printable(cell)
	}
	t.rows = append(t.rows, row)
}

// gap is the number of columns between two cells.
const gap = 2

// Flush prints the table.
func (t *columns) Flush() error {
	width, isTerminal := terminalWidth(t.w)
	widths := t.widths()
	switch {
	case isTerminal && t.wraps:
		last := len(widths) - 1
		if rest := width - sum(widths[:max(last, 0)]) - gap*last; last >= 0 && rest >= 20 {
			widths[last] = min(widths[last], rest)
		}
	case isTerminal:
		t.fit(widths, width)
	case !t.wraps: // the other cells are ids and names, to copy
		last := len(widths) - 1
		widths[last] = min(widths[last], widest)
	}
	_, err := io.WriteString(t.w, t.render(widths, isTerminal && coloured()))
	return err
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

// fit reduces widths until a row has at most width columns. Columns that are not in a row get the width
// out or below.
func (t *columns) fit(widths []int, width int) {
	total, complete := sum(widths)+gap*(len(widths)-1), slices.Clone(widths)
	for _, step := range t.narrow {
		if total <= width {
			break
		}
		i := slices.Index(t.heading, step.column)
		switch {
		case widths[i] <= max(step.to, 0): // narrow, or not in the row
		case step.to <= 0:
			total -= widths[i] + gap
			widths[i] = step.to
		default:
			less := min(widths[i]-step.to, total-width)
			total -= less
			widths[i] -= less
		}
	}
	for _, step := range slices.Backward(t.narrow) { // gives the rest back, to the most important first
		i := slices.Index(t.heading, step.column)
		if more := min(complete[i]-widths[i], width-total); widths[i] > 0 && more > 0 {
			total += more
			widths[i] += more
		}
	}
}

// render returns the table with these widths.
func (t *columns) render(widths []int, colours bool) string {
	out := table.NewWriter()
	out.SetStyle(table.Style{
		Box:     table.BoxStyle{PaddingRight: strings.Repeat(" ", gap)},
		Options: table.OptionsNoBordersAndSeparators,
	})
	out.SuppressTrailingSpaces()
	var configs []table.ColumnConfig
	for i, width := range widths {
		config := table.ColumnConfig{Number: i + 1, WidthMax: width, WidthMaxEnforcer: snip, Hidden: width <= 0}
		switch {
		case t.wraps:
			config.WidthMaxEnforcer = text.WrapSoft
		case i < len(t.heading) && t.heading[i] == "EVENT ID":
			config.WidthMaxEnforcer = snipMiddle
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
	return t.addBelow(out.Render(), widths) + "\n"
}

// addBelow adds the cells that stand below their rows. Such a table has one line for each row.
func (t *columns) addBelow(rendered string, widths []int) string {
	column := slices.Index(widths, below)
	if column < 0 {
		return rendered
	}
	lines := strings.Split(rendered, "\n")
	both := lines[:1:1] // the heading
	for i, row := range t.rows {
		both = append(both, lines[i+1], strings.Repeat(" ", gap)+row[column])
	}
	return strings.Join(both, "\n")
}

func snip(cell string, width int) string { return text.Snip(cell, width, "…") }

// snipMiddle shortens an id: many differ only at their end.
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

// terminalWidth returns the number of columns of w if it is a terminal.
func terminalWidth(w io.Writer) (width int, isTerminal bool) {
	if s, ok := w.(interface{ width() int }); ok {
		return s.width(), true
	}
	file, ok := fileOf(w)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return 0, false
	}
	width, _, err := term.GetSize(int(file.Fd()))
	return width, err == nil && width > 0
}

func sum(widths []int) int {
	total := 0
	for _, w := range widths {
		total += w
	}
	return total
}

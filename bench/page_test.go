package bench

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/internal/test/report"
)

// The page of all rows beside their targets, which is for developers, and its plot.
const (
	targetsFile = "targets.md"
	plotFile    = "targets.svg"
)

// usersPage is the page for users. It shows the rows beside alternatives.
var usersPage = filepath.Join(report.Docs(1), "performance.md")

// alternatives are the baselines that do the work without hookonce. The others are hookonce under another load.
var alternatives = []string{
	"bare handler", "per request", "per request on SQLite", "FastAPI", "net/http client", "River in the transaction", "River after it", "DBOS in the transaction", "by hand",
}

// writePages writes the results into both pages. Without whole, some rows were left out by -run: their lines stay, if
// the pages were measured on this machine.
func writePages(t testing.TB, results []result, whole bool) {
	t.Helper()
	lines := linesOf(results)
	if !whole {
		var err error
		if lines, err = mergeLines(report.Read(t, targetsFile, "figures", "bench"), report.Machine(), lines); err != nil {
			t.Fatal(err)
		}
	}
	report.Write(t, targetsFile, "figures", "bench", figuresText(report.Machine(), lines))
	report.Write(t, usersPage, "alternatives", "bench", alternativesText(lines))
	if err := os.WriteFile(plotFile, plot(lines), 0o644); err != nil {
		t.Fatal(err)
	}
}

// alternativesText returns the table of the page for users.
func alternativesText(lines []line) string {
	var b strings.Builder
	b.WriteString("| comparison | hookonce | alternative | hookonce ÷ alternative |\n|---|---|---|---|\n")
	for i := range lines {
		l := &lines[i]
		if baseline, _, _ := strings.Cut(l.against, ": "); slices.Contains(alternatives, baseline) {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", l.what, l.subjects, l.against, l.measured)
		}
	}
	return b.String()
}

// figuresText returns the text between the marks.
func figuresText(on string, lines []line) string {
	var b strings.Builder
	fmt.Fprintf(&b, "On %s.\nLoad and server run on the same machine, bodies have 1.2 kB, every commit is on the disk.\n\n", on)
	fmt.Fprintf(&b, "![Each figure beside its target](%s)\n\n%s", plotFile, tableHead)
	for i := range lines {
		b.WriteString(lines[i].String())
	}
	return b.String()
}

// line is one line of the table: a row and its figures, as text.
type line struct {
	what, measured, wanted, mark, subjects, against string
}

const tableHead = "| comparison | measured | target | | hookonce | baseline |\n|---|---|---|---|---|---|\n"

func (l *line) String() string {
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s |\n", l.what, l.measured, l.wanted, l.mark, l.subjects, l.against)
}

// share returns the share of the target that was reached.
func (l *line) share() float64 {
	measured, _ := strconv.ParseFloat(l.measured, 64)
	bound, rest, _ := strings.Cut(l.wanted, " ")
	number, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(rest, "least "), "most "), " ")
	want, _ := strconv.ParseFloat(number, 64)
	if bound == "at" && strings.HasPrefix(rest, "most ") {
		return want / measured
	}
	return measured / want
}

func linesOf(results []result) []line {
	var lines []line
	for i := range results {
		r := &results[i]
		l := line{what: r.what, measured: fmt.Sprintf("%.2f", r.value()), wanted: r.wanted(), mark: "reached", subjects: r.subjects.text(r.unit)}
		if !r.reached() {
			l.mark = "**not reached**"
		}
		if r.against != nil {
			l.against = r.baseline + ": " + r.against.text(r.unit)
		}
		lines = append(lines, l)
	}
	return lines
}

// readLines returns the lines of a table that figuresText wrote.
func readLines(figures string) []line {
	_, table, _ := strings.Cut(figures, tableHead)
	var lines []line
	for text := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(text, "|\n"), "|")
		if len(cells) != 6 {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		lines = append(lines, line{cells[0], cells[1], cells[2], cells[3], cells[4], cells[5]})
	}
	return lines
}

// mergeLines replaces the lines of old figures that were measured again, and adds new ones at the end.
func mergeLines(old, on string, measured []line) ([]line, error) {
	if !strings.Contains(old, on) {
		return nil, fmt.Errorf("the figures of %s are of another machine; measure all rows: make bench", targetsFile)
	}
	lines := readLines(old)
	for _, m := range measured {
		if i := slices.IndexFunc(lines, func(l line) bool { return l.what == m.what }); i >= 0 {
			lines[i] = m
			continue
		}
		lines = append(lines, m)
	}
	return lines, nil
}

// text returns the median and the range of the measurements.
func (f figures) text(unit string) string {
	digits := 0
	if f.median() < 100 {
		digits = 2
	}
	if len(f) == 1 {
		return fmt.Sprintf("%.*f %s", digits, f[0], unit)
	}
	return fmt.Sprintf("%.*f %s (%.*f to %.*f)", digits, f.median(), unit, digits, f[0], digits, f[len(f)-1])
}

// Sizes of the plot, in pixels.
const (
	plotWidth  = 860
	labelWidth = 470
	barHeight  = 16
	rowHeight  = 24
)

// plot draws a bar for each row: the share of its target that was reached, on a scale of doublings,
// so that half and twice are equally far from the line.
func plot(lines []line) []byte {
	var b bytes.Buffer
	height := rowHeight*len(lines) + 40
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="11">`+"\n", plotWidth, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", plotWidth, height)
	middle := labelWidth + (plotWidth-labelWidth)/2
	for i := range lines {
		l := &lines[i]
		length := int(math.Log2(min(max(l.share(), 1.0/8), 8)) / 3 * float64(plotWidth-labelWidth-90) / 2)
		y := 10 + i*rowHeight
		colour, x, width := "#1a7f4b", middle, length
		if length < 0 {
			colour, x, width = "#b3541e", middle+length, -length
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end" fill="#222222">%s</text>`+"\n", labelWidth-8, y+barHeight-4, html.EscapeString(shorten(l.what, 74)))
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s"/>`+"\n", x, y, max(width, 1), barHeight, colour)
		anchor, at := "start", x+width+4
		if length < 0 {
			anchor, at = "end", x-4
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="%s" fill="#222222">%s</text>`+"\n", at, y+barHeight-4, anchor, l.measured)
	}
	bottom := height - 26
	fmt.Fprintf(&b, `<line x1="%d" y1="4" x2="%[1]d" y2="%d" stroke="#222222"/>`+"\n", middle, bottom)
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle" fill="#222222">the line is the target; right is better, left is worse</text>`+"\n</svg>\n", middle, height-10)
	return b.Bytes()
}

func shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return text[:most-1] + "…"
}

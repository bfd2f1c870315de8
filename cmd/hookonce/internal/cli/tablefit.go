package cli

import (
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
)

// narrowing is a step to make a table narrower: the column gets this width, or one of the values below.
type narrowing struct {
	column string
	to     int
}

const (
	out   = 0  // the column is left out
	below = -1 // each of its cells stands below the row, on a line with the others
	brief = -2 // its heading is short, and its times have no year if they are recent
	whole = -3 // as below, and complete: on as many lines as it needs
)

// shortHeadings are the headings of brief columns.
var shortHeadings = map[string]string{"ATTEMPTS": "ATT", "DUPLICATES": "DUP"}

// ids are the columns with ids to copy.
var ids = []string{"EVENT ID", "MESSAGE", "ID"}

// endsDiffer are the columns with cells that are shortened in the middle: many differ only at their end.
var endsDiffer = []string{"EVENT ID", "TYPE", "MESSAGE", "REQUEST", "GATEWAY"}

// recent is the greatest age of a time that is shown without its year.
const recent = 180 * 24 * time.Hour

// fit reduces widths until a row has at most width columns, and returns the columns that it left out.
// Columns that are not in a row get the width out or below.
func (t *columns) fit(widths []int, width int) (left []string) {
	names := slices.Clone(t.heading)
	total, complete := sum(widths)+gap*(len(widths)-1), slices.Clone(widths)
	for _, step := range t.narrow {
		if total <= width {
			break
		}
		i := slices.Index(names, step.column)
		switch {
		case i < 0: // it has no value
		case step.to == brief:
			t.shorten(i)
			complete[i] = t.widths()[i]
			total -= widths[i] - complete[i]
			widths[i] = complete[i]
		case widths[i] <= max(step.to, 0): // narrow, or not in the row
		case step.to <= 0:
			total -= widths[i] + gap
			widths[i] = step.to
			if step.to == out {
				left = append(left, step.column)
			}
		default:
			less := min(widths[i]-step.to, total-width)
			total -= less
			widths[i] -= less
		}
	}
	for _, step := range slices.Backward(t.narrow) { // gives the rest back, to the most important first
		i := slices.Index(names, step.column)
		if i < 0 {
			continue
		}
		if more := min(complete[i]-widths[i], width-total); widths[i] > 0 && more > 0 {
			total += more
			widths[i] += more
		}
	}
	return left
}

// shorten gives a column its short heading, and its times no year if all are recent.
func (t *columns) shorten(column int) {
	if short := shortHeadings[t.heading[column]]; short != "" {
		t.heading[column] = short
	}
	for _, row := range t.rows {
		if at, err := time.Parse(momentForm, row[column]); row[column] != "-" && (err != nil || time.Since(at).Abs() > recent) {
			return
		}
	}
	for _, row := range t.rows {
		_, monthOn, _ := strings.Cut(row[column], "-")
		row[column] = orDash(monthOn)
	}
}

// addBelow adds the cells that stand below their rows, on a terminal with so many columns. Such a table
// has one line for each row.
func (t *columns) addBelow(rendered string, widths []int, columns int) string {
	if !slices.Contains(widths, below) && !slices.Contains(widths, whole) {
		return rendered
	}
	lines := strings.Split(rendered, "\n")
	both := lines[:1:1] // the heading
	for i, row := range t.rows {
		both = append(append(both, lines[i+1]), t.belowRow(row, widths, columns)...)
	}
	return strings.Join(both, "\n")
}

// belowRow returns the lines below a row. Ids in them are complete, and texts of whole columns. A cell begins
// another line if little room is left.
func (t *columns) belowRow(row []string, widths []int, columns int) (lines []string) {
	const little = 24
	indent := strings.Repeat(" ", gap)
	for i, cell := range row {
		if widths[i] != below && widths[i] != whole || cell == "-" || cell == "" {
			continue
		}
		if widths[i] == whole {
			for line := range strings.SplitSeq(wrapWords(cell, columns-gap), "\n") {
				lines = append(lines, indent+line)
			}
			continue
		}
		last, room := len(lines)-1, columns-gap
		if last >= 0 {
			room -= text.StringWidthWithoutEscSequences(lines[last])
		}
		switch {
		case last >= 0 && (room >= little || text.StringWidthWithoutEscSequences(cell) <= room):
			lines[last] += indent + t.snipBelow(cell, room)
		case slices.Contains(ids, t.heading[i]):
			lines = append(lines, indent+cell)
		default:
			lines = append(lines, indent+t.snipBelow(cell, columns-gap))
		}
	}
	return lines
}

func (t *columns) snipBelow(cell string, width int) string {
	short := snip(cell, width)
	t.cut = t.cut || short != cell
	return short
}

// outdentLinks moves links that reach over the end of the terminal to the left, to a line of their own.
func outdentLinks(rendered string, columns int) string {
	lines := strings.Split(rendered, "\n")
	for i, line := range lines {
		at := linked.FindStringIndex(line)
		if at == nil || columns == 0 || text.StringWidthWithoutEscSequences(line) <= columns {
			continue
		}
		before, link := strings.TrimRight(line[:at[0]], " "), line[at[0]:]
		link = strings.Repeat(" ", max(gap, columns-text.StringWidthWithoutEscSequences(link))) + link
		if before != "" {
			link = before + "\n" + link
		}
		lines[i] = link
	}
	return strings.Join(lines, "\n")
}

func sum(widths []int) int {
	total := 0
	for _, w := range widths {
		total += w
	}
	return total
}

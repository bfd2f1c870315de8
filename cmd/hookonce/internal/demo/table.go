package demo

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/hookonce/hookonce/internal/say"
)

// layout holds the widths of the table's columns.
type layout struct{ label, sent, cell int }

var (
	wide   = layout{label: 26, sent: 12, cell: 18} // 80 columns
	narrow = layout{label: 24, sent: 0, cell: 15}  // 60 columns, without the column of sent things
)

// marks of a number that is promised.
const (
	right = "✓"
	wrong = "✗"
)

// table returns the result.
func table(p *plan, ours, naive *tally, columns layout, colors bool) string {
	w := &tableWriter{layout: columns, colors: colors}
	w.row("", "sent", cell{text: "hookonce"}, cell{text: "check, then act"})
	w.row("events", say.Number(len(p.events)), w.promised(ours.events, len(p.events)), plain(naive.events))
	w.row("deliveries", "", plain(ours.deliveries), plain(naive.deliveries))
	w.row("duplicates absorbed", "", plain(ours.duplicates), plain(naive.duplicates))
	w.row("forgeries refused", say.Number(p.forged), w.promised(ours.refused, p.forged), w.promised(naive.refused, p.forged))
	w.row("killed with -9", "", plain(ours.kills), plain(naive.kills))
	w.row("dead letters, replayed", "", plain(ours.dead), cell{text: "–"})
	w.row("stale, skipped", "", plain(ours.stale), plain(naive.stale))
	w.row("sent twice, same key", "", plain(ours.repeated), cell{text: "–"})
	w.row("effects in the ledger", "", plain(ours.effects), plain(naive.effects))
	w.WriteString("\n")
	w.row("lost", "", w.promised(ours.lost, 0), w.promised(naive.lost, 0))
	w.row("done twice", "", w.promised(ours.twice, 0), w.promised(naive.twice, 0))
	w.row("new overwritten by old", "", w.promised(ours.overwritten, 0), w.promised(naive.overwritten, 0))
	w.row("booked, EUR", euros(p.money()), w.money(ours.cents, p.money()), w.money(naive.cents, p.money()))
	return w.String()
}

// moral tells the faults of the other receiver in words.
func moral(p *plan, naive *tally) string {
	text := fmt.Sprintf("Check, then act: %s events done twice or more", say.Number(naive.twice))
	if more := naive.cents - p.money(); more > 0 {
		text += fmt.Sprintf(", and %s EUR too much", euros(more))
	}
	return text + "."
}

// cell is a number of the table, with its mark if it is promised.
type cell struct{ text, mark string }

type tableWriter struct {
	strings.Builder
	layout
	colors bool
}

func (w *tableWriter) row(label, sent string, cells ...cell) {
	line := "  " + label + strings.Repeat(" ", w.label-utf8.RuneCountInString(label))
	if w.sent > 0 {
		line += left(sent, w.sent)
	}
	for _, c := range cells {
		line += left(c.text, w.cell) + " " + w.colored(c.mark)
		if c.mark == "" {
			line += " "
		}
	}
	w.WriteString(strings.TrimRight(line, " ") + "\n")
}

// colored returns a mark in its color.
func (w *tableWriter) colored(mark string) string {
	if !w.colors || mark == "" {
		return mark
	}
	color := map[string]string{right: "\x1b[32m", wrong: "\x1b[31m"}[mark]
	return color + mark + "\x1b[0m"
}

func plain(n int) cell { return cell{text: say.Number(n)} }

func (w *tableWriter) promised(n, want int) cell {
	if n == want {
		return cell{say.Number(n), right}
	}
	return cell{say.Number(n), wrong}
}

func (w *tableWriter) money(cents, want int64) cell {
	if cents == want {
		return cell{euros(cents), right}
	}
	return cell{euros(cents), wrong}
}

// left pads text on the left.
func left(text string, width int) string {
	return strings.Repeat(" ", max(width-utf8.RuneCountInString(text), 0)) + text
}

// euros formats an amount that is not negative.
func euros(cents int64) string { return fmt.Sprintf("%s.%02d", say.Number(cents/100), cents%100) }

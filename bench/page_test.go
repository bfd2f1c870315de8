package bench

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/internal/test/report"
)

const (
	pageFile = "performance.md"
	plotFile = "performance.svg"
)

// writePage writes the results into the documentation.
func writePage(t testing.TB, results []result) {
	t.Helper()
	report.Write(t, filepath.Join(report.Docs(1), pageFile), "figures", "bench", figuresText(results))
	if err := os.WriteFile(filepath.Join(report.Docs(1), plotFile), plot(results), 0o644); err != nil {
		t.Fatal(err)
	}
}

// figuresText returns the text between the marks.
func figuresText(results []result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "On %s.\nLoad and server run on the same machine, bodies have 1.2 kB, every commit is on the disk.\n\n", report.Machine())
	fmt.Fprintf(&b, "![Each figure beside its target](%s)\n\n", plotFile)
	b.WriteString("| comparison | measured | target | | hookonce | baseline |\n|---|---|---|---|---|---|\n")
	for i := range results {
		r := &results[i]
		mark := "reached"
		if !r.reached() {
			mark = "**not reached**"
		}
		against := ""
		if r.against != nil {
			against = r.baseline + ": " + r.against.text(r.unit)
		}
		fmt.Fprintf(&b, "| %s | %.2f | %s | %s | %s | %s |\n", r.what, r.value(), r.wanted(), mark, r.subjects.text(r.unit), against)
	}
	return b.String()
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
func plot(results []result) []byte {
	var b bytes.Buffer
	height := rowHeight*len(results) + 40
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="11">`+"\n", plotWidth, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", plotWidth, height)
	middle := labelWidth + (plotWidth-labelWidth)/2
	for i := range results {
		r := &results[i]
		share := r.value() / r.want
		if r.atMost {
			share = r.want / r.value()
		}
		length := int(math.Log2(min(max(share, 1.0/8), 8)) / 3 * float64(plotWidth-labelWidth-90) / 2)
		y := 10 + i*rowHeight
		colour, x, width := "#1a7f4b", middle, length
		if length < 0 {
			colour, x, width = "#b3541e", middle+length, -length
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end" fill="#222222">%s</text>`+"\n", labelWidth-8, y+barHeight-4, html.EscapeString(shorten(r.what, 84)))
		fmt.Fprintf(&b, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s"/>`+"\n", x, y, max(width, 1), barHeight, colour)
		anchor, at := "start", x+width+4
		if length < 0 {
			anchor, at = "end", x-4
		}
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="%s" fill="#222222">%.2f</text>`+"\n", at, y+barHeight-4, anchor, r.value())
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

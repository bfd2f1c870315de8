package hookadmin

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/say"
)

// deliveryRow is a delivery of an event.
type deliveryRow struct {
	At       moment
	After    string // time since the first delivery
	Remote   text
	Gateway  text
	SameBody bool
}

// otherBody is the first delivery of an event with another body, beside the body of the event.
type otherBody struct {
	At      moment
	Size    string
	SHA256  string
	Cut     bool       // only the beginning is kept
	Lines   []diffLine // nil if the bodies cannot be compared line by line
	Headers []headerRow
	Body    *bodyView // the other body, if Lines is nil
}

// diffLine is a line of a comparison. Sign is "+" for a line of the other body alone, "−" for one of
// the event alone, " " for both, and "…" for left-out lines of both.
type diffLine struct{ Sign, Kind, Text string }

func deliveryRows(recent []driver.Delivery, first, now time.Time) []deliveryRow {
	rows := make([]deliveryRow, 0, len(recent))
	for i := range recent {
		d := &recent[i]
		rows = append(rows, deliveryRow{moment{d.At, now}, "+" + say.Brief(d.At.Sub(first)), newText(d.Remote, 60), newText(d.Gateway, 60), d.SameBody})
	}
	return rows
}

func newOtherBody(found *driver.EventDetail, now time.Time) *otherBody {
	o := found.OtherBody
	if o == nil {
		return nil
	}
	byName, _ := headers(o.Headers) // unreadable ones are left out
	out := &otherBody{
		At: moment{o.At, now}, Size: sizeInWords(o.Size), SHA256: hex.EncodeToString(o.SHA256[:]), Cut: o.Size > int64(len(o.Body)), Headers: headerRows(byName),
	}
	if out.Lines = compareBodies(found.Body, o.Body); out.Lines == nil {
		out.Body = newSample(o.Body, o.Size)
	}
	return out
}

// Bounds of a comparison: of one body in bytes, and of the lines between the common beginning and the
// common end.
const (
	maxDiffBody  = 128 << 10
	maxDiffLines = 600
	diffContext  = 3
)

// compareBodies compares two bodies line by line, JSON by its values; nil if they are not text, or too
// long or too different for that.
func compareBodies(first, other []byte) []diffLine {
	if len(first) > maxDiffBody || len(other) > maxDiffBody || !utf8.Valid(first) || !utf8.Valid(other) {
		return nil
	}
	a, b := linesOf(first), linesOf(other)
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	middleA, middleB := a[head:len(a)-tail], b[head:len(b)-tail]
	if len(middleA) > maxDiffLines || len(middleB) > maxDiffLines {
		return nil
	}
	lines := sameLines(a[:head])
	lines = append(lines, diffOf(middleA, middleB)...)
	return foldSame(append(lines, sameLines(a[len(a)-tail:])...))
}

// linesOf returns the lines of a body; those of JSON are indented.
func linesOf(raw []byte) []string {
	if _, err := parseTree(raw); err == nil {
		var out bytes.Buffer
		if json.Indent(&out, raw, "", "  ") == nil {
			raw = out.Bytes()
		}
	}
	return strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
}

func sameLines(lines []string) []diffLine {
	var out []diffLine
	for _, line := range lines {
		out = append(out, diffLine{" ", "same", visibleLines(line)})
	}
	return out
}

// diffOf returns the shortest list of changes from a to b.
func diffOf(a, b []string) []diffLine {
	// common[i][j] is the length of the longest common part of a[i:] and b[j:].
	common := make([][]int, len(a)+1)
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out []diffLine
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, diffLine{" ", "same", visibleLines(a[i])})
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			out = append(out, diffLine{"−", "gone", visibleLines(a[i])})
			i++
		default:
			out = append(out, diffLine{"+", "new", visibleLines(b[j])})
			j++
		}
	}
	return out
}

// foldSame leaves out equal lines that are far from a change.
func foldSame(lines []diffLine) []diffLine {
	near := make([]bool, len(lines))
	for i := range lines {
		if lines[i].Kind == "same" {
			continue
		}
		for k := max(0, i-diffContext); k <= min(len(lines)-1, i+diffContext); k++ {
			near[k] = true
		}
	}
	var out []diffLine
	for i := range lines {
		switch {
		case near[i]:
			out = append(out, lines[i])
		case i == 0 || near[i-1]:
			out = append(out, diffLine{"…", "left", ""})
		}
	}
	return out
}

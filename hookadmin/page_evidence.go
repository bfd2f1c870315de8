package hookadmin

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// otherBody is the first delivery of an event with another body, beside the body of the event.
type otherBody struct {
	*OtherBody
	Cut   bool       // only the beginning is kept
	Lines []diffLine // nil if the bodies cannot be compared line by line
	View  *bodyView  // the other body, if Lines is nil
}

// diffLine is a line of a comparison. Sign is "+" for a line of the other body alone, "−" for one of
// the event alone, " " for both, and "…" for left-out lines of both.
type diffLine struct{ Sign, Kind, Text string }

func newOtherBody(d *EventDetail) *otherBody {
	o := d.OtherBody
	if o == nil {
		return nil
	}
	other := bytesOf(o.Body, o.BodyBase64)
	out := &otherBody{OtherBody: o, Cut: o.BodySize > int64(len(other))}
	if out.Lines = compareBodies(bytesOf(d.Body, d.BodyBase64), other); out.Lines == nil {
		out.View = newSample(other, o.BodySize)
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
		doc := unmarked(raw)
		out := bytes.NewBuffer(raw[: len(raw)-len(doc) : len(raw)-len(doc)]) // the mark stays visible
		if json.Indent(out, doc, "", "  ") == nil {
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

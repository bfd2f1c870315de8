package locate

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Path is a path into a JSON document. The zero value is the document itself.
type Path struct {
	text string
	segs []segment
	rest *Path // the path inside each element of the array at segs; nil without "[]"
}

// segment is one step: into an object by key, or into an array by index.
type segment struct {
	key   string
	index int // -1 if key is not an array index
}

// String returns the text that ParsePath got.
func (p Path) String() string { return p.text }

// ParsePath parses a path: segments separated by '.'. A segment of decimal digits is also an array
// index. "" is the document itself. "[]" after a segment, or as one, goes into every element of the
// array there.
func ParsePath(s string) (Path, error) {
	p := Path{text: s}
	if s == "" {
		return p, nil
	}
	at, arrays := &p, 0
	for i, piece := range splitUnescaped(s, '.') {
		piece, each := cutSuffix(piece, "[]")
		key, err := unescape(piece)
		if err != nil {
			return Path{}, err
		}
		switch _, twice := cutSuffix(piece, "[]"); {
		case twice:
			return Path{}, errors.New(`for an array in an array, write the "[]" as a segment: a[].[]`)
		case key == "" && !each:
			return Path{}, fmt.Errorf("segment %d of the path is empty", i+1)
		case key != "":
			at.segs = append(at.segs, segment{key: key, index: arrayIndex(key)})
		}
		if len(at.segs) > maxSegments {
			return Path{}, fmt.Errorf("the path has more than %d segments", maxSegments)
		}
		if !each {
			continue
		}
		if arrays++; arrays > maxArrays {
			return Path{}, fmt.Errorf("the path goes into more than %d arrays", maxArrays)
		}
		at.rest = &Path{text: s}
		at = at.rest
	}
	return p, nil
}

// arrayIndex returns the index that s spells, or -1. Only the plain decimal form counts, so that
// each element has one name.
func arrayIndex(s string) int {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil || strconv.FormatUint(n, 10) != s {
		return -1
	}
	return int(n)
}

// splitUnescaped splits s at every sep without a backslash before it. The backslashes stay.
func splitUnescaped(s string, sep byte) []string {
	var pieces []string
	start := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case sep:
			pieces = append(pieces, s[start:i])
			start = i + 1
		}
	}
	return append(pieces, s[start:])
}

// cutSuffix is strings.CutSuffix, but ignores an escaped suffix.
func cutSuffix(s, suffix string) (before string, found bool) {
	before, found = strings.CutSuffix(s, suffix)
	backslashes := len(before) - len(strings.TrimRight(before, `\`))
	if !found || backslashes%2 == 1 {
		return s, false
	}
	return before, true
}

func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' {
			i++
			if i == len(s) || !strings.ContainsRune(`.+|?[\`, rune(s[i])) {
				return "", errors.New(`a '\' must be followed by '.', '+', '|', '?', '[' or '\'`)
			}
		}
		b.WriteByte(s[i])
	}
	return b.String(), nil
}

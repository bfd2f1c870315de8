package hookadmin

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/internal/shown"
)

// maxMarks is the number of combining marks that one character may carry on a page. More of them
// would cover other lines.
const maxMarks = 4

// visible returns s, a text from outside, with every character that a browser would not show, or
// would use to rearrange the text, replaced by a name for it: U+0000 by ␀, U+202E by ⟨U+202E⟩, and
// a byte that is not UTF-8 by ⟨FF⟩.
func visible(s string) string { return makeVisible(s, false) }

// visibleLines is visible for a text of several lines: line feeds and tabs stay.
func visibleLines(s string) string { return makeVisible(s, true) }

func makeVisible(s string, lines bool) string {
	var out strings.Builder
	marks := 0
	for i, c := range s {
		if unicode.Is(unicode.M, c) {
			marks++
		} else {
			marks = 0
		}
		switch {
		case lines && (c == '\n' || c == '\t'):
			out.WriteRune(c)
		case c < ' ':
			out.WriteRune('\u2400' + c)
		case c == 0x7f:
			out.WriteRune('\u2421')
		case c == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"):
			fmt.Fprintf(&out, "⟨%02X⟩", s[i])
		case marks > maxMarks, shown.Hidden(c):
			fmt.Fprintf(&out, "⟨U+%04X⟩", c)
		default:
			out.WriteRune(c)
		}
	}
	return out.String()
}

// text is a text from outside on a page. The template "text" shows it.
type text struct {
	Short string // at most the given number of characters
	Full  string
}

// Cut reports whether Short lacks a part.
func (t text) Cut() bool { return t.Short != t.Full }

// newText returns s for a place that has room for so many characters.
func newText(s string, room int) text {
	full := visible(s)
	return text{say.Short(full, room), full}
}

// newID returns an id for a place that has room for 28 characters. The middle of a longer one is left
// out, because ids of one sender often begin alike.
func newID(s string) text {
	const head, tail = 16, 11
	full := []rune(visible(s))
	if len(full) <= head+1+tail {
		return text{string(full), string(full)}
	}
	return text{string(full[:head]) + "…" + string(full[len(full)-tail:]), string(full)}
}

// sizeInWords returns a number of bytes: "1,234 bytes", "1.2 MiB".
func sizeInWords(n int64) string {
	switch {
	case n < 10<<10:
		return say.Count(n, "byte")
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

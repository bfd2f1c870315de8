package cli

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hookonce/hookonce/internal/shown"
)

// printable returns s with Go escapes for everything that could control a terminal: control
// characters, bidirectional overrides and other invisible characters, line separators, and bytes
// that are not UTF-8. Senders choose event ids and types; they must not control an operator's
// screen.
func printable(s string) string {
	if strings.IndexFunc(s, shown.Unprintable) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case shown.Unprintable(r):
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteRune(r)
		}
		s = s[size:]
	}
	return b.String()
}

// printableLines is printable for text with several lines: line feeds and tabs stay.
func printableLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		cells := strings.Split(line, "\t")
		for j, cell := range cells {
			cells[j] = printable(cell)
		}
		lines[i] = strings.Join(cells, "\t")
	}
	return strings.Join(lines, "\n")
}

// escaped returns raw, which is not text throughout, with escapes; or the number of its bytes if more
// than one character in ten needs an escape. name begins the sentence that says so.
func escaped(name string, raw []byte) string {
	characters, escapes := 0, 0
	for rest := raw; len(rest) > 0; characters++ {
		r, size := utf8.DecodeRune(rest)
		if r == utf8.RuneError && size == 1 || shown.Unprintable(r) && !strings.ContainsRune("\n\r\t", r) {
			escapes++
		}
		rest = rest[size:]
	}
	if escapes*10 > characters {
		return fmt.Sprintf("%s has %d bytes that are not text: --json prints them in base64.", name, len(raw))
	}
	return strings.TrimSuffix(printableLines(string(raw)), "\n") + fmt.Sprintf("\n(%s has %s; --json prints its bytes in base64.)", name, counted(escapes, "escaped character"))
}

// word quotes s as one word for a shell, for commands that are shown for pasting: an event id must
// not change the command.
func word(s string) string { return shown.Word(s) }

package cli

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/internal/shown"
)

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
	return strings.TrimSuffix(shown.EscapeLines(string(raw)), "\n") + fmt.Sprintf("\n(%s has %s; --json prints its bytes in base64.)", name, say.Count(escapes, "escaped character"))
}

// word quotes s as one word for a shell, for commands that are shown for pasting: an event id must
// not change the command.
func word(s string) string { return shown.Word(s) }

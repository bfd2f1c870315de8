package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/hookadmin"
)

// printable returns s with Go escapes for everything that could control a terminal: control
// characters, bidirectional overrides and other invisible characters, line separators, and bytes
// that are not UTF-8. Senders choose event ids and types; they must not control an operator's
// screen.
func printable(s string) string {
	if strings.IndexFunc(s, notPrintable) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case notPrintable(r):
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		default:
			b.WriteRune(r)
		}
		s = s[size:]
	}
	return b.String()
}

func notPrintable(r rune) bool { return !unicode.IsPrint(r) }

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

// plainWord matches words that a shell takes literally.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%+=,-]+$`)

// word quotes s as one word for a shell, for commands that are shown for pasting: an event id must
// not change the command.
func word(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// writeJSON prints v the way the API encodes it, indented.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// moment formats a time for people: in UTC, to the second; "-" for the zero time.
func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// at is moment for a time of the API.
func at(t hookadmin.Time) string { return moment(time.Time(t)) }

// orDash returns s, or "-" if s is empty.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// counted returns "1 event", "2 events".
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func addJSONFlag(cmd *cobra.Command, asJSON *bool) {
	cmd.Flags().BoolVar(asJSON, "json", false, "print JSON, in the shape of the API")
}

// widest is the widest cell of a listing, in columns, where no terminal sets a width.
const widest = 60

// remark returns the note, or else the error, for a table cell; "-" for none.
func remark(note, lastError string) string { return orDash(cmp.Or(note, lastError)) }

func status(code *int) string {
	if code == nil {
		return "-"
	}
	return strconv.Itoa(*code)
}

package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/app"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/shown"
)

// output is stdout. It keeps the first error, so that a full disk ends no command with 0.
type output struct {
	io.Writer
	mu  sync.Mutex
	err error
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.Writer.Write(p)
	if err != nil && o.err == nil {
		o.err = err
	}
	return n, err
}

// failure returns err, or the error of the output if a command ended with that or with none.
func (o *output) failure(err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil || err != nil && !errors.Is(err, o.err) {
		return err
	}
	cause := o.err
	if wrapped, is := errors.AsType[*fs.PathError](cause); is {
		cause = wrapped.Err
	}
	return &app.Error{
		Err:    fmt.Errorf("writing the output: %w", cause),
		Remedy: "make room for the output, and look before you run it again: a change that it made stays",
	}
}

// fileOf returns the file that w writes to, if it is one.
func fileOf(w io.Writer) (*os.File, bool) {
	if o, is := w.(*output); is {
		w = o.Writer
	}
	file, is := w.(*os.File)
	return file, is
}

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

// writeJSON prints v the way the API encodes it, indented.
func writeJSON(w io.Writer, v any) error {
	enc := shown.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// duration formats a duration for people: in milliseconds, and from one second on in seconds.
func duration(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case ms < 0.095:
		return fmt.Sprintf("%.2f ms", ms)
	case ms < 9.95:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < 999.5:
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// seconds is duration for a number of seconds.
func seconds(s float64) string { return duration(time.Duration(s * float64(time.Second))) }

// momentForm is the form of a time for people.
const momentForm = "2006-01-02 15:04:05Z"

// moment formats a time for people: in UTC, to the second; "-" for the zero time.
func moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(momentForm)
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

// remark returns the note, or else the error, for a table cell; "-" for none.
func remark(note, lastError string) string { return orDash(cmp.Or(note, lastError)) }

func status(code *int) string {
	if code == nil {
		return "-"
	}
	return strconv.Itoa(*code)
}

package cli

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
)

// No value of a sender breaks a line of the text log, or controls the terminal.
func TestTextLogIsHarmless(t *testing.T) {
	t.Parallel()
	const hostile = "\x1b]0;owned\a\x1b[2Jevil\r\nlevel=ERROR \u009b31m\u202efake\u2028"
	var out bytes.Buffer
	p := &program{stderr: &out}
	log, err := p.newLogger(&cobra.Command{}, &logFlags{level: "info", format: logText})
	if err != nil {
		t.Fatal(err)
	}
	log.With("bound", hostile).WithGroup("g").Warn(hostile,
		"text", hostile, "error", errors.New(hostile), "bytes", []byte(hostile), "list", []string{hostile})
	line, rest, _ := strings.Cut(out.String(), "\n")
	if rest != "" || strings.Count(line, "evil") != 6 {
		t.Errorf("the log is not one line with every value: %q", out.String())
	}
	if i := strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
		t.Errorf("not printable at byte %d: %q", i, line)
	}
}

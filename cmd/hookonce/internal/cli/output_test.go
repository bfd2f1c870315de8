package cli

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/probe"
)

// A few bytes that are not text hide nothing of the others.
func TestEscaped(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"no such \x07customer\n\tat \x1b[31mledger\n": "no such \\acustomer\n\tat \\x1b[31mledger\n" +
			"(It has 2 escaped characters; --json prints its bytes in base64.)",
		"caf\xe9, and more":       "caf\\xe9, and more\n(It has 1 escaped character; --json prints its bytes in base64.)",
		"one\x0045678":            "It has 9 bytes that are not text: --json prints them in base64.",
		"\xff\xfe":                "It has 2 bytes that are not text: --json prints them in base64.",
		"\ufffd 345678\x00\u202e": "It has 14 bytes that are not text: --json prints them in base64.",
	} {
		if got := escaped("It", []byte(in)); got != want {
			t.Errorf("escaped(%q) is %q, want %q", in, got, want)
		}
	}
}

func TestWord(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"evt_1":         "evt_1",
		"a/b:c.d@e%2F":  "a/b:c.d@e%2F",
		"":              "''",
		"a b":           "'a b'",
		"$(reboot)":     "'$(reboot)'",
		"it's;ls":       `'it'\''s;ls'`,
		"ä":             "'ä'",
		"e\u202e\u200b": `'e'"$(printf '\342\200\256\342\200\213')"`,
	} {
		if got := word(in); got != want {
			t.Errorf("word(%q) = %s, want %s", in, got, want)
		}
	}
}

// TestHelpFitsATerminal keeps the help of every command within 80 columns.
func TestHelpFitsATerminal(t *testing.T) {
	t.Parallel()
	var check func(*cobra.Command)
	check = func(cmd *cobra.Command) {
		if cmd.Name() == "completion" { // cobra's own texts
			return
		}
		for line := range strings.Lines(cmp.Or(cmd.Long, cmd.Short) + "\n" + cmd.UsageString()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%s: %d columns: %s", cmd.CommandPath(), n, line)
			}
		}
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check(new(program).rootCommand())
}

// A receiver's text may hold characters that rearrange a screen.
func TestJUnitIsPrintable(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "probe.xml")
	r := &probe.Report{Checks: []probe.Result{{Name: "valid", Verdict: probe.Fail, Saw: "500 \u202edlo\u009b2J"}}, Failed: 1}
	if err := writeJUnit(file, r, false); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if want := `message="500 \u202edlo\u009b2J"`; err != nil || !strings.Contains(string(text), want) {
		t.Errorf("%v, %q does not hold %q", err, text, want)
	}
}

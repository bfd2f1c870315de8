package cli

import "testing"

func TestPrintable(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                   "",
		"evt_1:ä日本 ok":       "evt_1:ä日本 ok",
		`back\slash`:         `back\slash`,
		"\ufffd":             "\ufffd",
		"a\tb\nc\r":          `a\tb\nc\r`,
		"\x1b[31m":           `\x1b[31m`,
		"\x00\x7f\u0085":     `\x00\x7f\u0085`,
		"\xff\xc3":           `\xff\xc3`,
		"\u202e\u2066\u200f": `\u202e\u2066\u200f`,
		"\u200b\ufeff\u00ad": `\u200b\ufeff\u00ad`,
		"\u2028\u00a0":       `\u2028\u00a0`,
		"\U000e0041":         `\U000e0041`,
	} {
		if got := printable(in); got != want {
			t.Errorf("printable(%q) is %q, want %q", in, got, want)
		}
	}
	if got, want := printableLines("a\t\x1b\nb\r\n"), "a\t\\x1b\nb\\r\n"; got != want {
		t.Errorf("printableLines: %q, want %q", got, want)
	}
}

func TestWord(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"evt_1":        "evt_1",
		"a/b:c.d@e%2F": "a/b:c.d@e%2F",
		"":             "''",
		"a b":          "'a b'",
		"$(reboot)":    "'$(reboot)'",
		"it's;ls":      `'it'\''s;ls'`,
		"ä":            "'ä'",
	} {
		if got := word(in); got != want {
			t.Errorf("word(%q) = %s, want %s", in, got, want)
		}
	}
}

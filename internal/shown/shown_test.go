package shown_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/hookonce/hookonce/internal/shown"
)

// Every hidden character becomes an escape of JSON, and the value stays.
func TestJSON(t *testing.T) {
	t.Parallel()
	for c := rune(0); c <= unicode.MaxRune; c++ {
		hidden := unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
		if hidden && !shown.Hidden(c) {
			t.Errorf("%U is not hidden", c)
		}
		if !hidden && c%97 != 0 {
			continue
		}
		text := "a" + string(c) + "<é😀"
		raw, _ := json.Marshal(map[string]string{text: text})
		got := shown.JSON(raw)
		var back map[string]string
		if err := json.Unmarshal(got, &back); err != nil || len(back) != 1 || back[text] != text {
			t.Fatalf("%U: %v in %q", c, err, got)
		}
		for _, in := range string(got) {
			if shown.Hidden(in) {
				t.Errorf("%U is in %q", in, got)
			}
		}
	}
	if got, want := string(shown.JSON([]byte("{\n\t\"a\": \"\u202e\U000e0041\x7f\u00a0\u3164\"}\n"))), fmt.Sprintf("{\n\t\"a\": \"%s\u00a0%s\"}\n",
		`\u202e\udb40\udc41\u007f`, `\u3164`); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestEscape(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                   "",
		"evt_1:ä日本 ok":       "evt_1:ä日本 ok",
		`back\slash "q" <b>`: `back\slash "q" <b>`,
		"\ufffd":             "\ufffd",
		"a\tb\nc\r":          `a\tb\nc\r`,
		"\x1b[31m":           `\x1b[31m`,
		"\x00\x7f\u0085":     `\x00\x7f\u0085`,
		"\xff\xc3(":          `\xff\xc3(`,
		"\u202e\u2066\u200f": `\u202e\u2066\u200f`,
		"\u200b\ufeff\u00ad": `\u200b\ufeff\u00ad`,
		"\u2028\u00a0\u3164": `\u2028\u00a0\u3164`,
		"\U000e0041":         `\U000e0041`,
	} {
		if got := shown.Escape(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got, want := shown.EscapeLines("a\t\x1b\nb\r\n"), "a\t\\x1b\nb\\r\n"; got != want {
		t.Errorf("lines: %q, want %q", got, want)
	}
	for limit := range 9 {
		got := shown.EscapeStart("é\n日本", limit)
		if len(got) > limit || !utf8.ValidString(got) || !strings.HasPrefix(`é\n日本`, got) || strings.HasSuffix(got, `\`) {
			t.Errorf("limit %d: %q", limit, got)
		}
	}
}

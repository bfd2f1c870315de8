package shown_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"unicode"

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

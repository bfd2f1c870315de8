package config

import (
	"strings"
	"testing"
)

func TestPastedSecrets(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		secret string
		want   string // part of the only warning; "" for none
	}{
		"double quotes":         {`"whsec_0123456789abcdef"`, "quotes around"},
		"single quotes":         {`'0123456789abcdef'`, "quotes around"},
		"UTF-16 with its mark":  {"\xff\xfe0\x001\x002\x003\x004\x005\x006\x007\x00", "UTF-16"},
		"UTF-16 without a mark": {"0\x001\x002\x003\x004\x005\x006\x007\x008\x00", "UTF-16"},
		"a byte order mark":     {"\ufeff0123456789abcdef", "byte order mark"},
		"its variable":          {"HOOK_SECRET=0123456789abcdef", "name of a variable"},
		"an exported variable":  {"export SECRET=0123456789abcdef", "name of a variable"},
		"a zero-width space":    {"01234567\u200b89abcdef", "invisible"},
		"a no-break space":      {"01234567\u00a089abcdef", "invisible"},
		"typographic quotes":    {"\u201c0123456789abcdef\u201d", "typographic"},
		"a typographic dash":    {"01234567\u201389abcdef", "typographic"},
		"two lines":             {"0123456789abcdef\nfedcba9876543210", "line break"},
		"a space behind":        {"0123456789abcdef ", "space"},
		"a blank inside":        {"0123456789 abcdef", ""},
		"a quote inside":        {`01234567"89'abcdef`, ""},
		"one quote":             {`"0123456789abcdef`, ""},
		"letters beyond ASCII":  {"0123456789äöüßéλж漢", ""},
		"base64":                {"QUJDREVGR0hJSktMTU5PUA==", ""},
		"upper case and base64": {"ABCDEFGHIJKLMNOPQRSTUVWXYZA=", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			settings := "sources: {a: {provider: github, secrets: [\"${HOOK_SECRET}\"]}}\n"
			got, ok := Check(LoadOptions{Dir: dirWith(t, settings), Environ: environ("HOOK_SECRET=" + tt.secret)})
			if !ok || tt.want == "" && got != "" || tt.want != "" && (strings.Count(got, "\n") != 1 || !strings.Contains(got, tt.want)) {
				t.Errorf("got %v, %s\nwant %s", ok, got, tt.want)
			}
			if strings.Contains(got, "01234567") {
				t.Errorf("it shows the secret: %s", got)
			}
		})
	}
}

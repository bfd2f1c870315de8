package hookadmin

import (
	"fmt"
	"strings"
	"testing"
)

func TestCompareBodies(t *testing.T) {
	t.Parallel()
	show := func(lines []diffLine) string {
		var out []string
		for _, l := range lines {
			out = append(out, l.Sign+strings.TrimSpace(l.Text))
		}
		return strings.Join(out, "|")
	}
	tests := []struct{ name, a, b, want string }{
		{"JSON by values", `{"a":1,"b":2}`, "{\n \"a\" : 1,\n\"b\":3}", ` {| "a": 1,|−"b": 2|+"b": 3| }`},
		{"spaces alone", `{"a":1}`, `{ "a": 1 }`, `…`},
		{"exact numbers", `[1.0]`, `[1.00]`, ` [|−1.0|+1.00| ]`},
		{"text", "one\ntwo\nthree", "one\n2\nthree", ` one|−two|+2| three`},
		{"far lines", "1\n2\n3\n4\n5\n6\nx", "1\n2\n3\n4\n5\n6\ny", `…| 4| 5| 6|−x|+y`},
		{"control characters", "a\x1b", "a\u202e", `−a␛|+a⟨U+202E⟩`},
		{"nothing", "", "x", `−|+x`},
		{"bytes", "\xff", "x", ``},
		{"too long", strings.Repeat("x", maxDiffBody+1), "x", ``},
		{"deep", strings.Repeat("[", 20000) + strings.Repeat("]", 20000), "x", "−" + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + "|+x"},
	}
	for _, tt := range tests {
		if got := show(compareBodies([]byte(tt.a), []byte(tt.b))); got != tt.want {
			t.Errorf("%s: %.300q, want %.300q", tt.name, got, tt.want)
		}
	}
	var a, b strings.Builder
	for i := range maxDiffLines + 2 {
		fmt.Fprintf(&a, "a%d\n", i)
		fmt.Fprintf(&b, "b%d\n", i)
	}
	if got := compareBodies([]byte(a.String()), []byte(b.String())); got != nil {
		t.Errorf("%d changed lines are compared", len(got))
	}
}

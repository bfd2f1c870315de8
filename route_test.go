package hookonce

import (
	"strings"
	"testing"
)

func TestTypePattern(t *testing.T) {
	t.Parallel()
	tests := []struct {
		pattern, text string
		want          bool
	}{
		{"invoice.paid", "invoice.paid", true},
		{"invoice.paid", "invoice.paid2", false},
		{"invoice.*", "invoice.paid", true},
		{"invoice.*", "invoice.", true},
		{"invoice.*", "invoice", false},
		{"invoice.*", "x.invoice.paid", false},
		{"*.paid", "invoice.paid", true},
		{"*.paid", ".paid", true},
		{"*.paid", "paid", false},
		{"*", "", true},
		{"*", "anything", true},
		{"", "", true},
		{"", "x", false},
		{"a*a", "a", false},
		{"a*a", "aa", true},
		{"a*b*c", "a-b-c", true},
		{"a*b*c", "abc", true},
		{"a*b*c", "acb", false},
		{"a*bb*b", "abb", false},
		{"a**c", "ac", true},
		{"a.*", "A.b", false},
	}
	for _, tt := range tests {
		if got := typePattern(strings.Split(tt.pattern, "*")).matches(tt.text); got != tt.want {
			t.Errorf("pattern %q matches %q: %t, want %t", tt.pattern, tt.text, got, tt.want)
		}
	}
}

package say_test

import (
	"testing"

	"github.com/hookonce/hookonce/internal/say"
)

func TestEdits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"stripe", "stripe", 0},
		{"strpe", "stripe", 1},
		{"stripee", "stripe", 1},
		{"strope", "stripe", 1},
		{"stirpe", "stripe", 1},
		{"abcd", "badc", 2},
		{"ca", "abc", 3}, // swapped bytes are not edited again
		{"kitten", "sitting", 3},
		{"abc", "xyz", 3},
		{"é", "e", 2}, // counted in bytes
	} {
		if got := say.Edits(tt.a, tt.b); got != tt.want {
			t.Errorf("from %q to %q: %d edits, want %d", tt.a, tt.b, got, tt.want)
		}
		if got := say.Edits(tt.b, tt.a); got != tt.want {
			t.Errorf("from %q to %q: %d edits, want %d", tt.b, tt.a, got, tt.want)
		}
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"github", "gitlab", "stripe"}
	for name, want := range map[string]string{"githbu": "github", "GITLAP": "gitlab", "strip": "stripe", "zzz": "", "": ""} {
		if got := say.Nearest(name, known); got != want {
			t.Errorf("the nearest name to %q is %q, want %q", name, got, want)
		}
	}
}

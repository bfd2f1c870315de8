package cli_test

import (
	"net/http"
	"strings"
	"testing"
)

// The report fits terminals of 80 and 60 columns. Its marks have colours, unless NO_COLOR is set.
func TestProbeOnATerminal(t *testing.T) {
	t.Parallel()
	url, _ := probeAnswers(t, func(http.ResponseWriter, *http.Request) {})
	args := []string{"probe", url, "--provider", "stripe", "--secret", "whsec_test_secret", "--checks", "valid,tampered,several-signatures,duplicate"}
	for _, columns := range []int{80, 60} {
		coloured := onTerminal(t, t.TempDir(), columns, nil, args...)
		for _, mark := range []string{"\x1b[32m✓\x1b[0m", "\x1b[31m✗\x1b[0m", "\x1b[33m?\x1b[0m"} {
			if !strings.Contains(coloured, mark) {
				t.Errorf("%d columns: no %q in\n%s", columns, mark, coloured)
			}
		}
		for line := range strings.Lines(colour.ReplaceAllString(coloured, "")) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > columns || strings.Contains(line, "\x1b") {
				t.Errorf("%d columns of %d: %q", n, columns, line)
			}
		}
	}
	if plain := onTerminal(t, t.TempDir(), 80, []string{"NO_COLOR=1"}, args...); strings.Contains(plain, "\x1b") || !strings.Contains(plain, " ✗ tampered byte ") {
		t.Errorf("with NO_COLOR: %q", plain)
	}
}

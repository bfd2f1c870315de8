package pages

import (
	"regexp"
	"strings"
	"testing"
)

var (
	benchPlace = regexp.MustCompile(`sqlite:\S+ · \S+, \d+ cores`)
	benchRow   = regexp.MustCompile(`^(\S+) +[0-9,.]+ (\S+/s) `)
)

// The page shows figures of another machine. The headings, the rows and their units are those of the command.
func TestBenchExample(t *testing.T) {
	t.Parallel()
	form := func(text string) string {
		lines := strings.Split(benchPlace.ReplaceAllString(strings.TrimSpace(text), "PLACE"), "\n")
		for i, line := range lines {
			if row := benchRow.FindStringSubmatch(line); row != nil {
				line = row[1] + " " + row[2]
			}
			lines[i] = strings.Join(strings.Fields(line), " ")
		}
		return strings.Join(lines, "\n")
	}
	out, code := newWorld(t).run(t, "hookonce bench --seconds 1")
	for _, b := range blocksOf(read(t, "docs/commands.md")) {
		if strings.HasPrefix(b.first(), "hookonce (devel) · sqlite:") {
			if want, got := form(b.text), form(out); code != 0 || got != want {
				t.Errorf("exit code %d; docs/commands.md:%d shows\n%s\nbut bench prints\n%s", code, b.line, want, got)
			}
			return
		}
	}
	t.Error("docs/commands.md shows no figures")
}

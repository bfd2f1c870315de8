package deps

import (
	"slices"
	"strings"
	"testing"
)

// kept names our own code that a library could replace, and why it stays.
var kept = []struct{ file, declaration, why string }{
	{
		"cmd/hookonce/internal/cli/sendreport.go", "func latencies(",
		"exact percentiles of at most a million durations that are in memory, in a dozen lines. hdrhistogram-go needs " +
			"as many, rounds the values of --json to its buckets, and adds gonum and testify to the module graph",
	},
	{
		"cmd/hookonce/internal/cli/tail.go", "var tailColumns ",
		"events tail prints rows before it knows the later ones. text/tabwriter, which prints all other tables, would " +
			"align each batch of rows on its own; a table of lipgloss needs every row, too",
	},
}

// TestKeptCodeExists removes a reason from the list together with its code.
func TestKeptCodeExists(t *testing.T) {
	t.Parallel()
	list, err := sources()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kept {
		if !slices.ContainsFunc(list, func(s source) bool { return s.name == k.file && strings.Contains(string(s.text), k.declaration) }) {
			t.Errorf("%s has no %q any more: remove its entry from kept (%s)", k.file, k.declaration, k.why)
		}
	}
}

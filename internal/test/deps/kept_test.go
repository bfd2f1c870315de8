package deps

import (
	"slices"
	"strings"
	"testing"
)

// kept names our own code that a library could replace, and why it stays.
var kept = []struct{ file, declaration, why string }{
	{
		"internal/dial/address.go", "package dial",
		"code.dny.dev/ssrf knows the public addresses; it has no verdict for those that even a private destination must " +
			"not be: link-local, metadata services, and IPv6 addresses that embed one of these",
	},
	{
		"internal/limit/addresses.go", "type Addresses ",
		"golang.org/x/time/rate has no limiter by address, and a bounded map that is cleared needs no module for caches",
	},
	{
		"internal/locate/scan.go", "package locate",
		"encoding/json accepts duplicate keys and rounds numbers: an event id must be read exactly, or the request refused",
	},
	{
		"hookmigrate/hookmigrate.go", "func Up(",
		"migration tools bring drivers and a command line of their own; ours is a loop over one or two files, in one transaction",
	},
	{
		"driver/retry.go", "type Retry ",
		"a schedule of three numbers: modules for backoff bring a retry loop, and our loops are in the database",
	},
	{
		"cmd/hookonce/internal/cli/sendreport.go", "func latencies(",
		"exact percentiles of at most a million durations that are in memory, in a dozen lines. hdrhistogram-go needs " +
			"as many, rounds the values of --json to its buckets, and adds gonum and testify to the module graph",
	},
	{
		"cmd/hookonce/internal/cli/tailrow.go", "var tailColumns ",
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

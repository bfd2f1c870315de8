package deps

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	entryTitle = regexp.MustCompile(`(?m)^### (.+)$`)
	// entryConst matches a constant of package runbook: its name, and its title in either kind of quotes.
	entryConst = regexp.MustCompile("(?m)^\t(\\w+) +Entry = (?:\"([^\"]+)\"|`([^`]+)`)$")
	entryLink  = regexp.MustCompile(`\((?:runbook\.md)?#([a-z0-9_-]+)\)`)
)

// runbookEntries returns the text of each entry of the runbook by its anchor, and the anchors by title.
func runbookEntries(t *testing.T) (texts, anchors map[string]string) {
	t.Helper()
	page := readRoot(t, "docs/runbook.md")
	texts, anchors = make(map[string]string), make(map[string]string)
	at := entryTitle.FindAllStringSubmatchIndex(page, -1)
	for i, m := range at {
		end := len(page)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		title := page[m[2]:m[3]]
		anchor := anchorsOf([]byte("# " + title + "\n"))[0]
		texts[anchor], anchors[title] = page[m[1]:end], anchor
	}
	return texts, anchors
}

func readRoot(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Each entry of the runbook is reached from where its trouble shows: a page or a message of the program names it, an alert
// does, or another such entry.
func TestRunbookIsReached(t *testing.T) {
	t.Parallel()
	texts, anchors := runbookEntries(t)
	var code strings.Builder
	for _, f := range files(t, func(name string) bool {
		return strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && !strings.HasPrefix(name, "internal/runbook/")
	}) {
		code.Write(f.text)
	}
	var reached []string
	for _, m := range entryConst.FindAllStringSubmatch(readRoot(t, "internal/runbook/runbook.go"), -1) {
		name, title := m[1], m[2]+m[3]
		if anchors[title] == "" {
			t.Errorf("runbook.%s: docs/runbook.md has no entry %q", name, title)
		}
		if !regexp.MustCompile(`\brunbook\.` + name + `\b`).MatchString(code.String()) {
			t.Errorf("runbook.%s: no page and no message names it", name)
		}
		reached = append(reached, anchors[title])
	}
	if len(reached) == 0 {
		t.Fatal("package runbook has no entries")
	}
	for title, anchor := range anchors {
		if strings.Contains(code.String(), title) { // a message of a store
			reached = append(reached, anchor)
		}
	}
	for _, m := range entryLink.FindAllStringSubmatch(readRoot(t, "docs/observability.md"), -1) { // from runbook_url of alerts
		reached = append(reached, m[1])
	}
	for i := 0; i < len(reached); i++ {
		for _, m := range entryLink.FindAllStringSubmatch(texts[reached[i]], -1) {
			if !slices.Contains(reached, m[1]) {
				reached = append(reached, m[1])
			}
		}
	}
	for title, anchor := range anchors {
		if !slices.Contains(reached, anchor) {
			t.Errorf("docs/runbook.md: nothing that shows the trouble leads to the entry %q: name it in internal/runbook, and where it shows", title)
		}
	}
}

// What operators could not find in time has a line in the runbook.
func TestRunbookHasWhatOperatorsMissed(t *testing.T) {
	t.Parallel()
	texts, anchors := runbookEntries(t)
	for _, want := range []struct{ trouble, title, line string }{
		{"a route was wrong", "Events went to the wrong destination", "events replay --reroute"},
		{"the disk is full", "Senders report 503, or /readyz fails", "disk full"},
		{"a destination fails", "Messages wait for a destination", "hookonce destinations retry NAME"},
		{"a handler or an effect ran twice", "An effect happened twice", "webhook-id"},
		{"a command beside a service", "A command finds no gateway, or another database", "--admin-url"},
		{"a secret was rotated", "A sender reports 401", "env_file"},
		{"a reload does not read the environment", "A reload has no effect", "env_file"},
		{"a flood", "A flood of refused requests", "refused.md#flood"},
		{"an old schema", "It does not start", "hookonce migrate status"},
		{"an event is missing", "An event is missing", "events list"},
		{"dead letters", "There are dead letters", "dlq list"},
	} {
		if text := texts[anchors[want.title]]; !strings.Contains(strings.Join(strings.Fields(text), " "), want.line) {
			t.Errorf("%s: the entry %q of docs/runbook.md lacks %q", want.trouble, want.title, want.line)
		}
	}
}

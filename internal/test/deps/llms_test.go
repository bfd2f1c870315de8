package deps

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/llms.txt")

var (
	indexEntry   = regexp.MustCompile(`^- \[.*\]\(.*\): `)
	indexSection = regexp.MustCompile(`^## ([^:]+)`)
)

// docs/llms.txt has the pages of the index, in the form of https://llmstxt.org. This writes it:
// go test ./internal/test/deps -run TestLLMs -update.
func TestLLMs(t *testing.T) {
	t.Parallel()
	docs := filepath.Join("..", "..", "..", "docs")
	index, err := os.ReadFile(filepath.Join(docs, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	want := `# hookonce

> hookonce receives webhooks so that each event takes effect once: it verifies the signature, claims the event's id in
> PostgreSQL or SQLite, commits, answers, and does the work in one transaction or forwards it under one key. It is a Go
> library, a gateway for any language, and SQL functions.

- [Receive a webhook once](assistants.txt): instructions for coding assistants.
`
	for line := range strings.Lines(string(index)) {
		if section := indexSection.FindStringSubmatch(line); section != nil {
			want += "\n## " + strings.TrimSpace(section[1]) + "\n\n"
		}
		if indexEntry.MatchString(line) {
			want += line
		}
	}
	want, _, _ = strings.Cut(want, "\n## By question")
	path := filepath.Join(docs, "llms.txt")
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/llms.txt (-want +got):\n%s", diff)
	}
}

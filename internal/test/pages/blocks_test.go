package pages

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// repository is the root of the repository.
const repository = "../../.."

// block is a code block of a page.
type block struct {
	line     int // of its first line of code
	language string
	text     string
}

// first returns the first line of a block. It names the block in a story.
func (b *block) first() string {
	line, _, _ := strings.Cut(b.text, "\n")
	return strings.TrimSpace(line)
}

// documented returns the pages for readers, as paths from the root of the repository.
func documented(t *testing.T) []string {
	t.Helper()
	pages := []string{"README.md", "examples/README.md", "docs/assistants.txt"}
	err := filepath.WalkDir(filepath.Join(repository, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			pages = append(pages, filepath.ToSlash(strings.TrimPrefix(path, filepath.FromSlash(repository)+string(filepath.Separator))))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(pages)
	return pages
}

// read returns the text of a page.
func read(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, filepath.FromSlash(page)))
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")))
}

// blocksOf returns the code blocks of a text in Markdown, in their order.
func blocksOf(text string) []block {
	var found []block
	var open *block
	for i, line := range strings.Split(text, "\n") {
		fence, isFence := strings.CutPrefix(strings.TrimLeft(line, " "), "```")
		switch {
		case isFence && open == nil:
			open = &block{line: i + 2, language: strings.TrimSpace(fence)}
		case isFence:
			found = append(found, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	return found
}

// commandsOf splits a shell block into its commands: a line each, without comments. A line that ends
// with a backslash goes on.
func commandsOf(text string) []string {
	var commands []string
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		line, _, _ = strings.Cut(line, " #")
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			commands = append(commands, strings.Join(strings.Fields(line), " "))
		}
	}
	return commands
}

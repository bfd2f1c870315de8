package cli

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Every command in the text of a page exists, and so do its flags. internal/test/pages runs the code blocks.
func TestCommandsInPages(t *testing.T) {
	t.Parallel()
	const repository = "../../../.."
	pages := []string{filepath.Join(repository, "README.md"), filepath.Join(repository, "examples", "README.md")}
	err := filepath.WalkDir(filepath.Join(repository, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range inlineCommand.FindAllStringSubmatch(string(text), -1) {
			command := strings.ReplaceAll(found[1], "SHELL", "bash")
			if seen++; !spans.MatchString(command) {
				checkCommand(t, filepath.Base(page), strings.Fields(command))
			}
		}
	}
	if seen < 50 {
		t.Errorf("%d commands found; the pages have more", seen)
	}
}

// inlineCommand matches a command in a line of text.
var inlineCommand = regexp.MustCompile("`(?:\\./|go run \\./cmd/)?hookonce ([a-z][^`]*)`")

// spans matches the names of spans, which are written as commands are.
var spans = regexp.MustCompile("^(receive|claim|attempt|handle|replay)$")

func checkCommand(t *testing.T, page string, args []string) {
	t.Helper()
	cmd, rest, err := (&program{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard}).rootCommand().Find(args)
	if err != nil {
		t.Errorf("%s: hookonce %s: %v", page, strings.Join(args, " "), err)
		return
	}
	if len(rest) > 0 && cmd.HasSubCommands() && !strings.HasPrefix(rest[0], "-") {
		t.Errorf("%s: hookonce %s: %s has no command %q", page, strings.Join(args, " "), cmd.CommandPath(), rest[0])
	}
	for _, arg := range rest {
		if name, ok := strings.CutPrefix(arg, "--"); ok && name != "" && name != "…" && !hasFlag(cmd, strings.SplitN(name, "=", 2)[0]) {
			t.Errorf("%s: hookonce %s: %s has no flag --%s", page, strings.Join(args, " "), cmd.CommandPath(), name)
		}
	}
}

func hasFlag(cmd *cobra.Command, name string) bool {
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	return cmd.Flags().Lookup(name) != nil || cmd.InheritedFlags().Lookup(name) != nil
}

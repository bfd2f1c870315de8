package cli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/provider"
)

// The settings for each provider can be used once the variables of .env.example are set, and miss only
// those before. .env.example names each variable once.
func TestInitForEveryProvider(t *testing.T) {
	t.Parallel()
	for _, name := range provider.Names() {
		t.Run(string(name), func(t *testing.T) {
			t.Parallel()
			spec, err := provider.Lookup(name)
			if err != nil {
				t.Fatal(err)
			}
			b := &beginning{providers: []string{string(name)}, database: config.DefaultDatabase, forward: "http://127.0.0.1:3000/a?b=c"}
			w, err := b.settings()
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "hookonce.yaml")
			if err := os.WriteFile(file, []byte(w.yaml()), 0o600); err != nil {
				t.Fatal(err)
			}
			checkTexts(t, w.yaml()+w.env())
			steps := &nextSteps{width: 80}
			steps.sayVariables(w.variables)
			steps.saySetUp(string(name))
			checkTexts(t, steps.text.String())
			environ := append(snippetEnviron(t, spec, factsOf(spec)), appSecret+"="+newSecret())
			if said, ok := config.Check(config.LoadOptions{File: file, Environ: func() []string { return environ }}); !ok {
				t.Errorf("%s\n%s", said, w.yaml())
			}
			if err := os.WriteFile(file, []byte(withOptional(w.yaml())), 0o600); err != nil {
				t.Fatal(err)
			}
			if said, ok := config.Check(config.LoadOptions{File: file, Environ: func() []string { return environ }}); !ok {
				t.Errorf("with the optional parameters: %s\n%s", said, withOptional(w.yaml()))
			}
			if err := os.WriteFile(file, []byte(w.yaml()), 0o600); err != nil {
				t.Fatal(err)
			}
			_, faults := config.Load(config.LoadOptions{File: file, Environ: func() []string { return nil }})
			if faults != nil && len(faults.List) != len(w.variables) {
				t.Errorf("%d variables are not set, and these are the faults:\n%v", len(w.variables), faults)
			}
			if others := besidesUnset(faults); others != nil {
				t.Errorf("faults besides variables: %v\n%s", others, w.yaml())
			}
			var unset []string
			for i := 0; faults != nil && i < len(faults.List); i++ {
				if v := faults.List[i].Unset; v != "" && !slices.Contains(unset, v) {
					unset = append(unset, v)
				}
			}
			var named []string
			for line := range strings.Lines(w.env()) {
				if v, is := strings.CutSuffix(line, "=\n"); is {
					named = append(named, v)
				}
			}
			if !slices.Equal(named, unset) {
				t.Errorf(".env.example names %v, the settings %v", named, unset)
			}
		})
	}
}

// broken matches texts that were put together wrongly.
var broken = regexp.MustCompile(`\w\.[;,:.]|\w[,;:][,;.]|\w\. \(|…|%!|<no value>|<nil>`)

// checkTexts checks that a text has no broken sentence, and no line over 80 columns, unless it is one URL.
func checkTexts(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		words := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "# "))
		if n := len([]rune(line)); n > 80 && len(words) > 1 {
			t.Errorf("%d columns: %s", n, line)
		}
		if broken.MatchString(line) {
			t.Errorf("broken: %s", line)
		}
	}
}

// commentedParam matches the beginnings of lines with optional parameters, and of the comments about those
// that are below a key which is a comment itself.
var commentedParam = regexp.MustCompile(`(?m)^(      # |    #   )([a-z_]+: "|# )`)

// withOptional returns the settings with the optional parameters, which are comments.
func withOptional(yaml string) string {
	return commentedParam.ReplaceAllString(strings.Replace(yaml, "    # params:\n", "    params:\n", 1), "      $2")
}

// A command is folded between its parts, where they are short enough, and a shell reads the same words.
func TestFoldedCommand(t *testing.T) {
	t.Parallel()
	command := commandLine{"hookonce send http://127.0.0.1:8080/webhooks/stripe", "--provider stripe", `--secret "$STRIPE_WEBHOOK_SECRET"`, "--type a.paid"}
	want := `hookonce send http://127.0.0.1:8080/webhooks/stripe \
         --provider stripe --secret "$STRIPE_WEBHOOK_SECRET" --type a.paid`
	if got := command.folded(77, 7); got != want {
		t.Errorf("folded:\n%s\nwant\n%s", got, want)
	}
	for width := 20; width < 200; width++ {
		got := command.folded(width, 7)
		for i, line := range strings.Split(got, "\n") {
			n := len(line)
			if i == 0 {
				n += 7
			}
			if n > width && strings.Count(line, "--")+strings.Count(line, "send") > 1 {
				t.Errorf("width %d: a line of %d columns:\n%s", width, n, got)
			}
		}
		if words := strings.Join(strings.Fields(strings.ReplaceAll(got, "\\\n", "")), " "); words != command.String() {
			t.Errorf("width %d: the words are %s", width, words)
		}
	}
	if got := command.folded(200, 7); got != command.String() {
		t.Errorf("a wide terminal: %s", got)
	}
}

// A file that cannot be written leaves none of the others.
func TestWriteNewWritesAllOrNone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("b"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := writeNew([]file{{at("a"), []byte("1")}, {at("b"), []byte("2")}})
	if !errors.Is(err, fs.ErrExist) {
		t.Errorf("the error is %v", err)
	}
	if text, err := os.ReadFile(at("b")); string(text) != "mine" {
		t.Errorf("b holds %q: %v", text, err)
	}
	undo, err := writeNew([]file{{at("a"), []byte("1")}, {at("c"), []byte("2")}})
	if err != nil {
		t.Fatal(err)
	}
	if err := undo(); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"a", "c"} {
		if _, err := os.Stat(at(name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there: %v", name, err)
		}
	}
}

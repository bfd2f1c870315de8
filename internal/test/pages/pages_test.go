package pages

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// story is how a reader follows a page.
type story struct {
	// ready prepares the folder of the reader; nil leaves it empty.
	ready func(t *testing.T, w *world)
	// each says that the commands of shell blocks are alternatives: each runs in a fresh folder.
	each bool
	// replace has pairs: a placeholder on the page, and its value here.
	replace []string
	// steps are by the first line of a block. A block that needs nothing special has none.
	steps map[string]step
}

// step holds the words around a block, for the test.
type step struct {
	before func(t *testing.T, w *world)
	// want is a regular expression. The block runs again until its output matches.
	want string
	// code is the exit code of a shell block.
	code int
	// around is the rest of a program or of a settings file, with %s for the block.
	around string
	// until is a regular expression: when the output of a shell block matches it, Ctrl-C ends the block.
	until string
	// held checks a block that does not run by itself.
	held func(t *testing.T, w *world, text string)
	// left says which other test takes the block from the page and runs it; or that it is a drawing.
	left string
}

func TestPages(t *testing.T) {
	pages := documented(t)
	for _, page := range pages {
		blocks := blocksOf(read(t, page))
		if len(blocks) == 0 {
			continue
		}
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			follow(t, page, blocks)
		})
	}
	for page := range stories {
		if _, err := os.Stat(filepath.Join(repository, filepath.FromSlash(page))); err != nil {
			t.Errorf("there is a story of %s: %v", page, err)
		}
	}
}

// follow runs the blocks of a page in order.
func follow(t *testing.T, page string, blocks []block) {
	s := stories[page]
	w := newWorld(t)
	w.replace = s.replace
	if s.ready != nil && !s.each {
		s.ready(t, w)
	}
	seen := make(map[string]bool)
	printed := "" // by the last shell block
	for i := range blocks {
		b := &blocks[i]
		step, special := s.steps[b.first()]
		seen[b.first()] = special
		if step.left != "" {
			continue
		}
		if step.before != nil && (!s.each || b.language != "sh") {
			step.before(t, w)
		}
		if step.held != nil {
			step.held(t, w, b.text)
			continue
		}
		where := fmt.Sprintf("%s:%d", page, b.line)
		switch b.language {
		case "sh":
			printed = w.runBlock(t, where, &s, &step, b.text)
		case "yaml":
			w.runSettings(t, where, around(&step, b.text))
		case "go":
			w.runGo(t, where, around(&step, b.text))
		case "python":
			w.runPython(t, b.text)
		case "sql":
			runSQL(t, where, b.text)
		case "json":
			if !json.Valid([]byte(b.text)) {
				t.Errorf("%s: this is not JSON", where)
			}
		case "":
			if want, got := general(b.text), general(printed); !strings.Contains(got, want) {
				t.Errorf("%s: the page shows\n%s\nbut the block before it prints\n%s", where, want, got)
			}
		default:
			t.Errorf("%s: no test runs blocks of the language %q", where, b.language)
		}
	}
	for first := range s.steps {
		if !seen[first] {
			t.Errorf("%s has no block that begins with %q", page, first)
		}
	}
}

func around(s *step, text string) string {
	if s.around == "" {
		return text
	}
	return fmt.Sprintf(s.around, text)
}

// general returns an output without the figures that differ from run to run.
func general(output string) string {
	for _, v := range varying {
		output = v.pattern.ReplaceAllString(output, v.by)
	}
	var lines []string
	for line := range strings.Lines(output) {
		lines = append(lines, strings.TrimRight(strings.Join(strings.Fields(line), " "), " "))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

var varying = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`), "TIME"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\dZ?`), "TIME"},
	{regexp.MustCompile(`\b[0-9.]+ ?(µs|ms|s)\b`), "TOOK"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDRESS"},
	{regexp.MustCompile(`\bhookonce (v0\.1\.0|\(devel\))`), "VERSION"},
	{regexp.MustCompile(`\b[0-9,]+ (ids|stored)\b`), "SOME $1"},
}

// runBlock runs a shell block and returns its output.
func (w *world) runBlock(t *testing.T, where string, s *story, step *step, text string) (out string) {
	t.Helper()
	if s.each {
		for _, command := range commandsOf(text) {
			one := newWorld(t)
			one.replace = s.replace
			s.ready(t, one)
			if step.before != nil {
				step.before(t, one)
			}
			if script := one.here(t, confirmed(command)); step.until != "" {
				out = one.interrupt(t, where, script, step.until)
			} else {
				one.runCommand(t, where, step, script)
			}
		}
		return out
	}
	script := w.here(t, text)
	w.export(script)
	if step.until != "" {
		return w.interrupt(t, where, script, step.until)
	}
	if commands := commandsOf(script); serves.MatchString(commands[len(commands)-1]) {
		w.start(t, script, w.ports["127.0.0.1:8080"])
		return ""
	}
	return w.runCommand(t, where, step, script)
}

// serves matches the commands that run until somebody stops them.
var serves = regexp.MustCompile(`^(\./)?hookonce serve\b|/(shop|shopsqlite)$`)

// confirmed answers the question of a command that changes many things: the test has no terminal.
func confirmed(command string) string {
	if asks.MatchString(command) {
		return command + " --yes"
	}
	return command
}

var asks = regexp.MustCompile(`^hookonce (dlq (replay|discard)|events replay|quarantine retry) `)

// runCommand runs a script until its output is as the step wants it.
func (w *world) runCommand(t *testing.T, where string, step *step, script string) (out string) {
	t.Helper()
	want := regexp.MustCompile(step.want)
	eventually.Succeeds(t, "the output is right", func() error {
		var code int
		if out, code = w.run(t, script); code != step.code || !want.MatchString(out) {
			err := fmt.Errorf("%s: %s\nexit code %d, want %d, and output like %q:\n%s", where, script, code, step.code, step.want, out)
			if step.want == "" {
				t.Fatal(err)
			}
			return err
		}
		return nil
	})
	return out
}

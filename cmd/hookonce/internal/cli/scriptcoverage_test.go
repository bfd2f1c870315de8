package cli_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/cli"
)

// exits are the exit codes of each command besides 0 and 2, which every command has.
var exits = map[string]string{
	"bench":               "1",
	"completion bash":     "1",
	"backup":              "1",
	"config check":        "1",
	"demo":                "1",
	"dlq discard":         "13",
	"dlq list":            "1",
	"dlq replay":          "13",
	"dlq undo":            "13",
	"destinations list":   "1",
	"destinations pause":  "13",
	"destinations resume": "13",
	"destinations retry":  "13",
	"doctor":              "1",
	"events list":         "1",
	"events redact":       "13",
	"events replay":       "13",
	"events show":         "13",
	"events tail":         "1",
	"init":                "1",
	"listen":              "1",
	"man":                 "1",
	"migrate grants":      "1",
	"migrate ids":         "1",
	"migrate sql":         "1",
	"migrate status":      "1",
	"migrate up":          "1",
	"probe":               "1",
	"providers":           "13",
	"prune":               "1",
	"quarantine list":     "1",
	"quarantine retry":    "13",
	"quarantine show":     "13",
	"ready":               "1",
	"reconcile":           "13",
	"refused list":        "1",
	"refused show":        "13",
	"send":                "13",
	"serve":               "1",
	"sources arm":         "13",
	"sources list":        "1",
	"stats":               "1",
	"verify":              "1",
	"version":             "1",
}

// uncovered are the commands, and flags as "COMMAND --FLAG", that no script runs, each with the reason.
var uncovered = map[string]string{
	"demo":          "it starts gateways of its own, and its package tests it as a process",
	"probe --key":   "the tests of probe sign with the keys of every provider",
	"probe --param": "the tests of probe give the parameters of every provider",
}

// recordEnv names the file that each process of a script extends by its command line and exit code.
const recordEnv = "SCRIPT_RECORD"

// recorded is one line of that file.
type recorded struct {
	Args []string
	Code int
}

// record adds a line if a script started this process.
func record(args []string, code int) {
	name := os.Getenv(recordEnv)
	if name == "" {
		return
	}
	line, err := json.Marshal(recorded{args, code})
	if err == nil {
		err = appendLine(name, line)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "recording the command:", err)
	}
}

// appendLine adds a line at once, so that lines of several processes do not mix.
func appendLine(name string, line []byte) error {
	file, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.Write(append(line, '\n'))
	return err
}

// coverage lists the commands that the scripts have run.
type coverage struct {
	file string
	mu   sync.Mutex
	runs map[string]int // by the name of the run

	codes map[string]map[int]bool // by command
	flags map[string]map[string]bool
}

// newCoverage returns a coverage that is checked once all subtests of t have ended.
func newCoverage(t *testing.T) *coverage {
	t.Helper()
	c := &coverage{
		file: filepath.Join(t.TempDir(), "record"), runs: make(map[string]int),
		codes: make(map[string]map[int]bool), flags: make(map[string]map[string]bool),
	}
	writeFile(t, c.file, "")
	t.Cleanup(func() {
		if t.Failed() || !c.complete(t) {
			return // a part of the scripts covers a part of the commands
		}
		c.read(t)
		c.check(t, cli.Root())
	})
	return c
}

// ran notes that a script of a run began.
func (c *coverage) ran(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs[name]++
}

// complete reports whether every script ran: -run can select some.
func (c *coverage) complete(t *testing.T) bool {
	t.Helper()
	for name, scripts := range scriptsOf(t) {
		if c.runs[name] < len(scripts) {
			return false
		}
	}
	return true
}

// read reads the record.
func (c *coverage) read(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(c.file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var r recorded
		unmarshal(t, line, &r)
		if len(r.Args) > 0 && strings.HasPrefix(r.Args[0], "__") {
			continue // a completion
		}
		cmd, rest, err := cli.Root().Find(r.Args)
		if err != nil {
			cmd = cli.Root() // an unknown command
		}
		cmd.InitDefaultHelpFlag()
		if cmd.ParseFlags(rest) == nil && cmd.Flags().Changed("help") {
			continue // which runs nothing
		}
		name := nameOf(cmd)
		if c.codes[name] == nil {
			c.codes[name], c.flags[name] = make(map[int]bool), make(map[string]bool)
		}
		c.codes[name][r.Code] = true
		if r.Code != 2 {
			cmd.Flags().Visit(func(f *pflag.Flag) { c.flags[name][f.Name] = true })
		}
	}
}

// nameOf returns the name of a command without that of the program.
func nameOf(cmd *cobra.Command) string {
	return strings.TrimPrefix(strings.TrimPrefix(cmd.CommandPath(), "hookonce"), " ")
}

// check requires that scripts have run every command with each of its exit codes and each of its flags.
func (c *coverage) check(t *testing.T, root *cobra.Command) {
	t.Helper()
	known := make(map[string]bool)
	excepted := func(name string, covered bool) bool {
		known[name] = true
		if reason, is := uncovered[name]; is && covered {
			t.Errorf("uncovered: scripts cover %q: remove the exception (%s)", name, reason)
		} else if is {
			return true
		}
		return covered
	}
	for _, cmd := range commandsBelow(root) {
		name := nameOf(cmd)
		missing := c.missingCodes(t, cmd)
		if excepted(name, len(missing) == 0) && len(missing) > 0 {
			continue
		}
		if len(missing) > 0 {
			t.Errorf("no script sees %q exit with %v", name, missing)
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && !excepted(name+" --"+f.Name, c.flags[name][f.Name]) {
				t.Errorf("no script runs %q with --%s", name, f.Name)
			}
		})
	}
	for _, name := range slices.Sorted(maps.Keys(exits)) {
		if !known[name] {
			t.Errorf("exits: there is no command %q: remove it", name)
		}
	}
}

// missingCodes returns the exit codes of a command that no script has seen. A noun has only the code 2.
func (c *coverage) missingCodes(t *testing.T, cmd *cobra.Command) []int {
	t.Helper()
	name := nameOf(cmd)
	want := []int{2}
	if !cmd.HasAvailableSubCommands() || cmd == cmd.Root() {
		want = []int{0, 2}
	}
	for _, digit := range exits[name] {
		want = append(want, int(digit-'0'))
	}
	for code := range c.codes[name] {
		if !slices.Contains(want, code) {
			t.Errorf("%q exits with %d: add it to exits", name, code)
		}
	}
	if cmd.Flags().Lookup("config") != nil && !slices.Contains(want, 1) {
		t.Errorf("%q reads settings, so it exits with 1 if they are wrong: add it to exits", name)
	}
	return slices.DeleteFunc(want, func(code int) bool { return c.codes[name][code] })
}

// commandsBelow returns root and the commands below it, without hidden ones.
func commandsBelow(root *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{root}
	for _, sub := range root.Commands() {
		if sub.IsAvailableCommand() || sub.Name() == "help" {
			all = append(all, commandsBelow(sub)...)
		}
	}
	return all
}

package cli_test

import (
	"bytes"
	"errors"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/cli"
)

// world guards the folder and the environment of this process: they are those of a script while its command runs here.
var world sync.Mutex

// runHere runs the command hookonce in this process, and returns its exit code. A new process takes ten times as long as
// most commands.
func (s *scene) runHere(ts *testscript.TestScript, args []string) (code int) {
	world.Lock()
	defer world.Unlock()
	before, err := os.Getwd()
	ts.Check(err)
	defer setWorld(s.t, before, os.Environ())
	setWorld(s.t, ts.MkAbs("."), s.environ(ts))
	code = cli.Main(s.t.Context(), args, new(bytes.Buffer), ts.Stdout(), ts.Stderr(), os.Environ())
	record(args, code)
	return code
}

// setWorld changes no variable that has its value already: other scripts look commands up by the PATH meanwhile.
func setWorld(t testing.TB, dir string, environ []string) {
	t.Helper()
	err := os.Chdir(dir) //nolint:usetesting // t.Chdir lasts until the end of a test, and this for one command
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); !slices.ContainsFunc(environ, func(e string) bool { return strings.HasPrefix(e, name+"=") }) {
			err = errors.Join(err, os.Unsetenv(name))
		}
	}
	for _, entry := range environ {
		if name, value, _ := strings.Cut(entry, "="); os.Getenv(name) != value {
			err = errors.Join(err, os.Setenv(name, value)) //nolint:usetesting // as above
		}
	}
	if err != nil {
		t.Error(err)
	}
}

func runIt(ts *testscript.TestScript, neg bool, args []string) {
	code(ts, neg, append([]string{"0"}, args...))
}

func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || args[1] != "hookonce" && (args[1] != "exec" || len(args) == 2) {
		ts.Fatalf("usage: run hookonce ARGS..., code N hookonce ARGS..., or code N exec COMMAND...")
	}
	got := 0
	if args[1] == "hookonce" {
		got = sceneOf(ts).runHere(ts, args[2:])
	} else if err := ts.Exec(args[2], args[3:]...); err != nil { // after "exec"
		exit, ok := err.(interface{ ExitCode() int })
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

var setsVariable = regexp.MustCompile(`(?m)^(?:\[\S+\] )?env (\w+)=`)

// variablesOf returns the names of the variables that scripts set.
func variablesOf(t *testing.T, all map[string][]string) []string {
	t.Helper()
	var names []string
	for _, scripts := range all {
		for _, script := range scripts {
			text, err := os.ReadFile(script)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range setsVariable.FindAllStringSubmatch(string(text), -1) {
				names = append(names, found[1])
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

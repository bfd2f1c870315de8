package cli_test

import (
	"context"
	"os"
	"runtime/debug"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/cli"
	"github.com/hookonce/hookonce/internal/test/dbtest"
)

// TestMain lets the test binary act as the command hookonce, for the scripts and for the tests that
// start it as a separate process.
func TestMain(m *testing.M) {
	testscript.Main(tests{m}, map[string]func(){
		"hookonce": func() {
			code := cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ())
			record(os.Args[1:], code)
			os.Exit(code)
		},
	})
}

// tests are the tests of this package.
type tests struct{ m *testing.M }

// Run implements testscript.TestingM.
func (t tests) Run() int {
	dbtest.Parallel(8)      // most wait for processes
	debug.SetGCPercent(400) // a collection costs more here than the memory
	return dbtest.Run(t.m)
}

// raceEnv stops a process under the race detector from waiting a second at exit for reports of
// other goroutines. It still reports races, and exits with 66.
func raceEnv() string { return "GORACE=" + os.Getenv("GORACE") + " atexit_sleep_ms=0" }

// formEnv lets a command with a form pass under the race detector: the library of the form closes the
// reader of its terminal while it reads from it.
func formEnv() string { return raceEnv() + " exitcode=0" }

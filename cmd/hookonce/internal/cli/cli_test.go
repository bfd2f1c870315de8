package cli_test

import (
	"context"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/cli"
)

// TestMain lets the test binary act as the command hookonce, for the scripts and for the tests that
// start it as a separate process.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"hookonce": func() {
			code := cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ())
			record(os.Args[1:], code)
			os.Exit(code)
		},
	})
}

// raceEnv stops a process under the race detector from waiting a second at exit for reports of
// other goroutines. It still reports races, and exits with 66.
func raceEnv() string { return "GORACE=" + os.Getenv("GORACE") + " atexit_sleep_ms=0" }

// formEnv lets a command with a form pass under the race detector: the library of the form closes the
// reader of its terminal while it reads from it.
func formEnv() string { return raceEnv() + " exitcode=0" }

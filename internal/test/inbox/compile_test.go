package inbox_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A handler with another transaction type than its Mux does not compile, and the compiler names
// both types.
func TestWrongTransactionTypeDoesNotCompile(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "vet", "./testdata/compile/...").CombinedOutput()
	if err == nil || strings.Contains(string(out), "compile/right") {
		t.Errorf("go vet: error %v, want faults of the wrong programs alone:\n%s", err, out)
	}
	for _, says := range [][]string{
		{"wronghandler/main.go:17:", "*sql.Tx", "pgx.Tx"}, {"wrongmux/main.go:15:", "sql.Tx", "pgx.Tx"}, {"wrongoutbox/main.go:16:", "*sql.Tx", "pgx.Tx"},
	} {
		if !slices.ContainsFunc(strings.Split(string(out), "\n"), func(line string) bool {
			return !slices.ContainsFunc(says, func(text string) bool { return !strings.Contains(line, text) })
		}) {
			t.Errorf("no line of the output has %q:\n%s", says, out)
		}
	}
}

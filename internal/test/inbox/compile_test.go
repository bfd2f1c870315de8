package inbox_test

import (
	"os/exec"
	"strings"
	"testing"
)

// A handler with another transaction type than its Mux does not compile, and the compiler names
// both types.
func TestWrongTransactionTypeDoesNotCompile(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		program string
		says    []string // in the compiler's output; nil if the program compiles
	}{
		{"right", nil},
		{"wronghandler", []string{"main.go:17:", "*sql.Tx", "pgx.Tx"}},
		{"wrongmux", []string{"main.go:15:", "sql.Tx", "pgx.Tx"}},
		{"wrongoutbox", []string{"main.go:16:", "*sql.Tx", "pgx.Tx"}},
	} {
		t.Run(tt.program, func(t *testing.T) {
			t.Parallel()
			out, err := exec.CommandContext(t.Context(), "go", "vet", "./testdata/compile/"+tt.program).CombinedOutput()
			if (err == nil) != (tt.says == nil) {
				t.Fatalf("go vet: error %v, want an error: %t\n%s", err, tt.says != nil, out)
			}
			for _, text := range tt.says {
				if !strings.Contains(string(out), text) {
					t.Errorf("the output lacks %q:\n%s", text, out)
				}
			}
		})
	}
}

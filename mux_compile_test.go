package hookonce_test

import (
	"os/exec"
	"strings"
	"testing"
)

// A handler for another type of transaction than that of the Mux does not compile,
// and the compiler says which two types they are.
func TestWrongTransactionDoesNotCompile(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		program string
		says    []string // nil: it compiles
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
				t.Fatalf("go vet: %v\n%s", err, out)
			}
			for _, text := range tt.says {
				if !strings.Contains(string(out), text) {
					t.Errorf("the compiler does not say %q:\n%s", text, out)
				}
			}
		})
	}
}

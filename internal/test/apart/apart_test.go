package apart

import (
	"os"
	"os/exec"
	"testing"

	"github.com/hookonce/hookonce/internal/test/group"
)

// script runs a script of the project, with its output in the log.
func script(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = "../../.."
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

// The SDKs of the providers and hookonce accept each other's signatures.
func TestSDK(t *testing.T) {
	group.Need(t, "sdk")
	script(t, "internal/test/sdk/run")
}

// The ORMs of docs/orms.md write in the transactions of handlers.
func TestORM(t *testing.T) {
	group.Need(t, "orm")
	script(t, "internal/test/orm/run")
}

// The gateway gets certificates from Pebble.
func TestACME(t *testing.T) {
	group.Need(t, "acme")
	script(t, "internal/test/acme/run")
}

// The pages of the dashboard work in a browser.
func TestBrowser(t *testing.T) {
	group.Need(t, "browser")
	var flags []string // none: the linters run, too
	if !group.Long() {
		flags = []string{"-vet=off"}
	}
	script(t, "internal/test/browser/run", flags...)
}

// The README works on a bare machine.
func TestBare(t *testing.T) {
	group.Need(t, "bare")
	tests := "short"
	if group.Long() {
		tests = "all"
	}
	script(t, ".ci/bare", tests)
}

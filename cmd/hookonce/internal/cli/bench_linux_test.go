package cli_test

import (
	"strings"
	"testing"
)

// Ctrl-C ends a measurement, and leaves nothing behind. The tests of package bench interrupt each one.
func TestBenchInterrupted(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := startSession(t, t.TempDir(), 80, []string{"TMPDIR=" + folder}, "bench", "--seconds", "1")
	s.await(t, "measuring receive")
	ctrlC(t, s)
	if code := s.end(t); code != 1 || !strings.Contains(s.plain(), "Error: interrupted: nothing is left behind\n") {
		t.Errorf("exit code %d", code)
	}
	if left := namesIn(t, folder); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

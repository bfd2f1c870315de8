package cli_test

import (
	"strings"
	"testing"
)

// Ctrl-C ends each measurement, and leaves nothing behind.
func TestBenchInterrupted(t *testing.T) {
	t.Parallel()
	for _, shown := range []string{"measuring fsync", "measuring receive", "measuring forward", "measuring take"} {
		t.Run(shown, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			s := startSession(t, t.TempDir(), 80, []string{"TMPDIR=" + folder}, "bench", "--seconds", "4")
			s.await(t, shown)
			ctrlC(t, s)
			if code := s.end(t); code != 1 || !strings.Contains(s.plain(), "Error: interrupted: nothing is left behind\n") {
				t.Errorf("exit code %d", code)
			}
			if left := namesIn(t, folder); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

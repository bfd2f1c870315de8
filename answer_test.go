package hookonce_test

import (
	"strings"
	"testing"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/problem"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// The answer to an event is the JSON that encoding/json writes, for any id.
func TestAnswerIsJSON(t *testing.T) {
	t.Parallel()
	for _, id := range append(rig.HostileTexts(), "", "evt_1", `a"b\c`, "<b>&'", "\x00\x1f\x7f", "\u2028é😀", strings.Repeat("x", 3000)) {
		for i := range 4 {
			duplicate, reopened := i%2 == 1, i/2 == 1
			answer := struct {
				Status   string `json:"status"`
				EventID  string `json:"event_id"`
				Reopened bool   `json:"reopened,omitempty"`
			}{"ok", id, reopened}
			if duplicate {
				answer.Status = "duplicate"
			}
			if want, got := problem.JSON(answer), hookonce.AnswerTo(id, duplicate, reopened); string(got) != string(want) {
				t.Errorf("answer %q, want %q", got, want)
			}
		}
	}
}

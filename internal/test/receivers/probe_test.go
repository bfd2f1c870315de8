package receivers

import (
	"bytes"
	"encoding/json"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/internal/test/program"
)

// answerTime is the check that depends on the speed of the machine.
const answerTime = "answer-time"

// steady are the checks whose verdict does not depend on the speed of the machine, for a receiver of
// Stripe's events: all but answerTime.
var steady = []string{
	"valid", "tampered", "wrong-secret", "no-signature", "old", "future", "several-signatures", "raw-body", "duplicate", "race",
	"after-failure", "other-body", "malformed", "oversized", "slow-body", "restart", "own-trouble",
}

// report is the output of "hookonce probe --json".
type report struct {
	Checks []struct {
		Name, Verdict, Sent, Saw, Why, Fix string
	}
	Passed, Failed, Unknown int

	exit int
}

// failed returns the names of the checks that do not pass.
func (r *report) failed() []string {
	var names []string
	for _, c := range r.Checks {
		if c.Verdict != "pass" {
			names = append(names, c.Name)
		}
	}
	return names
}

// names returns the names of all checks.
func (r *report) names() []string {
	var names []string
	for _, c := range r.Checks {
		names = append(names, c.Name)
	}
	return names
}

// String lists the checks that do not pass.
func (r *report) String() string {
	var b strings.Builder
	for _, c := range r.Checks {
		if c.Verdict != "pass" {
			b.WriteString(c.Name + " " + c.Verdict + ": sent " + c.Sent + ": " + c.Saw + ": " + c.Why + " " + c.Fix + "\n")
		}
	}
	return b.String()
}

// run runs the probe on a receiver, with further flags, and returns its output.
func (r *receiver) run(t *testing.T, flags ...string) (stdout string, exit int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program.Hookonce(t), slices.Concat([]string{"probe", r.url}, r.flags, []string{
		"--effects", r.command("/effects/{id}"), "--restart", r.command("/restart"),
		"--break", r.command("/trouble/on"), "--mend", r.command("/trouble/off"),
	}, flags)...)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	err := cmd.Run()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) || cmd.ProcessState.ExitCode() > 1 {
		t.Fatalf("%s: %v\n%s%s", cmd, err, &out, &stderr)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

// probe runs some checks of the probe on a receiver, or all if there are none, and returns its report.
func (r *receiver) probe(t *testing.T, checks ...string) *report {
	t.Helper()
	flags := []string{"--json"}
	if len(checks) > 0 {
		flags = append(flags, "--checks", strings.Join(checks, ","))
	}
	stdout, exit := r.run(t, flags...)
	found := &report{exit: exit}
	if err := json.Unmarshal([]byte(stdout), found); err != nil {
		t.Fatalf("%v in %s", err, stdout)
	}
	return found
}

// checkFailed checks that exactly the given checks of a report fail, and that the exit code tells.
func checkFailed(t *testing.T, found *report, want ...string) {
	t.Helper()
	if diff := cmp.Diff(sorted(want), sorted(found.failed())); diff != "" {
		t.Errorf("failed checks (-want +got):\n%s\n%s", diff, found)
	}
	if found.Failed != len(want) || found.Unknown != 0 || found.Passed+found.Failed != len(found.Checks) {
		t.Errorf("%d passed, %d failed, %d unknown of %d checks\n%s", found.Passed, found.Failed, found.Unknown, len(found.Checks), found)
	}
	if want := min(len(want), 1); found.exit != want {
		t.Errorf("the exit code is %d, want %d", found.exit, want)
	}
}

// sorted returns the names in order, and an empty list if there are none.
func sorted(names []string) []string {
	return append([]string{}, slices.Sorted(slices.Values(names))...)
}

package receivers

import (
	"cmp"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/internal/test/group"
)

// languages are the languages of the receivers, each with the command that runs its receiver.
var languages = map[string]func(t testing.TB) []string{
	"node":   func(t testing.TB) []string { return node(t, "receiver.js") },
	"python": func(t testing.TB) []string { return python(t, "receiver.py") },
}

// faults are the faults of a receiver.
var faults = []struct {
	name   string
	failed []string // the checks that find it
	broken string   // the table that the trouble is about; default: effects
	// again says that the work of an event is done again if a copy comes meanwhile. On a slow machine
	// the first attempt may still run when the check after-failure delivers the event again.
	again bool
	// long leaves the fault out of Python's receiver in short runs: it is not different there.
	long bool
}{
	{name: "slow-work", failed: []string{answerTime}},
	{name: "error-on-duplicate", failed: []string{"duplicate", "after-failure", "other-body", "restart"}, long: true},
	{name: "claim-before-work", failed: []string{"own-trouble"}},
	// The trouble lets the work commit, but not the claim behind it.
	{name: "claim-after-work", failed: []string{"race", "own-trouble"}, broken: "events", again: true, long: true},
	{name: "check-then-act", failed: []string{"race"}, broken: "events", again: true},
	{name: "in-memory", failed: []string{"restart"}},
	{name: "no-signature-check", failed: []string{"tampered", "wrong-secret", "no-signature", "old", "future", "raw-body"}, long: true},
	{name: "parsed-json", failed: []string{"raw-body"}},
	{name: "no-timestamp-window", failed: []string{"old", "future"}, long: true},
	{name: "future-accepted", failed: []string{"future"}, long: true},
	{name: "4xx-on-trouble", failed: []string{"own-trouble"}},
	{name: "body-hash", failed: []string{"other-body"}, long: true},
}

// TestFaults checks that each fault changes its own verdicts and no others.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, fault := range faults {
		for language, command := range languages {
			if fault.long && language == "python" && !group.Long() {
				continue
			}
			t.Run(language+"/"+fault.name, func(t *testing.T) {
				t.Parallel()
				checks := steady
				if slices.Contains(fault.failed, answerTime) { // it fails on any machine
					checks = append(slices.Clone(steady), answerTime)
				}
				found := start(t, fault.name, cmp.Or(fault.broken, "effects"), command(t)...).probe(t, checks...)
				want := slices.Clone(fault.failed)
				if fault.again && slices.Contains(found.failed(), "after-failure") {
					want = append(want, "after-failure")
				}
				checkFailed(t, found, want...)
			})
		}
	}
}

// TestRight checks that a right receiver passes, with trouble in each of its tables.
func TestRight(t *testing.T) {
	t.Parallel()
	for _, broken := range []string{"effects", "events"} {
		for language, command := range languages {
			t.Run(language+"/"+broken, func(t *testing.T) {
				t.Parallel()
				checkFailed(t, start(t, "", broken, command(t)...).probe(t, steady...))
			})
		}
	}
}

// TestAnswerTime checks the answer time of the right receivers. It is not parallel, because other tests
// would slow them down.
func TestAnswerTime(t *testing.T) {
	for language, command := range languages {
		checkFailed(t, start(t, "", "effects", command(t)...).probe(t, answerTime))
		if t.Failed() {
			t.Fatalf("with the receiver in %s", language)
		}
	}
}

// TestSteadyChecks checks that no check is left out: a probe of an address without a receiver lists all.
func TestSteadyChecks(t *testing.T) {
	t.Parallel()
	none := &receiver{
		url:     "http://" + freeAddress(t),
		flags:   []string{"--provider", "stripe", "--secret", secret},
		command: func(string) string { return "echo 0 # {id}" },
	}
	if diff := gocmp.Diff(append(slices.Clone(steady), answerTime), none.probe(t).names()); diff != "" {
		t.Errorf("the checks of the probe (-want +got):\n%s", diff)
	}
}

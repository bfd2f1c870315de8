package storetest

import (
	"slices"
	"testing"

	"github.com/hookonce/hookonce/internal/test/group"
)

// selection lists the cases that run, by group. A nil selection stands for all cases.
type selection map[string][]string

// The cases that run where only the transport is new: a pooler, or another client, in front of a store that runs all cases
// elsewhere. Most cases use it for the same kinds of statements, so these are the models, and of each group the cases that
// use things that it may break: several statements in a transaction, settings of a transaction, savepoints, waits for locks,
// cancelled statements, and sessions that end.
var (
	storeTransport = selection{
		"Claim":           {"ManyMixed", "DatabaseClock", "CancelledContext", "DroppedRow"},
		"Hostile":         {"BadRowFailsTheWholeClaim"},
		"BodyGuard":       {"WithinOneClaim"},
		"Reopen":          {"OldTokenIsFenced"},
		"Replay":          {"DatabaseClock", "RequestID"},
		"Reroute":         {"Sent", "SendToRequestID", "Parts"},
		"Undecided":       {"ReplayWithWork"},
		"DeadLetters":     {"Many"},
		"RetryMessage":    {"SendingOrSent"},
		"Lease":           {"DatabaseClock", "BuriedBesideLeased"},
		"Complete":        {"ManyMixed"},
		"Order":           {"EndWakesNext", "DiscardAndUndo", "Sweep"},
		"Stale":           {"AppliedInOneCall"},
		"Queued":          {"Recorded"},
		"CountDeliveries": {"Many"},
		"Evidence":        {"Retention"},
		"Events":          {"Filters"},
		"Listings":        {"PagesOfDeadLetters", "Quarantine"},
		"Walks":           {"ManyMessages"},
		"Stats":           {"Backlog"},
		"Figures":         {"Backlog"},
		"Refused":         {"Pages"},
		"Feed":            {"Read"},
		"Pause":           {"HurryInChunks"},
		"ErrorGroups":     {"Pages"},
		"Jobs":            {"Fence"},
		"Undiscard":       {"InSteps"},
		"NewDead":         {"Span"},
		"Secrets":         {"Replaced"},
		"Reconcile":       {"OneAtATime", "Missed"},
		"Prune":           {"Chunks", "DatabaseClock"},
		"PruneTurn":       {"OneAtATime", "InTurn"},
		"Health":          {"CancelledContext", "Prove"},
		"Model":           {"RandomSteps"},
	}
	concurrentTransport = selection{
		"Concurrent": {"TwoBatches", "Lease", "CompleteAgainstExpiry", "ReplayTwice", "Enqueue"},
	}
	workTransport = selection{
		"Take":       {"SideBySide", "DatabaseClock", "CancelledContext"},
		"Finish":     {"Many", "CancelledContext"},
		"Ended":      {"CommittedThenMore", "InABatch", "RolledBackInABatch", "KilledInABatch", "StatementFailed"},
		"Settle":     {"OfABatch", "AfterAnInterruption", "SeverWhileItIsUsed"},
		"SweepRuns":  {"Batch", "ALivingRun", "DatabaseClock"},
		"Reserve":    {"SideBySide"},
		"EventOrder": {"LowestFirst", "AdmitThenLate", "DiscardAndUndo"},
		"PullBack":   {"ARun"},
		"Versions":   {"HeldUntilTheEnd", "Concurrent"},
		"TakeClaim":  {"EndedByTheHandler", "WaitsForAnother"},
		"ClaimTx":    {"Rollback", "InsideARun", "WaitsForAnother"},
		"EnqueueTx":  {"Many"},
		"OutboxLife": {"LeaseRunsOut"},
		"Evidence":   {"RedactCausedMessages"},
		"Inline":     {"ClaimedMeanwhile", "FiledAgainstDelivery"},
		"History":    {"Attempts"},
		"Races":      {"FinishAgainstSweep", "Workers"},
		"Model":      {"RandomSteps"},
	}
)

// over returns the selection if only the transport is new, or nil if all cases run.
func over(transport bool, cases selection) selection {
	if !transport || group.Long() {
		return nil
	}
	return cases
}

// choose returns the cases of a group that run. Each group must have one, and each name of the selection a case.
func choose[C interface{ title() string }](t *testing.T, s selection, group string, cases []C) []C {
	t.Helper()
	if s == nil {
		return cases
	}
	chosen := slices.DeleteFunc(slices.Clone(cases), func(c C) bool { return !slices.Contains(s[group], c.title()) })
	if len(chosen) == 0 || len(chosen) != len(s[group]) {
		t.Fatalf("storetest: of a transport, the group %s is to run the cases %q, and has %d of them", group, s[group], len(chosen))
	}
	return chosen
}

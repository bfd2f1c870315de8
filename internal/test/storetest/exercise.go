package storetest

import (
	"slices"
	"testing"

	"github.com/hookonce/hookonce/driver"
)

// Features holds functions that need knowledge of one database, because the contract does not offer
// them.
type Features struct {
	// BadRow changes a claim so that the database, not the store, refuses its row with an error of
	// the class driver.ErrBadRow. The default puts a NUL byte into the type; PostgreSQL refuses it
	// as text.
	BadRow func(c *driver.Claim)

	// KillQueued makes the queued event of key dead, with lastError, like a consumer that gave up.
	// The contract has no method for it, because consumers work in SQL.
	KillQueued func(t *testing.T, s driver.Store, key driver.Key, lastError string)

	// MoveQueued moves the queued event of key to driver.StateRunning, or to driver.StateDone with
	// the time of processing, like a consumer. The contract has no method for it either.
	MoveQueued func(t *testing.T, s driver.Store, key driver.Key, state string)

	// Damage changes the rows of an event and of its messages by hand, as an operator may by mistake.
	Damage func(t *testing.T, s driver.Store, key driver.Key, how Damage)
	// Drop creates a trigger with the SQL of DropRow.
	Drop func(t *testing.T, s driver.Store, table string, key driver.Key)
	// Refuse begins a refusal of RefuseRow. allow ends it.
	Refuse func(t *testing.T, s driver.Store, table string, key driver.Key) (allow func())

	// Transport tells that the store runs all cases elsewhere, and only its way to the database is new, such as a pooler. Then
	// only the cases run that the way may break, and all cases in a long run.
	Transport bool
}

// Damage is a way to change rows by hand.
type Damage string

const (
	// EndlessTimes sets the times of an event and of its messages, apart from due_at, to the last
	// value of their columns.
	EndlessTimes Damage = "endless times"
	// BeginlessTimes sets them to the first value.
	BeginlessTimes Damage = "beginless times"
	// LastToken sets the tokens of the messages to the last value of their column.
	LastToken Damage = "last token"
)

// testCase is one case of a suite for single stores.
type testCase struct {
	name string
	run  func(f *fixture)
}

func (c testCase) title() string { return c.name }

// Exercise runs the suite for single stores. Each case calls open for a fresh, migrated, empty
// store. open registers its clean-up with t, and parallel tests may call it. Pass at most one
// Features; without it, the defaults apply.
func Exercise(t *testing.T, open func(t *testing.T) driver.Store, features ...Features) {
	t.Helper()
	with := oneFeatures(t, features)
	groups := []struct {
		name  string
		cases []testCase
	}{
		{"Claim", claimCases()},
		{"Hostile", hostileCases()},
		{"BodyGuard", bodyGuardCases()},
		{"Reopen", reopenCases()},
		{"Replay", replayCases()},
		{"Reroute", rerouteCases()},
		{"Undecided", undecidedCases()},
		{"DeadLetters", deadLetterCases()},
		{"RetryMessage", retryCases()},
		{"Lease", slices.Concat(leaseCases(), leaseClaimCases())},
		{"Complete", completeCases()},
		{"Stale", staleCases()},
		{"Order", orderCases()},
		{"Queued", queuedCases()},
		{"CountDeliveries", countCases()},
		{"Evidence", evidenceCases()},
		{"Events", eventCases()},
		{"Listings", listingCases()},
		{"Walks", walkCases()},
		{"Stats", statsCases()},
		{"Figures", figureCases()},
		{"Refused", refusedCases()},
		{"Feed", feedCases()},
		{"Pause", pauseCases()},
		{"ErrorGroups", groupCases()},
		{"Jobs", jobCases()},
		{"Undiscard", undiscardCases()},
		{"NewDead", newDeadCases()},
		{"Secrets", secretCases()},
		{"Reconcile", reconcileCases()},
		{"Prune", pruneCases()},
		{"PruneTurn", pruneTurnCases()},
		{"Health", healthCases()},
		{"Model", modelCases()},
	}
	only := over(with.Transport, storeTransport)
	for _, group := range groups {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range choose(t, only, group.name, group.cases) {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					f := &fixture{T: t, s: open(t), with: with}
					c.run(f)
					f.signed()
				})
			}
		})
	}
}

func oneFeatures(t *testing.T, features []Features) Features {
	t.Helper()
	if len(features) > 1 {
		t.Fatal("storetest: at most one Features may be given")
	}
	var with Features
	if len(features) == 1 {
		with = features[0]
	}
	if with.BadRow == nil {
		with.BadRow = func(c *driver.Claim) { c.Type = "bad\x00type" }
	}
	return with
}

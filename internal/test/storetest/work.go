package storetest

import (
	"context"
	"testing"

	"github.com/hookonce/hookonce/driver"
)

// Harness is what the suite of handlers' transactions cannot do through the
// contract: it works beside and inside of transactions of type T. All fields but
// SwallowedErrorCommits are needed.
type Harness[T any] struct {
	// Open returns a driver on a fresh, migrated database without events. It has a
	// table effects(name text) without any unique constraint. Open registers its
	// clean-up with t and may be called from parallel tests.
	Open func(t *testing.T) driver.Driver[T]

	// Second returns another driver on the database of d, as another process
	// would have one.
	Second func(t *testing.T, d driver.Driver[T]) driver.Driver[T]

	// Effect inserts name into the table effects.
	Effect func(ctx context.Context, tx T, name string) error

	// Fail runs a statement that the database refuses, and returns its error.
	Fail func(ctx context.Context, tx T) error

	// Commit and Rollback end the transaction of a run from inside, as a handler
	// may that does not know better.
	Commit, Rollback func(ctx context.Context, tx T) error

	// Begin begins a transaction that is the user's own. commit and rollback end
	// it; rollback after commit does nothing.
	Begin func(t *testing.T, d driver.Driver[T]) (tx T, commit, rollback func() error)

	// Effects counts the committed rows of the table effects by their name.
	Effects func(t *testing.T, d driver.Driver[T]) map[string]int

	// Interrupt makes a run of d look as if its process had died: the transaction
	// is gone, and its record is still there and would be found by a sweep. Up to four
	// runs of a driver are in that state at a time; later they are abandoned.
	Interrupt func(t *testing.T, d driver.Driver[T], run driver.Run[T])

	// SwallowedErrorCommits says that a transaction can be committed after one of
	// its statements has failed, as in SQLite.
	SwallowedErrorCommits bool
}

// workCase is one case of ExerciseWork.
type workCase[T any] struct {
	name string
	run  func(w *bench[T])
}

// ExerciseWork runs the suite over drivers: what takes events and claims into
// transactions in which a user's code works too. Each case opens a fresh one.
//
// What is asserted of a run that lasts is asserted of databases with one writer
// too: another writer may wait, and give up with an error, but must not get in.
func ExerciseWork[T any](t *testing.T, h Harness[T]) {
	t.Helper()
	groups := []struct {
		name  string
		cases []workCase[T]
	}{
		{"Take", takeCases[T]()},
		{"Finish", finishCases[T]()},
		{"Ended", endedCases[T]()},
		{"Settle", settleCases[T]()},
		{"SweepRuns", sweepCases[T]()},
		{"Reserve", reserveCases[T]()},
		{"Versions", versionCases[T]()},
		{"TakeClaim", takeClaimCases[T]()},
		{"ClaimTx", claimTxCases[T]()},
		{"EnqueueTx", enqueueCases[T]()},
		{"OutboxLife", outboxCases[T]()},
		{"Inline", inlineCases[T]()},
		{"History", historyCases[T]()},
		{"Races", workRaceCases[T]()},
		{"Model", workModelCases[T]()},
	}
	for _, group := range groups {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range group.cases {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					d := h.Open(t)
					c.run(&bench[T]{fixture: &fixture{T: t, s: d}, d: d, h: h})
				})
			}
		})
	}
}

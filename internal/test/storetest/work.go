package storetest

import (
	"context"
	"testing"

	"github.com/hookonce/hookonce/driver"
)

// Harness holds functions that the suite for handlers' transactions needs besides the contract:
// they work next to and inside transactions of type T. All fields except the bools are required.
type Harness[T any] struct {
	// Open returns a driver on a fresh, migrated database without events. The database has a table
	// effects(name text) without any unique constraint. Open registers its clean-up with t, and
	// parallel tests may call it.
	Open func(t *testing.T) driver.Driver[T]

	// Second returns another driver on the database of d, as in another process.
	Second func(t *testing.T, d driver.Driver[T]) driver.Driver[T]

	// Effect inserts name into the table effects.
	Effect func(ctx context.Context, tx T, name string) error

	// Fail runs a statement that the database refuses, and returns its error.
	Fail func(ctx context.Context, tx T) error

	// Commit and Rollback end the transaction of a run from inside, like a faulty handler.
	Commit, Rollback func(ctx context.Context, tx T) error

	// Begin begins a transaction of the user's own. commit and rollback end it; rollback after
	// commit does nothing.
	Begin func(t *testing.T, d driver.Driver[T]) (tx T, commit, rollback func() error)

	// Effects counts the committed rows of the table effects by name.
	Effects func(t *testing.T, d driver.Driver[T]) map[string]int

	// Interrupt makes a run of d look as if its process had died: its transaction is gone, but its
	// record still exists and a sweep would find it. Up to four runs of a driver are interrupted at
	// a time; later they are abandoned.
	Interrupt func(t *testing.T, d driver.Driver[T], run driver.Run[T])

	// Drop creates a trigger with the SQL of DropRow.
	Drop func(t *testing.T, d driver.Driver[T], table string, key driver.Key)
	// Refuse begins a refusal of RefuseRow. allow ends it.
	Refuse func(t *testing.T, d driver.Driver[T], table string, key driver.Key) (allow func())

	// NextTells reports whether the store records Run.Next, so that a sweep can tell the events of a
	// batch apart whose handler committed by itself.
	NextTells bool

	// Transport tells that the driver runs all cases elsewhere, and only its way to the database is new, such as a pooler. Then
	// only the cases run that the way may break, and all cases in a long run.
	Transport bool

	// SwallowedErrorCommits reports whether a transaction can be committed after one of its
	// statements has failed, as in SQLite.
	SwallowedErrorCommits bool
}

// workCase is one case of ExerciseWork.
type workCase[T any] struct {
	name string
	run  func(w *bench[T])
}

func (c workCase[T]) title() string { return c.name }

// ExerciseWork runs the suite for drivers: the methods that take events and claims into
// transactions together with a user's code. Each case opens a fresh driver.
//
// Cases with a long run must also hold for databases with one writer: another writer may wait, and
// fail with an error, but must not get in.
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
		{"EventOrder", eventOrderCases[T]()},
		{"PullBack", pullBackCases[T]()},
		{"Versions", versionCases[T]()},
		{"TakeClaim", takeClaimCases[T]()},
		{"ClaimTx", claimTxCases[T]()},
		{"EnqueueTx", enqueueCases[T]()},
		{"OutboxLife", outboxCases[T]()},
		{"Evidence", workEvidenceCases[T]()},
		{"Inline", inlineCases[T]()},
		{"History", historyCases[T]()},
		{"Races", workRaceCases[T]()},
		{"Model", workModelCases[T]()},
	}
	only := over(h.Transport, workTransport)
	for _, group := range groups {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range choose(t, only, group.name, group.cases) {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					d := h.Open(t)
					w := &bench[T]{fixture: &fixture{T: t, s: d}, d: d, h: h}
					c.run(w)
					w.signed()
				})
			}
		})
	}
}

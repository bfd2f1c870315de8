package driver

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"
)

// Reconciling keeps how far the lists of providers' APIs were looked at. A look is leased, so that one process at a
// time makes it.
type Reconciling interface {
	// TakeReconcile leases the look at the list of a source, if it is due, and returns its state. It returns nil if it
	// is not due, or another process holds it. A source without a state, or with that of another list, begins now,
	// and its first look is due.
	TakeReconcile(ctx context.Context, p *TakeReconcileParams) (*Reconcile, error)

	// StepReconcile records the progress of a leased look, and prolongs the lease or ends it. It reports whether the
	// lease was still held; if not, nothing was changed.
	StepReconcile(ctx context.Context, p *ReconcileStep) (bool, error)

	// Reconciles returns the states of those of the sources that have one, by source.
	Reconciles(ctx context.Context, sources []string) ([]Reconcile, error)

	// ForgetReconciles removes the states of the sources.
	ForgetReconciles(ctx context.Context, sources []string) error
}

// MissedKept is how long the events that looks found missing are added up: a look that finds some later begins again.
const MissedKept = 24 * time.Hour

// Reconcile says how far a list was looked at.
type Reconcile struct {
	Source      string
	List        [sha256.Size]byte // which list
	BeganAt     time.Time         // nothing older than its second is looked at
	DoneUntil   time.Time         // all events up to then were looked at
	Fence       int64             // of the lease
	LeasedUntil time.Time         // a time that has passed: no process holds it
	NextAt      time.Time         // when the next look is due
	EndedAt     time.Time         // of the last look; zero before the first one has ended
	Error       string            // of the last look; "" if it succeeded
	Unreadable  int64             // events that the last look left out
	// Missed counts events that looks found missing and claimed, until FoundAt; zero times if there are none.
	// FirstMissing and LastMissing are the times of the oldest and the newest.
	Missed                             int64
	FoundAt, FirstMissing, LastMissing time.Time
	Now                                time.Time // by the store's clock
}

// TakeReconcileParams are the parameters of Reconciling.TakeReconcile.
type TakeReconcileParams struct {
	Source string
	List   [sha256.Size]byte
	// Lease is how long the lease lasts, and Every the time between looks: a lease or a look that is farther ahead was
	// put there by a clock that was ahead, and is free or due.
	Lease, Every time.Duration
	Now          time.Time // for tests; zero is the store's clock
}

// Check returns an error that matches ErrBadRow if p cannot be stored.
func (p *TakeReconcileParams) Check() error {
	if p.Source == "" || !IsText(p.Source) || p.Lease <= 0 || p.Every <= 0 {
		return fmt.Errorf("%w: a source, a lease and a time between looks are needed", ErrBadRow)
	}
	return nil
}

// ReconcileStep is the progress of a look since its last step.
type ReconcileStep struct {
	Source string
	Fence  int64
	Lease  time.Duration
	// Missed events were claimed, and the oldest and newest happened at FirstMissing and LastMissing.
	Missed                    int64
	FirstMissing, LastMissing time.Time
	// End ends the look, if it is not nil.
	End *ReconcileEnd
	Now time.Time // for tests; zero is the store's clock
}

// ReconcileEnd is the end of a look.
type ReconcileEnd struct {
	DoneUntil  time.Time // zero: as before
	Next       time.Duration
	Error      string // "" if it succeeded
	Unreadable int64
}

// Check returns an error that matches ErrBadRow if p cannot be stored.
func (p *ReconcileStep) Check() error {
	if p.Lease <= 0 || p.Missed < 0 || p.Missed > 0 && (p.FirstMissing.IsZero() || p.LastMissing.IsZero()) {
		return fmt.Errorf("%w: a lease is needed, and the times of missing events", ErrBadRow)
	}
	if p.End != nil && (p.End.Next <= 0 || !IsText(p.End.Error) || len(p.End.Error) > MaxReconcileError) {
		return fmt.Errorf("%w: the time to the next look, or the error, is out of bounds", ErrBadRow)
	}
	return nil
}

// MaxReconcileError bounds ReconcileEnd.Error, in bytes.
const MaxReconcileError = 1000

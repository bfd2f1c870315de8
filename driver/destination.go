package driver

import (
	"context"
	"fmt"
	"time"
)

// DestinationControl acts on all messages of a destination. A destination is its name: the store does
// not know the settings.
type DestinationControl interface {
	// PauseDestination keeps Lease and Claim from leasing messages of a destination until
	// ResumeDestination, in every process and also after restarts. Calls that begin after its return lease
	// none and bury none; leases that are held go on. The messages keep their attempts and their due times. It
	// returns the time of the pause, which a second call does not change.
	PauseDestination(ctx context.Context, p *PauseParams) (time.Time, error)

	// ResumeDestination ends a pause, and reports whether there was one.
	ResumeDestination(ctx context.Context, destination string) (bool, error)

	// PausedDestinations returns the paused destinations by name.
	PausedDestinations(ctx context.Context) ([]PausedDestination, error)

	// HurryMessages makes the pending messages of a destination that are due later due now, the
	// earliest first, at most p.Limit. Their attempts and generations stay. It skips messages that
	// another session has locked, and returns how many it changed.
	HurryMessages(ctx context.Context, p *HurryParams) (int, error)

	// Failures returns open and dead messages of each of these destinations with their last failed
	// attempt: the newest first, at most limit of each. Of more than 3 * FailureCandidates such messages
	// of a destination it looks only at those that are due next or last, and at the newest dead ones.
	Failures(ctx context.Context, destinations []string, limit int) ([]Failure, error)
}

// FailureCandidates bounds the messages that Failures reads of a destination, of each kind.
const FailureCandidates = 100

// Failure is the last failed attempt to send a message that was not sent since.
type Failure struct {
	Destination string
	MessageID   string
	Source      string // of the event, or of the enqueued message
	EventID     string
	Type        string
	Attempt     int
	StatusCode  int // 0: there was no answer
	Error       string
	At          time.Time
}

// PauseParams are the parameters of DestinationControl.PauseDestination.
type PauseParams struct {
	Destination string
	Now         time.Time // tests only; zero means the database's clock
}

// Check returns an error that matches ErrBadRow if a store cannot store the parameters.
func (p *PauseParams) Check() error {
	if p.Destination == "" || !IsText(p.Destination) {
		return fmt.Errorf("%w: the name of a destination must be valid UTF-8 without NUL, and not empty, got %.40q", ErrBadRow, p.Destination)
	}
	return nil
}

// PausedDestination is a destination whose messages are not leased.
type PausedDestination struct {
	Destination string
	At          time.Time // of the pause
}

// MaxHurry is the largest HurryParams.Limit: one call is one transaction.
const MaxHurry = 1000

// HurryParams are the parameters of DestinationControl.HurryMessages.
type HurryParams struct {
	Destination string
	Limit       int       // 1 to MaxHurry
	Now         time.Time // tests only; zero means the database's clock
}

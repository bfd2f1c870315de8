package driver

import (
	"context"
	"time"
)

// DeadNews are the new dead letters of a span of time, and messages that tell of them.
type DeadNews interface {
	// NewDead returns dead letters that died in a span of time, the first to die first: at most
	// MaxNewDead. It leaves out those that are not dead any more, and messages with SummaryPrefix.
	NewDead(ctx context.Context, p *NewDeadParams) ([]NewDead, error)

	// Enqueue is Driver.EnqueueTx in a transaction of its own.
	Enqueue(ctx context.Context, messages []OutboxMessage) error
}

// MaxNewDead is the largest number of dead letters that NewDead returns.
const MaxNewDead = 1000

// NewDeadParams are the parameters of DeadNews.NewDead.
type NewDeadParams struct {
	Destinations []string  // of dead messages
	Sources      []string  // of events that are dead themselves
	Routes       []string  // that were undecided about events, which are dead themselves
	Since        time.Time // died at or after
	Until        time.Time // died before
}

// UndecidedErrors returns the recorded errors of events that Routes were undecided about; never nil.
func (p *NewDeadParams) UndecidedErrors() []string {
	errs := make([]string, len(p.Routes))
	for i, route := range p.Routes {
		errs[i] = NoteUndecided + route
	}
	return errs
}

// NewDead is a dead letter.
type NewDead struct {
	Destination string // "" for an event that is dead itself
	MessageID   string // "" for an event that is dead itself
	Source      string
	EventID     string
	Error       string // at most its first 1000 characters
	FailedAt    time.Time
}

// SummaryPrefix begins the id of each message that tells of dead letters. No message tells of its death.
const SummaryPrefix = "dead_letters_"

package hookonce

import (
	"context"

	"github.com/hookonce/hookonce/driver"
)

// Inbox is an Engine that runs handlers in transactions of type T.
type Inbox[T any] struct {
	*Engine
	db driver.Driver[T]
}

// New checks cfg and returns an Inbox on db, whose handlers are in mux; a nil mux
// has none. All faults of cfg are reported at once. Nothing runs until Run is
// called, but deliveries are claimed already.
func New[T any](db driver.Driver[T], mux *Mux[T], cfg *Config) (*Inbox[T], error) {
	if db == nil {
		return nil, errNoStore
	}
	engine, err := newEngine(db, cfg, newWorks(db, mux))
	if err != nil {
		return nil, err
	}
	return &Inbox[T]{engine, db}, nil
}

// ClaimTx claims the events of a verified delivery in the caller's transaction,
// and tells for each what it found, in the order of d.Events. The work is the
// caller's: for each event that is Claimed, in the same transaction, before
// committing it. Only then answer 2xx; see Accept. Handlers are not run, and
// stale rules are not looked at.
//
// A copy of an event that another transaction is about to claim waits for it, as
// long as ctx allows, and a second at most; then the error matches
// driver.ErrLockTimeout. After an error roll back, and answer with Refuse. Where
// the outcome of the commit is not known, answer with Refuse too: the sender's
// retry settles it.
func (in *Inbox[T]) ClaimTx(ctx context.Context, tx T, d *Delivery) ([]Claimed, error) {
	return in.claimTx(ctx, d, func(ctx context.Context, p *driver.ClaimParams) ([]driver.ClaimResult, error) {
		return in.db.ClaimTx(ctx, tx, p)
	})
}

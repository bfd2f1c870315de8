package rig

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/hookonce/hookonce/driver"
)

// FaultStore is a real store that calls Before in front of each Claim. Before can fail the claim,
// hold it, or let it pass.
type FaultStore struct {
	driver.Store
	Before     func(ctx context.Context, p *driver.ClaimParams) error
	Concurrent int          // claims at a time; 0 asks the store
	Calls      atomic.Int64 // of Claim
}

// Claim implements driver.Store.
func (s *FaultStore) Claim(ctx context.Context, p *driver.ClaimParams) ([]driver.ClaimResult, error) {
	s.Calls.Add(1)
	if err := s.Before(ctx, p); err != nil {
		return nil, err
	}
	return s.Store.Claim(ctx, p)
}

// ClaimConcurrency implements driver.Store.
func (s *FaultStore) ClaimConcurrency() int {
	if s.Concurrent > 0 {
		return s.Concurrent
	}
	return s.Store.ClaimConcurrency()
}

// Holds reports whether a call of Claim has an event with one of ids.
func Holds(p *driver.ClaimParams, ids ...string) bool {
	return slices.ContainsFunc(p.Claims, func(c driver.Claim) bool { return slices.Contains(ids, c.EventID) })
}

// FailFor fails every call of Claim with one of ids, as a database refuses a whole statement for one
// row.
func FailFor(err error, ids ...string) func(context.Context, *driver.ClaimParams) error {
	return func(_ context.Context, p *driver.ClaimParams) error {
		if Holds(p, ids...) {
			return fmt.Errorf("%w: injected", err)
		}
		return nil
	}
}

// Gate holds claims until Open is closed. It closes Arrived when the first one comes.
type Gate struct {
	Open, Arrived chan struct{}
	ids           []string
	once          sync.Once
}

// NewGate returns a gate for the claims of ids; without any, for all.
func NewGate(ids ...string) *Gate {
	return &Gate{Open: make(chan struct{}), Arrived: make(chan struct{}), ids: ids}
}

// Hold is a FaultStore.Before.
func (g *Gate) Hold(ctx context.Context, p *driver.ClaimParams) error {
	if len(g.ids) > 0 && !Holds(p, g.ids...) {
		return nil
	}
	g.once.Do(func() { close(g.Arrived) })
	select {
	case <-g.Open:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", driver.ErrCommitUnknown, ctx.Err())
	}
}

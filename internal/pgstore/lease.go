package pgstore

import (
	"context"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// leaseSQL leases messages, by a function of the schema that each session plans once.
var leaseSQL = `
SELECT used_up, expired, id, event_key, token, attempts, generation, source, event_id, type, route,
	` + bounded("received_at") + `, replayed, headers, body, ` + bounded("due_at") + `, leased_at
FROM {schema}.lease($1::text, $2::int, $3::bigint, $4::int, $5::bool, $6::timestamptz, $7::timestamptz)`

// dueDestinationsSQL looks for due messages, by a function of the schema that each session plans once. It
// returns no paused destination.
const dueDestinationsSQL = `SELECT destination, is_due, looked_at FROM {schema}.due_destinations($1::text[], $2::timestamptz[])`

// DueDestinations implements [driver.Store].
func (s *Store) DueDestinations(ctx context.Context, destinations []string) ([]string, error) {
	if len(destinations) == 0 {
		return nil, nil
	}
	looks, since := s.marks.beginAll("due messages", destinations)
	var due []string
	err := read(ctx, s.pools.Work, "looking for due messages", func(r Rows) error {
		var name string
		var found bool
		var now time.Time
		if err := r.Scan(&name, &found, &now); err != nil {
			return err
		}
		if found {
			due = append(due, name)
			return nil
		}
		looks[name].end(now, now)
		return nil
	}, s.sql.dueDestinations, destinations, since)
	if err != nil {
		return nil, err
	}
	return due, nil
}

// Lease implements [driver.Store].
func (s *Store) Lease(ctx context.Context, p *driver.LeaseParams) (*driver.Leased, error) {
	all := &driver.Leased{}
	if p.Limit <= 0 {
		return all, nil
	}
	for range driver.MaxLeaseRounds {
		leased, err := s.leaseOnce(ctx, p)
		switch {
		case err == nil:
		case len(all.Buried) > 0:
			// The buried messages are dead for good, and no later call would return them.
			return all, nil
		default:
			return nil, err
		}
		all.Messages, all.Buried = leased.Messages, append(all.Buried, leased.Buried...)
		// If all due messages had used up their attempts, there may be more.
		if len(leased.Messages) > 0 || len(leased.Buried) == 0 {
			break
		}
	}
	return all, nil
}

func (s *Store) leaseOnce(ctx context.Context, p *driver.LeaseParams) (*driver.Leased, error) {
	leased := &driver.Leased{}
	limit := min(p.Limit, maxLease)
	k := s.marks.begin(queue{"lease", p.Destination}, "", p.Now)
	if p.Untried {
		k = look{}
	}
	var due, now time.Time // of the last message
	err := s.writeBinary(ctx, "leasing messages", func(r Rows) error {
		m := driver.Message{Destination: p.Destination}
		var usedUp bool
		var key []byte
		var attempt, generation int32
		if err := r.Scan(&usedUp, &m.Expired, &m.ID, &key, &m.Token, &attempt, &generation,
			&m.Source, &m.EventID, &m.Type, &m.Route, &m.ReceivedAt, &m.Replayed, &m.Headers, &m.Body, &due, &now); err != nil {
			return err
		}
		m.Key, m.Attempt, m.Generation, m.ReceivedAt = driver.Key(key), int(attempt), int(generation), m.ReceivedAt.UTC()
		if usedUp {
			m.Token = 0 // the lease is over
			leased.Buried = append(leased.Buried, m)
			return nil
		}
		leased.Messages = append(leased.Messages, m)
		return nil
	}, &s.sql.lease, p.Destination, int32(limit), p.For.Microseconds(), int32(p.MaxAttempts), p.Untried, clock(p.Now), k.from)
	if err != nil {
		return nil, err
	}
	if len(leased.Messages)+len(leased.Buried) < limit {
		due = now // it leased all that were due
	}
	k.end(due, now)
	return leased, nil
}

// maxLease is the most messages of one lease.
const maxLease = 10_000

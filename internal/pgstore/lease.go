package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// leaseSQL leases messages, by a function of the schema that each session plans once.
var leaseSQL = statement(`
SELECT used_up, expired, id, event_key, token, attempts, generation, source, event_id, type, route,
	` + bounded("received_at") + `, replayed, headers, body, ` + bounded("due_at") + `, leased_at
FROM {schema}.lease($1::text, $2::int, $3::bigint, $4::int, $5::bool, $6::timestamptz, $7::timestamptz,
	$8::text[], $9::bool)`)

// frontMessageSQL returns the id of the message that lease would lease first.
var frontMessageSQL = statement(`
SELECT m.id
FROM {schema}.message m
WHERE m.destination = $1::text AND m.state IN (0, 1) AND m.due_at <= coalesce($2::timestamptz, now()) AND m.id <> ALL ($3::text[])
ORDER BY m.due_at
LIMIT 1
FOR UPDATE SKIP LOCKED`)

// dueDestinationsSQL looks for due messages, by a function of the schema that each session plans once. It
// returns no paused destination.
var dueDestinationsSQL = statement(`SELECT destination, is_due, looked_at FROM {schema}.due_destinations($1::text[], $2::timestamptz[])`)

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
	}, s.text(dueDestinationsSQL), destinations, since)
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
		leased, err := s.leaseOnce(ctx, p, false)
		if mayBeOfMessage(err) {
			leased, err = s.leaseApart(ctx, p)
		}
		switch {
		case err == nil:
		case len(all.Buried) > 0:
			// The buried messages are dead for good, and no later call would return them.
			return all, nil
		default:
			return nil, err
		}
		all.Messages, all.Buried = leased.Messages, append(all.Buried, leased.Buried...)
		all.Refused, all.More = append(all.Refused, leased.Refused...), leased.More
		// If all due messages had used up their attempts, there may be more. A refused one would be named again.
		if len(leased.Messages) > 0 || len(leased.Buried) == 0 || len(leased.Refused) > 0 {
			break
		}
	}
	return all, nil
}

// leaseApart leases messages after the database has refused one of them: the half, a quarter, and so on. If it refuses
// the first one alone, that one is leased without its body or, if that is refused too, reported.
func (s *Store) leaseApart(ctx context.Context, p *driver.LeaseParams) (*driver.Leased, error) {
	fewer := *p
	fewer.Untried = false // frontMessageSQL looks in the same order
	leased, refusal := halving(min(p.Limit, maxLease), func(limit int) (*driver.Leased, error) {
		fewer.Limit = limit
		return s.leaseOnce(ctx, &fewer, false)
	}, mayBeOfMessage)
	if refusal == nil {
		leased.More = true
		return leased, nil
	}
	if !mayBeOfMessage(refusal) {
		return nil, refusal
	}
	leased, err := s.leaseUnread(ctx, &fewer)
	if mayBeOfMessage(err) {
		return s.leasePast(ctx, &fewer, refusal)
	}
	return leased, err
}

// leaseUnread leases one message without its body, and then reads the body. If it cannot tell whether the body can be read, it
// gives the lease back.
func (s *Store) leaseUnread(ctx context.Context, p *driver.LeaseParams) (*driver.Leased, error) {
	leased, err := s.leaseOnce(ctx, p, true)
	if err != nil {
		return nil, err
	}
	leased.More = true
	for i := range leased.Messages {
		m := &leased.Messages[i]
		if m.Headers, m.Body, m.Unreadable, err = s.readAgain(ctx, m.Key); err != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
			defer cancel()
			lease := driver.MessageLease{ID: m.ID, Token: m.Token}
			return nil, errors.Join(err, s.Release(ctx, &driver.ReleaseParams{Leases: []driver.MessageLease{lease}}))
		}
	}
	return leased, nil
}

// halving calls f with half of limit, a quarter, and so on, while its error is a fault of a row. It ends at 1.
func halving[T any](limit int, f func(limit int) (T, error), isFault func(error) bool) (T, error) {
	for {
		limit = max(1, limit/2)
		result, err := f(limit)
		if err == nil || limit == 1 || !isFault(err) {
			return result, err
		}
	}
}

// mayBeOfMessage reports whether one message may be why a lease failed: see mayBeOfRow. A damaged body may ask for a
// compression that the server does not have.
func mayBeOfMessage(err error) bool { return mayBeOfRow(err) || SQLState(err) == codeNotSupported }

// leasePast names the first due messages, which the database refused to change, and leases the next one. A reason that may
// concern all is that of these messages only if another one is leased, or if there is just one. After many it tries the newest.
func (s *Store) leasePast(ctx context.Context, p *driver.LeaseParams, refusal error) (*driver.Leased, error) {
	var refused []driver.RefusedMessage
	unsure := 0
	for {
		front := ""
		err := write(ctx, s.pools.Work, "looking for a refused message", func(r Rows) error { return r.Scan(&front) },
			s.text(frontMessageSQL), p.Destination, clock(p.Now), notNilText(p.Skip))
		if err != nil {
			return nil, err
		}
		if front != "" {
			p.Skip = append(slices.Clip(p.Skip), front)
			refused = append(refused, driver.RefusedMessage{ID: front, Err: refusal})
			if !isOwnFault(refusal) {
				unsure++
			}
		}
		p.Untried = len(refused) >= maxPassedOver
		leased, err := s.leaseOnce(ctx, p, false)
		if isUnreadable(err) {
			leased, err = s.leaseUnread(ctx, p)
		}
		switch {
		case isOwnFault(err): // its turn comes
			return &driver.Leased{Refused: refused, More: true}, nil
		case err == nil && (unsure <= 1 || len(leased.Messages)+len(leased.Buried) > 0):
			leased.Refused, leased.More = refused, true
			return leased, nil
		case mayBeOfMessage(err) && !p.Untried && front != "":
			refusal = err
			continue
		case err != nil:
			refusal = err
		}
		if own := slices.DeleteFunc(refused, func(m driver.RefusedMessage) bool { return !isOwnFault(m.Err) }); len(own) > 0 {
			return &driver.Leased{Refused: own, More: true}, nil
		}
		return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, refusal)
	}
}

// isOwnFault reports whether a message is refused for a reason that lies in its row.
func isOwnFault(err error) bool {
	return errors.Is(err, driver.ErrBadRow) && SQLState(err) != codeNoRights
}

// leaseOnce leases messages by one statement, if unread without headers and bodies.
func (s *Store) leaseOnce(ctx context.Context, p *driver.LeaseParams, unread bool) (*driver.Leased, error) {
	leased := &driver.Leased{}
	limit := min(p.Limit, maxLease)
	k := s.marks.begin(queue{"lease", p.Destination}, "", p.Now)
	if p.Untried || len(p.Skip) > 0 { // they leave due messages behind
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
	}, s.statement(leaseSQL), p.Destination, int32(limit), p.For.Microseconds(), int32(p.MaxAttempts), p.Untried, clock(p.Now), k.from,
		notNilText(p.Skip), unread)
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

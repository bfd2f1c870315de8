package pgstore

import (
	"context"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// leaseSQL leases messages that were due at $6 or later, with {only} as a further condition and
// {direction} as the order. It
// makes a message without attempts left dead, because its last lease ran out or the limit was
// lowered. It records an attempt whose lease ran out as retried or as the last one, because the
// outcome stays unknown. It buries a message whose token cannot grow too, so that such a row does not
// fail the leases of all others.
//
// Its commit is durable before a message is sent, and so is every commit before it, whatever the
// sessions of its claim or its handler were set to.
var leaseSQL = `
WITH setting AS MATERIALIZED (
	SELECT coalesce($5::timestamptz, now()) AS now, {schema}.durably() AS durable
), due AS MATERIALIZED (
	SELECT m.id, m.due_at, m.generation, m.attempts, m.state = 1 AS expired,
		m.token = 9223372036854775807 AS stuck, m.attempts >= $4::int OR m.token = 9223372036854775807 AS used_up
	FROM {schema}.message m
	WHERE m.destination = $1::text AND m.state IN (0, 1)
		AND m.due_at >= coalesce($6::timestamptz, '-infinity') AND m.due_at <= (SELECT now FROM setting) {only}
		AND ` + notPausedSQL + `
	ORDER BY m.due_at {direction}
	LIMIT $2::int
	FOR UPDATE SKIP LOCKED
), changed AS (
	UPDATE {schema}.message m
	SET state = CASE WHEN due.used_up THEN 3 ELSE 1 END,
		attempts = CASE WHEN due.used_up THEN m.attempts ELSE m.attempts + 1 END,
		token = CASE WHEN due.used_up THEN m.token ELSE m.token + 1 END,
		due_at = CASE WHEN due.used_up THEN m.due_at ELSE setting.now + $3::bigint * interval '1 microsecond' END,
		failed_at = CASE WHEN due.used_up THEN setting.now END,
		last_error = CASE WHEN due.stuck THEN '` + driver.ErrorTokenUsedUp + `'
			WHEN due.used_up AND due.expired THEN '` + driver.ErrorLastLeaseRanOut + `' ELSE m.last_error END
	FROM due, setting
	WHERE m.id = due.id
	RETURNING m.id, m.event_key, m.token, m.attempts, m.generation, m.route, m.destination, m.replayed,
		due.due_at, due.expired, due.used_up
), tried AS (
	INSERT INTO {schema}.attempt (message_id, generation, number, outcome, error, at, took)
	SELECT id, generation, attempts, CASE WHEN used_up THEN 3 ELSE 2 END,
		CASE WHEN used_up THEN '` + driver.ErrorLastLeaseRanOut + `' ELSE '` + driver.ErrorLeaseRanOut + `' END,
		setting.now, 0
	FROM due, setting
	WHERE expired
	ON CONFLICT DO NOTHING
)
SELECT c.used_up, c.expired, c.id, c.event_key, c.token, c.attempts, c.generation, e.source, e.event_id, e.type,
	c.route, c.destination, ` + bounded("e.received_at") + `, c.replayed,
	CASE WHEN NOT c.used_up THEN e.headers END, CASE WHEN NOT c.used_up THEN e.body END,
	` + bounded("c.due_at") + `, setting.now
FROM changed c
CROSS JOIN setting
CROSS JOIN LATERAL (SELECT * FROM {schema}.event e WHERE e.key = c.event_key LIMIT 1) e
ORDER BY c.due_at {direction}, c.id`

// dueDestinationsSQL looks for the first due message of each destination in the index on due messages,
// from a time on; for any message the planner would read the table. It returns no paused destination.
const dueDestinationsSQL = `
SELECT i.destination, due.found IS NOT NULL, now()
FROM unnest($1::text[], $2::timestamptz[]) AS i (destination, since)
LEFT JOIN LATERAL (
	SELECT true AS found FROM {schema}.message m
	WHERE m.state IN (0, 1)
		AND (m.destination, m.due_at) >= (i.destination, coalesce(i.since, '-infinity'))
		AND (m.destination, m.due_at) <= (i.destination, now())
	ORDER BY m.destination, m.due_at
	LIMIT 1
) due ON true
WHERE NOT EXISTS (SELECT FROM {schema}.paused_destination p WHERE p.destination = i.destination)`

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

// leaseIn returns leaseSQL with a further condition, and with a direction of ORDER BY.
func leaseIn(only, direction string) string {
	return strings.NewReplacer("{only}", only, "{direction}", direction).Replace(leaseSQL)
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
	sql := s.sql.leaseOldest
	k := s.marks.begin(queue{"lease", p.Destination}, "", p.Now)
	if p.Untried {
		sql, k = s.sql.leaseUntried, look{}
	}
	var due, now time.Time // of the last message
	err := write(ctx, s.pools.Work, "leasing messages", func(r Rows) error {
		var m driver.Message
		var usedUp bool
		var key []byte
		var attempt, generation int32
		if err := r.Scan(&usedUp, &m.Expired, &m.ID, &key, &m.Token, &attempt, &generation,
			&m.Source, &m.EventID, &m.Type, &m.Route, &m.Destination, &m.ReceivedAt, &m.Replayed, &m.Headers, &m.Body,
			&due, &now); err != nil {
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
	}, sql, p.Destination, int32(limit), p.For.Microseconds(), int32(p.MaxAttempts), clock(p.Now), k.from)
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

package pgstore

import (
	"context"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// leaseSQL leases what is due. A message with no attempt left, because its last
// lease ran out or the limit was lowered, is made dead; how many were is in
// every row, and there is one row without a message if nothing was leased.
const leaseSQL = `
WITH setting AS MATERIALIZED (
	SELECT coalesce($5::timestamptz, now()) AS now
), due AS MATERIALIZED (
	SELECT m.id, m.due_at, m.state, m.attempts >= $4::int AS used_up
	FROM {schema}.message m
	WHERE m.destination = $1::text AND m.state IN (0, 1) AND m.due_at <= (SELECT now FROM setting)
	ORDER BY m.due_at
	LIMIT $2::int
	FOR UPDATE SKIP LOCKED
), dead AS (
	UPDATE {schema}.message m
	SET state = 3, failed_at = setting.now,
		last_error = CASE due.state WHEN 1 THEN 'the lease ran out on the last attempt' ELSE m.last_error END
	FROM due, setting
	WHERE m.id = due.id AND due.used_up
	RETURNING m.id
), leased AS (
	UPDATE {schema}.message m
	SET state = 1, attempts = m.attempts + 1, token = m.token + 1,
		due_at = setting.now + $3::bigint * interval '1 microsecond'
	FROM due, setting
	WHERE m.id = due.id AND NOT due.used_up
	RETURNING m.id, m.event_key, m.token, m.attempts, m.generation, m.route, m.destination, due.due_at
)
SELECT d.n, l.id, l.event_key, l.token, l.attempts, l.generation, e.source, e.event_id, e.type,
	l.route, l.destination, e.received_at, e.headers, e.body
FROM (SELECT count(*) AS n FROM dead) d
LEFT JOIN (
	leased l
	CROSS JOIN LATERAL (SELECT * FROM {schema}.event e WHERE e.key = l.event_key LIMIT 1) e
) ON true
ORDER BY l.due_at, l.id`

// Lease implements [driver.Store].
func (s *Store) Lease(ctx context.Context, p *driver.LeaseParams) ([]driver.Message, error) {
	if p.Limit <= 0 {
		return nil, nil
	}
	for {
		messages, dead, err := s.leaseOnce(ctx, p)
		// Where all that was due had used up its attempts, there may be more.
		if err != nil || len(messages) > 0 || dead == 0 {
			return messages, err
		}
	}
}

func (s *Store) leaseOnce(ctx context.Context, p *driver.LeaseParams) (messages []driver.Message, dead int64, err error) {
	err = write(ctx, s.pools.Work, "leasing messages", func(r Rows) error {
		var id, source, eventID, kind, route, destination *string
		var key, headers, body []byte
		var token *int64
		var attempt, generation *int32
		var receivedAt *time.Time
		if err := r.Scan(&dead, &id, &key, &token, &attempt, &generation, &source, &eventID, &kind,
			&route, &destination, &receivedAt, &headers, &body); err != nil {
			return err
		}
		if id == nil {
			return nil
		}
		messages = append(messages, driver.Message{
			ID: *id, Key: driver.Key(key), Token: *token, Attempt: int(*attempt), Generation: int(*generation),
			Source: textOf(source), EventID: textOf(eventID), Type: textOf(kind),
			Route: textOf(route), Destination: textOf(destination), ReceivedAt: timeOf(receivedAt),
			Headers: headers, Body: body,
		})
		return nil
	}, s.sql.lease, p.Destination, int32(min(p.Limit, maxLease)), p.For.Microseconds(), int32(p.MaxAttempts), clock(p.Now))
	if err != nil {
		return nil, 0, err
	}
	return messages, dead, nil
}

// maxLease bounds one lease, whatever the caller asks for.
const maxLease = 10_000

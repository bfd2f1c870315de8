package pgstore

import (
	"context"
	"errors"
	"time"

	"github.com/hookonce/hookonce/driver"
)

var (
	// countInlineSQL counts a failure of an event that is not claimed, up to $14. Concurrent
	// failures of the last run do not exceed it.
	countInlineSQL = statement(`
INSERT INTO {schema}.inline_failure AS f (
	key, source, event_id, type, occurred_at, headers, body, body_sha256,
	message_ids, routes, destinations, failures, last_error, first_at, last_at, remote, gateway
)
SELECT $1::bytea, $2::text, $3::text, $4::text, $5::timestamptz, $6::bytea, $7::bytea, $8::bytea,
	$9::text[], $10::text[], $11::text[], 1, $12::text, now, now, $15::text, $16::text
FROM (
	SELECT coalesce($13::timestamptz, now()) AS now,
		set_config('lock_timeout', '1s', true) AS bound, set_config('idle_in_transaction_session_timeout', '5s', true),
		{schema}.durably() AS durable
) setting
WHERE setting.bound <> '' AND NOT EXISTS (SELECT FROM {schema}.event e WHERE e.key = $1::bytea)
ON CONFLICT (key) DO UPDATE SET
	failures = greatest(f.failures, least(f.failures + 1, $14::int)),
	last_error = excluded.last_error, last_at = excluded.last_at
RETURNING failures`)

	// forgetInlineSQL deletes the failures of an event if it is claimed, and reads whether it is
	// dead.
	forgetInlineSQL = statement(`
WITH claimed AS MATERIALIZED (
	SELECT e.key, EXISTS (
		SELECT FROM {schema}.event_state s WHERE s.key = e.key AND s.state = 3
	) AS dead
	FROM {schema}.event e
	WHERE e.key = $1::bytea
), gone AS (
	DELETE FROM {schema}.inline_failure f USING claimed c WHERE f.key = c.key
)
SELECT dead FROM claimed`)

	// fileInlineSQL claims an event as a dead letter, as it was first received, if it failed last
	// more than $3 microseconds ago; 0 means at any time. It waits for concurrent claims of the
	// event, and locks the failures only then: a run of TakeClaim locks in this order.
	fileInlineSQL = statement(`
WITH setting AS MATERIALIZED (
	SELECT set_config('lock_timeout', '1s', true) AS bound, coalesce($2::timestamptz, now()) AS now, {schema}.durably() AS durable
), failure AS MATERIALIZED (
	SELECT f.*, setting.now
	FROM setting
	CROSS JOIN {schema}.inline_failure f
	WHERE f.key = $1::bytea AND setting.bound <> ''
		AND ($3::bigint = 0 OR f.last_at < setting.now - $3::bigint * interval '1 microsecond')
), claimed AS (
	INSERT INTO {schema}.event (
		key, source, event_id, type, occurred_at, received_at, headers, body, body_sha256, work, remote, gateway
	)
	SELECT key, source, event_id, type, occurred_at, first_at, headers, body, body_sha256, 1, remote, gateway
	FROM failure
	ON CONFLICT (key) DO NOTHING
	RETURNING key
), filed AS MATERIALIZED (
	SELECT f.* FROM failure f JOIN claimed c ON c.key = f.key
), states AS (
	INSERT INTO {schema}.event_state (key, source, type, state, attempts, received_at, due_at, failed_at, last_error, signature)
	SELECT key, source, type, 3, failures, first_at, now, now, last_error, {schema}.error_signature(last_error) FROM filed
	RETURNING 1
), tried AS (
	INSERT INTO {schema}.event_attempt (key, generation, number, outcome, error, at, took)
	SELECT key, 0, failures, 3, last_error, now, 0 FROM filed
	RETURNING 1
), messages AS (
	INSERT INTO {schema}.message (id, event_key, generation, route, destination, received_at, due_at, created_at)
	SELECT m.id, f.key, 0, m.route, m.destination, f.first_at, f.now, f.now
	FROM filed f
	CROSS JOIN LATERAL unnest(f.message_ids, f.routes, f.destinations) AS m (id, route, destination)
	RETURNING 1
), gone AS (
	DELETE FROM {schema}.inline_failure f USING filed WHERE f.key = filed.key
)
SELECT (SELECT count(*) FROM failure), (SELECT count(*) FROM filed), (SELECT count(*) FROM states), (SELECT count(*) FROM tried),
	(SELECT count(*) FROM messages) = coalesce((SELECT sum(cardinality(message_ids)) FROM filed), 0)`)

	oldInlineSQL = statement(`
SELECT key, source, event_id, type, failures, last_error FROM {schema}.inline_failure
WHERE last_at < coalesce($1::timestamptz, now()) - $2::bigint * interval '1 microsecond'
ORDER BY last_at
LIMIT $3::int`)
)

// CountInlineFailure implements [driver.Store]. It counts and files in separate transactions. If
// the process ends between them, the next failure or FileInlineFailures files the event.
func (s *Store) CountInlineFailure(ctx context.Context, f *driver.InlineFailure) (*driver.InlineFailed, error) {
	failed := &driver.InlineFailed{}
	claimed := false
	err := transact(ctx, s.pools.Receive, "counting a failure", func(conn Conn) (err error) {
		if failed.Failures, err = s.countInline(ctx, conn, f); err != nil {
			return err
		}
		// Claiming or filing the event deletes the count too. From here on the row is locked, so
		// neither can happen.
		claimed, failed.Dead, err = s.forgetInline(ctx, conn, f.Claim.Key[:])
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case claimed:
		failed.Failures = 0
		return failed, nil
	case !f.Dead && failed.Failures < f.Limit:
		return failed, nil
	}
	if _, failed.Dead, err = s.fileInline(ctx, s.pools.Receive, f.Claim.Key[:], f.Now, 0); err != nil {
		return nil, err
	}
	return failed, nil
}

func (s *Store) countInline(ctx context.Context, conn Conn, f *driver.InlineFailure) (int, error) {
	c := &f.Claim
	ids, routes, destinations := []string{}, []string{}, []string{}
	for _, m := range c.Messages {
		ids, routes, destinations = append(ids, m.ID), append(routes, m.Route), append(destinations, m.Destination)
	}
	var failures int32
	err := scan(ctx, conn, func(r Rows) error { return r.Scan(&failures) }, s.text(countInlineSQL),
		c.Key[:], c.Source, c.EventID, c.Type, storable(c.OccurredAt), notNil(c.Headers), notNil(c.Body), c.BodyHash[:],
		ids, routes, destinations, plain(f.Error), clock(f.Now), int32(max(f.Limit, 1)), c.Remote, c.Gateway)
	return int(failures), err
}

// forgetInline deletes the failures of an event if it is claimed by now.
func (s *Store) forgetInline(ctx context.Context, conn Conn, key []byte) (claimed, dead bool, err error) {
	err = scan(ctx, conn, func(r Rows) error {
		claimed = true
		return r.Scan(&dead)
	}, s.text(forgetInlineSQL), key)
	return claimed, dead, err
}

// fileInline files a dead letter. It reports whether it did, and whether a dead letter is there
// afterwards. The error matches driver.ErrNotStored if the database dropped one of its rows.
func (s *Store) fileInline(ctx context.Context, db DB, key []byte, now time.Time, olderThan time.Duration) (filed, dead bool, err error) {
	err = transact(ctx, db, "filing a dead letter", func(conn Conn) error {
		var failures, events, states, tries int64
		var allMessages bool
		err := scan(ctx, conn, func(r Rows) error { return r.Scan(&failures, &events, &states, &tries, &allMessages) },
			s.text(fileInlineSQL), key, clock(now), olderThan.Microseconds())
		switch {
		case err != nil:
			return err
		case states != events || tries != events || !allMessages:
			return refusedError{driver.ErrNotStored}
		case events > 0:
			filed, dead = true, true
			return nil
		}
		// It was claimed, or another process filed it.
		var claimed bool
		claimed, dead, err = s.forgetInline(ctx, conn, key)
		if err == nil && !claimed && failures > 0 {
			return refusedError{driver.ErrNotStored}
		}
		return err
	})
	if err != nil {
		return false, false, err
	}
	return filed, dead, nil
}

// FileInlineFailures implements [driver.Store]. It leaves events that a run is about to claim to
// the next call. An event whose rows the database drops or refuses does not keep the others from being filed.
func (s *Store) FileInlineFailures(ctx context.Context, p *driver.FileFailuresParams) ([]driver.FiledFailure, error) {
	if p.OlderThan <= 0 {
		return nil, errors.New("filing old failures: the age must be positive")
	}
	var keys [][]byte
	var old []driver.FiledFailure
	err := read(ctx, s.pools.Work, "looking for old failures", func(r Rows) error {
		var key []byte
		var f driver.FiledFailure
		var failures int32
		err := r.Scan(&key, &f.Source, &f.EventID, &f.Type, &failures, &f.Error)
		f.Failures = int(failures)
		keys, old = append(keys, key), append(old, f)
		return err
	}, s.text(oldInlineSQL), clock(p.Now), p.OlderThan.Microseconds(), int32(min(max(p.Limit, 1), maxTake)))
	if err != nil {
		return nil, err
	}
	var filed []driver.FiledFailure
	var dropped error
	for i, key := range keys {
		done, _, err := s.fileInline(ctx, s.pools.Work, key, p.Now, p.OlderThan)
		switch {
		case errors.Is(err, driver.ErrNotStored), errors.Is(rowFailed(s.pools.Work, "", err), driver.ErrBadRow):
			dropped = err
		case err != nil && !errors.Is(err, driver.ErrLockTimeout):
			return filed, after(err, int64(len(filed)))
		}
		if done {
			filed = append(filed, old[i])
		}
	}
	return filed, dropped
}

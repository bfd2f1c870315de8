package pgstore

import (
	"context"
	"strconv"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/lifecycle"
)

var (
	recentSQL = statement(`
SELECT d.at, d.remote, d.gateway, d.same_body
FROM {schema}.delivery_count c
CROSS JOIN LATERAL unnest(c.recent) WITH ORDINALITY AS d (at, remote, gateway, same_body, place)
WHERE c.key = $1::bytea
ORDER BY d.place`)

	otherBodySQL = statement(`
SELECT at, headers, body, body_size, body_sha256 FROM {schema}.other_body WHERE key = $1::bytea`)
)

// recentOf reads the newest deliveries of an event.
func (s *Store) recentOf(ctx context.Context, conn Conn, d *driver.EventDetail) error {
	var later []driver.Delivery
	if err := scan(ctx, conn, func(r Rows) error {
		var one driver.Delivery
		err := r.Scan(&one.At, &one.Remote, &one.Gateway, &one.SameBody)
		one.At = one.At.UTC()
		later = append(later, one)
		return err
	}, s.text(recentSQL), d.Key[:]); err != nil {
		return err
	}
	d.Recent = driver.WithFirst(later, driver.Delivery{
		At: d.Deliveries.FirstAt, Remote: d.Deliveries.FirstRemote, Gateway: d.Deliveries.FirstGateway,
	})
	return nil
}

func (s *Store) otherBodyOf(ctx context.Context, conn Conn, d *driver.EventDetail) error {
	return scan(ctx, conn, func(r Rows) error {
		var o driver.OtherBody
		var hash []byte
		if err := r.Scan(&o.At, &o.Headers, &o.Body, &o.Size, &hash); err != nil {
			return err
		}
		o.At, o.SHA256 = o.At.UTC(), [32]byte(hash)
		d.OtherBody = &o
		return nil
	}, s.text(otherBodySQL), d.Key[:])
}

// countSQL adds to the counts of events, and keeps the newest deliveries and the first other body.
// The shared lock on the event's row keeps pruning and redacting from removing the event or its body
// at the same time. It passes over an event that is being pruned or redacted, and reads the row as
// it is under the lock.
var countSQL = statement(`
WITH setting AS MATERIALIZED (
	SELECT coalesce($5::timestamptz, now()) AS now
), kept AS MATERIALIZED (
	SELECT i.*, e.has_body, e.source, e.received_at
	FROM (
		SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[])
			WITH ORDINALITY AS i (key, duplicates, other_bodies, repeats, place)
		ORDER BY key
	) i
	CROSS JOIN LATERAL (
		SELECT e.body IS NOT NULL AS has_body, e.source, e.received_at FROM {schema}.event e WHERE e.key = i.key FOR KEY SHARE SKIP LOCKED
	) e
), recent AS MATERIALIZED (
	SELECT d.place, array_agg(
		ROW(setting.now - d.ago * interval '1 microsecond', d.remote, d.gateway, d.same_body)::{schema}.delivery ORDER BY d.ago, d.turn DESC
	) AS list
	FROM unnest($6::bigint[], $7::bigint[], $8::text[], $9::text[], $10::bool[])
		WITH ORDINALITY AS d (place, ago, remote, gateway, same_body, turn)
	CROSS JOIN setting
	GROUP BY d.place
), others AS (
	INSERT INTO {schema}.other_body (key, at, headers, body, body_size, body_sha256)
	SELECT kept.key, setting.now - o.ago * interval '1 microsecond', o.headers, o.body, o.body_size, o.body_sha256
	FROM unnest($11::bigint[], $12::bigint[], $13::bytea[], $14::bytea[], $15::bigint[], $16::bytea[])
		AS o (place, ago, headers, body, body_size, body_sha256)
	JOIN kept ON kept.place = o.place AND kept.has_body
	CROSS JOIN setting
	ORDER BY kept.key
	ON CONFLICT (key) DO NOTHING
), added AS (
	INSERT INTO {schema}.delivery_count AS c (key, duplicates, other_bodies, repeats, last_at, recent)
	SELECT key, duplicates, other_bodies, repeats, CASE WHEN duplicates > 0 THEN setting.now END, coalesce(recent.list, '{}')
	FROM kept
	LEFT JOIN recent ON recent.place = kept.place
	CROSS JOIN setting
	ORDER BY key
	ON CONFLICT (key) DO UPDATE SET
		duplicates = c.duplicates + excluded.duplicates,
		other_bodies = c.other_bodies + excluded.other_bodies,
		repeats = c.repeats + excluded.repeats,
		last_at = greatest(c.last_at, excluded.last_at),
		recent = CASE WHEN cardinality(excluded.recent) = 0 THEN c.recent ELSE ARRAY(
			SELECT ROW(d.at, d.remote, d.gateway, d.same_body)::{schema}.delivery
			FROM unnest(excluded.recent OPERATOR(pg_catalog.||) c.recent) WITH ORDINALITY AS d (at, remote, gateway, same_body, turn)
			ORDER BY d.at DESC, d.turn LIMIT ` + strconv.Itoa(driver.MaxRecent) + `
		) END
)
SELECT key, source, received_at FROM kept WHERE duplicates > 0`)

// recentArgs returns the arguments $6 to $16 of countSQL.
func recentArgs(p *driver.CountDeliveriesParams) []any {
	places, ago, remotes, gateways, same := []int64{}, []int64{}, []string{}, []string{}, []bool{}
	otherPlaces, otherAgo, sizes, headers, bodies, hashes := []int64{}, []int64{}, []int64{}, [][]byte{}, [][]byte{}, [][]byte{}
	for i := range p.Counts {
		c := &p.Counts[i]
		for _, d := range c.Recent {
			places, ago = append(places, int64(i+1)), append(ago, p.Ago(d.At).Microseconds())
			remotes, gateways, same = append(remotes, d.Remote), append(gateways, d.Gateway), append(same, d.SameBody)
		}
		if o := c.Other; o != nil {
			otherPlaces, otherAgo = append(otherPlaces, int64(i+1)), append(otherAgo, p.Ago(o.At).Microseconds())
			headers, bodies = append(headers, notNil(o.Headers)), append(bodies, notNil(o.Body))
			sizes, hashes = append(sizes, o.Size), append(hashes, o.SHA256[:])
		}
	}
	return []any{places, ago, remotes, gateways, same, otherPlaces, otherAgo, headers, bodies, sizes, hashes}
}

var (
	// lockCausedSQL locks the rows that hold the messages that an event caused, and
	// lockEvidenceSQL those messages and the event's own. See lockMessagesSQL.
	lockCausedSQL = statement(`
SELECT e.key
FROM (SELECT m.event_key AS key FROM {schema}.message m WHERE m.cause = $1::bytea ORDER BY m.event_key) i
CROSS JOIN LATERAL (
	SELECT e.key FROM {schema}.event e WHERE e.key = i.key
	FOR UPDATE
) e`)

	lockEvidenceSQL = statement(`
SELECT ` + partColumns + `, state = 1 AND due_at > coalesce($2::timestamptz, clock_timestamp())
FROM {schema}.message
WHERE event_key = $1::bytea OR cause = $1::bytea
ORDER BY id
FOR UPDATE`)

	redactedSQL = statement(`
SELECT action FROM {schema}.history
WHERE event_key = $1::bytea AND (action = '` + driver.ActionRedacted + `' OR request_id = nullif($2::text, ''))`)
)

// redactSQL removes the payload of the event $1, of the rows $4 and of the messages $5, under the
// locks of all of them.
var redactSQL = statement(`
WITH setting AS MATERIALIZED (
	SELECT coalesce($2::timestamptz, clock_timestamp()) AS now, {schema}.durably() AS durable
), events AS (
	UPDATE {schema}.event SET headers = NULL, body = NULL WHERE key = ANY ($4::bytea[])
), others AS (
	DELETE FROM {schema}.other_body WHERE key = $1::bytea
), answers AS (
	DELETE FROM {schema}.attempt_response WHERE message_id = ANY ($5::text[])
), tries AS (
	UPDATE {schema}.attempt SET error = '` + driver.ErrorRedacted + `'
	WHERE message_id = ANY ($5::text[]) AND error IS NOT NULL
), messages AS (
	UPDATE {schema}.message SET last_error = '` + driver.ErrorRedacted + `'
	WHERE id = ANY ($5::text[]) AND last_error IS NOT NULL
), handler_tries AS (
	UPDATE {schema}.event_attempt SET error = '` + driver.ErrorRedacted + `' WHERE key = $1::bytea
), states AS (
	UPDATE {schema}.event_state SET last_error = '` + driver.ErrorRedacted + `',
		signature = {schema}.error_signature('` + driver.ErrorRedacted + `')
	WHERE key = $1::bytea AND last_error IS NOT NULL
)
INSERT INTO {schema}.history (event_key, at, action, generation, request_id)
SELECT $1::bytea, now, '` + driver.ActionRedacted + `', $3::int, nullif($6::text, '')
FROM setting`)

// remains is the value of driver.Redacted.Remains. VACUUM alone leaves the bytes of a dead row in the
// free space of its page, and VACUUM FULL blocks receiving, so neither is run here.
const remains = "PostgreSQL may keep the removed bytes in its files until their space is used again, and in its WAL: " +
	"VACUUM FULL of the tables ends the first; see the runbook of hookonce, Redacted bytes must be unreadable on the disk."

// Redact implements [driver.Evidence].
func (s *Store) Redact(ctx context.Context, p *driver.RedactParams) (*driver.Redacted, error) {
	redacted := &driver.Redacted{Remains: remains}
	err := transact(ctx, s.pools.Admin, "redacting an event", func(conn Conn) error {
		_, outbox, err := s.lockEvent(ctx, conn, s.text(lockEventAloneSQL), p.Key)
		if err != nil {
			return err
		}
		if outbox {
			return refusedError{driver.ErrNotFound}
		}
		if redacted.Repeated, err = s.redactedBefore(ctx, conn, p); err != nil || redacted.Repeated {
			return err
		}
		return s.redact(ctx, conn, p)
	})
	if err != nil {
		return nil, err
	}
	return redacted, nil
}

func (s *Store) redactedBefore(ctx context.Context, conn Conn, p *driver.RedactParams) (before bool, err error) {
	err = scan(ctx, conn, func(r Rows) error {
		var action string
		err := r.Scan(&action)
		if err == nil && action != driver.ActionRedacted {
			return refusedError{driver.ErrRequestReused}
		}
		before = true
		return err
	}, s.text(redactedSQL), p.Key[:], p.RequestID)
	return before, err
}

func (s *Store) redact(ctx context.Context, conn Conn, p *driver.RedactParams) error {
	rows := [][]byte{p.Key[:]}
	if err := scan(ctx, conn, func(r Rows) error {
		var key []byte
		err := r.Scan(&key)
		rows = append(rows, key)
		return err
	}, s.text(lockCausedSQL), p.Key[:]); err != nil {
		return err
	}
	event, err := s.lockAll(ctx, conn, s.text(lockEvidenceSQL), p.Key, p.Now)
	if err != nil {
		return err
	}
	generation, err := lifecycle.Redact(event)
	if err != nil {
		return refusedError{err}
	}
	ids := []string{}
	for i := range event.Messages {
		ids = append(ids, event.Messages[i].ID)
	}
	return scan(ctx, conn, noRows, s.text(redactSQL), p.Key[:], clock(p.Now), int32(generation), rows, ids, p.RequestID)
}

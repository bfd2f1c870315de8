package pgstore

import (
	"context"
	"fmt"

	"github.com/hookonce/hookonce/driver"
)

// heldSQL locks the messages of i(id, token) whose leases are held. It locks them sorted by id, so
// that two calls cannot wait for one another. The batch joins the table on the id alone: the
// planner turns an additional "id = ANY (...)" into a nested loop over the batch for every row.
const heldSQL = `
	CROSS JOIN LATERAL (
		SELECT m.attempts, m.generation FROM {schema}.message m
		WHERE m.id = i.id AND m.token = i.token AND m.state = 1
		FOR UPDATE
	) m`

// completeSQL records outcomes: 1 sent, 2 retry, 3 dead, 4 stale. Of the responses of a message it
// keeps that of the first failed attempt and the latest one. The look-ups for each message have a
// LIMIT, so that they can only be nested loops over an index.
const completeSQL = `
WITH setting AS MATERIALIZED (
	SELECT coalesce($8::timestamptz, now()) AS now, {schema}.durably() AS durable
), held AS MATERIALIZED (
	SELECT i.*, m.attempts, m.generation
	FROM (
		SELECT * FROM unnest($1::text[], $2::bigint[], $3::int[], $4::bigint[], $5::int[], $6::text[], $7::bigint[], $14::text[], $15::bytea[])
			WITH ORDINALITY AS i (id, token, outcome, retry_in, status_code, error, took, content_type, response, place)
		ORDER BY id
	) i` + heldSQL + `
), changed AS (
	UPDATE {schema}.message m
	SET state = CASE held.outcome WHEN 1 THEN 2 WHEN 2 THEN 0 WHEN 3 THEN 3 ELSE 4 END,
		note = CASE held.outcome WHEN 4 THEN '` + driver.NoteStale + `' ELSE m.note END,
		attempts = CASE held.outcome WHEN 4 THEN m.attempts - 1 ELSE m.attempts END,
		due_at = CASE held.outcome WHEN 2 THEN setting.now + held.retry_in * interval '1 microsecond' ELSE m.due_at END,
		retry_in = CASE held.outcome WHEN 2 THEN held.retry_in ELSE m.retry_in END,
		status_code = nullif(held.status_code, 0),
		last_error = nullif(held.error, ''),
		sent_at = CASE held.outcome WHEN 1 THEN setting.now END,
		took = CASE held.outcome WHEN 1 THEN held.took ELSE m.took END,
		failed_at = CASE held.outcome WHEN 3 THEN setting.now END
	FROM held, setting
	WHERE m.id = held.id
	RETURNING held.*
), tried AS (
	INSERT INTO {schema}.attempt (message_id, generation, number, outcome, status_code, error, at, took)
	SELECT id, generation, attempts, outcome, nullif(status_code, 0), nullif(error, ''), setting.now, took
	FROM changed, setting
	WHERE outcome IN (2, 3)
), superseded AS (
	DELETE FROM {schema}.attempt_response WHERE ctid = ANY (ARRAY(
		SELECT r.place
		FROM changed c
		CROSS JOIN LATERAL (
			SELECT r.ctid AS place FROM {schema}.attempt_response r
			WHERE c.outcome IN (2, 3) AND r.message_id = c.id AND NOT r.first
			LIMIT 100
		) r
	))
), answered AS (
	INSERT INTO {schema}.attempt_response (message_id, generation, number, first, content_type, response)
	SELECT c.id, c.generation, c.attempts,
		(SELECT count(*) FROM (SELECT FROM {schema}.attempt a WHERE a.message_id = c.id AND a.outcome > 1 LIMIT 1) before) = 0,
		c.content_type, c.response
	FROM changed c
	WHERE c.outcome IN (2, 3) AND octet_length(c.response) > 0
), applied AS (
	INSERT INTO {schema}.object_version AS v (object, source, version, shown, applied_at)
	SELECT DISTINCT ON (o.object) o.object, o.source, o.version, o.shown, setting.now
	FROM unnest($9::bigint[], $10::bytea[], $11::text[], $12::bytea[], $13::text[])
		AS o (place, object, source, version, shown)
	JOIN changed USING (place)
	CROSS JOIN setting
	WHERE changed.outcome = 1
	ORDER BY o.object, o.version DESC` + higherSQL + `
)
SELECT place FROM changed`

// Complete implements [driver.Store].
func (s *Store) Complete(ctx context.Context, p *driver.CompleteParams) ([]bool, error) {
	const op = "completing messages"
	held := make([]bool, len(p.Completions))
	var places []int
	var ids, errors, types []string
	var responses [][]byte
	var tokens, retryIn, took []int64
	var outcomes, statusCodes []int32
	applied, appliedBy := newVersionArgs(), []int64{}
	seen := make(map[driver.MessageLease]bool, len(p.Completions))
	for i := range p.Completions {
		c := &p.Completions[i]
		if c.Outcome < driver.MessageSent || c.Outcome > driver.MessageStale {
			panic("pgstore: a completion without an outcome")
		}
		if err := c.CheckResponse(); err != nil {
			return nil, fmt.Errorf("%s: %w", op, err)
		}
		lease := driver.MessageLease{ID: c.ID, Token: c.Token}
		if seen[lease] {
			continue // the first completion of a lease ends it
		}
		seen[lease] = true
		places = append(places, i)
		ids, errors = append(ids, c.ID), append(errors, plain(c.Error))
		tokens, took = append(tokens, c.Token), append(took, max(0, c.Took.Microseconds()))
		retryIn = append(retryIn, max(0, c.RetryIn.Microseconds()))
		outcomes, statusCodes = append(outcomes, int32(c.Outcome)), append(statusCodes, int32(c.StatusCode))
		types, responses = append(types, c.ResponseType), append(responses, notNil(c.Response))
		if c.Applied != nil {
			applied.add(c.Applied)
			appliedBy = append(appliedBy, int64(len(places)))
		}
	}
	if len(places) == 0 {
		return held, nil
	}
	err := write(ctx, s.pools.Work, op, func(r Rows) error {
		var place int64
		if err := r.Scan(&place); err != nil {
			return err
		}
		held[places[place-1]] = true
		return nil
	}, s.sql.complete, ids, tokens, outcomes, retryIn, statusCodes, errors, took, clock(p.Now),
		appliedBy, applied.objects, applied.sources, applied.versions, applied.shown, types, responses)
	if err != nil {
		return nil, err
	}
	return held, nil
}

const releaseSQL = `
WITH held AS MATERIALIZED (
	SELECT i.id
	FROM (
		SELECT * FROM unnest($1::text[], $2::bigint[]) AS i (id, token) ORDER BY id
	) i` + heldSQL + `
)
UPDATE {schema}.message m
SET state = 0, attempts = m.attempts - 1, due_at = coalesce($3::timestamptz, now())
FROM held
WHERE m.id = held.id`

// Release implements [driver.Store].
func (s *Store) Release(ctx context.Context, p *driver.ReleaseParams) error {
	if len(p.Leases) == 0 {
		return nil
	}
	var ids []string
	var tokens []int64
	for _, lease := range p.Leases {
		ids, tokens = append(ids, lease.ID), append(tokens, lease.Token)
	}
	return write(ctx, s.pools.Work, "releasing messages", noRows, s.sql.release, ids, tokens, clock(p.Now))
}

package pgstore

import (
	"context"
	"fmt"

	"github.com/hookonce/hookonce/driver"
)

// completeSQL records outcomes, by a function of the schema that each session plans once.
var completeSQL = statement(`
SELECT place
FROM {schema}.complete(
	$1::text[], $2::bigint[], $3::int[], $4::bigint[], $5::int[], $6::text[], $7::bigint[], $8::timestamptz,
	$9::bigint[], $10::bytea[], $11::text[], $12::bytea[], $13::text[], $14::text[], $15::bytea[]
) AS place`)

// completeOrderedSQL does the same with messages that are in lines.
var completeOrderedSQL = statement(`
SELECT place
FROM {schema}.complete_ordered(
	$1::text[], $2::bigint[], $3::int[], $4::bigint[], $5::int[], $6::text[], $7::bigint[], $8::timestamptz,
	$9::bigint[], $10::bytea[], $11::text[], $12::bytea[], $13::text[], $14::text[], $15::bytea[],
	$16::bigint[], $17::bytea[], $18::text[], $19::bytea[], $20::text[]) AS place`)

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
	lines, linesOf := newVersionArgs(), []int64{}
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
		if c.Line != nil {
			lines.add(c.Line)
			linesOf = append(linesOf, int64(len(places)))
		}
	}
	if len(places) == 0 {
		return held, nil
	}
	sql, args := completeSQL, []any{
		ids, tokens, outcomes, retryIn, statusCodes, errors, took, clock(p.Now),
		appliedBy, applied.objects, applied.sources, applied.versions, applied.shown, types, responses,
	}
	if len(linesOf) > 0 {
		sql, args = completeOrderedSQL, append(args, linesOf, lines.objects, lines.sources, lines.versions, lines.shown)
	}
	err := s.writeBinary(ctx, op, func(r Rows) error {
		var place int64
		if err := r.Scan(&place); err != nil {
			return err
		}
		held[places[place-1]] = true
		return nil
	}, s.statement(sql), args...)
	if err != nil {
		return nil, err
	}
	return held, nil
}

// releaseSQL locks the messages sorted by id, so that two calls cannot wait for one another. The batch
// joins the table on the id alone: the planner turns an additional "id = ANY (...)" into a nested loop
// over the batch for every row.
var releaseSQL = statement(`
WITH held AS MATERIALIZED (
	SELECT i.id
	FROM (
		SELECT * FROM unnest($1::text[], $2::bigint[]) AS i (id, token) ORDER BY id COLLATE "C"
	) i
	CROSS JOIN LATERAL (
		SELECT FROM {schema}.message m
		WHERE m.id = i.id AND m.token = i.token AND m.state = 1
		FOR UPDATE
	) m
)
UPDATE {schema}.message m
SET state = 0, attempts = m.attempts - 1, due_at = coalesce($3::timestamptz, now())
FROM held
WHERE m.id = held.id`)

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
	return write(ctx, s.pools.Work, "releasing messages", noRows, s.text(releaseSQL), ids, tokens, clock(p.Now))
}

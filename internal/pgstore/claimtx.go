package pgstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/hookonce/hookonce/driver"
)

// lockEventsSQL locks the rows of events in the order of their keys, and waits for their holders.
// The next statement reads the rows that belong to them, so that it sees the commits during the
// wait.
var lockEventsSQL = statement(`
SELECT e.key
FROM (SELECT key FROM unnest($1::bytea[]) AS k (key) ORDER BY key) i
CROSS JOIN LATERAL (
	SELECT e.key FROM {schema}.event e WHERE e.key = i.key
	FOR NO KEY UPDATE
) e`)

// reopenClaimedSQL reopens the dead events $1, whose rows are locked, in the transaction of a
// claim. $2 marks the events whose work is done in the same transaction; they become done. If an
// event is only routed and not marked, its dead messages become due.
var reopenClaimedSQL = statement(again(`
WITH setting AS MATERIALIZED (
	SELECT coalesce($3::timestamptz, now()) AS now
), mine AS MATERIALIZED (
	SELECT c.key, c.done, e.work
	FROM unnest($1::bytea[], $2::bool[]) AS c (key, done)
	CROSS JOIN LATERAL (SELECT e.work FROM {schema}.event e WHERE e.key = c.key AND e.body IS NOT NULL LIMIT 1) e
), queued AS MATERIALIZED (
	SELECT s.key, s.generation, mine.done
	FROM mine
	CROSS JOIN LATERAL (
		SELECT s.key, s.generation FROM {schema}.event_state s
		WHERE mine.work = 1 AND s.key = mine.key AND s.state = 3 AND NOT s.undecided AND `+notEndedSQL+`
		FOR UPDATE
	) s
), routed AS MATERIALIZED (
	SELECT m.id, m.key, m.generation
	FROM mine
	CROSS JOIN LATERAL (
		SELECT m.id, m.event_key AS key, m.generation FROM {schema}.message m
		WHERE mine.work = 0 AND NOT mine.done AND m.event_key = mine.key AND m.state = 3
			AND NOT EXISTS (SELECT FROM {schema}.message o WHERE o.event_key = mine.key AND o.state < 2)
		FOR UPDATE
	) m`+againSQL+reopenedSQL+`
SELECT n.key, n.generation, coalesce((SELECT s.key_generation FROM {schema}.event_state s WHERE s.key = n.key), 0)
FROM next n`, stateClaimedSQL, false))

// stateClaimedSQL sets the columns of an event_state row that a claim reopens.
const stateClaimedSQL = `
		state = CASE WHEN queued.done THEN 2 ELSE 0 END, note = '',
		attempts = CASE WHEN queued.done THEN 1 ELSE 0 END, crashes = 0, replayed = false, due_at = setting.now,
		processed_at = CASE WHEN queued.done THEN setting.now END, failed_at = NULL,
		last_error = CASE WHEN queued.done THEN NULL ELSE s.last_error END`

// ClaimTxOn implements [driver.Driver.ClaimTx] on a connection in the caller's transaction.
func (s *Store) ClaimTxOn(ctx context.Context, conn Conn, p *driver.ClaimParams) ([]driver.ClaimResult, error) {
	if len(p.Claims) == 0 {
		return nil, nil
	}
	b := newClaimBatch(p)
	b.inTx = true
	b.write = func(op string, each func(Rows) error, sql string, args ...any) error {
		return readFailed(s.pools.Work, op, scan(ctx, conn, each, sql, args...)) // nothing is committed here
	}
	b.read = b.write
	if err := s.claimRounds(b); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(b.results, func(r driver.ClaimResult) bool { return !r.Settled() }) {
		return nil, fmt.Errorf("claiming: %w", driver.ErrNotStored)
	}
	if p.Reopen {
		if err := s.reopenClaimed(b); err != nil {
			return nil, err
		}
	}
	if err := b.write("claiming", noRows, setLockTimeoutSQL, b.lockBefore); err != nil {
		return nil, err
	}
	return b.results, nil
}

func (s *Store) reopenClaimed(b *claimBatch) error {
	const op = "reopening dead events"
	places := make(map[driver.Key]int)
	var keys [][]byte
	var done []bool
	for i := range b.results {
		if b.results[i].Dead {
			c := &b.Claims[i]
			places[c.Key] = i
			keys, done = append(keys, c.Key[:]), append(done, c.Work == driver.WorkDone)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	if err := b.write(op, noRows, s.text(lockEventsSQL), keys); err != nil {
		return err
	}
	return b.write(op, func(r Rows) error {
		var key []byte
		var generation, keyGeneration int32
		if err := r.Scan(&key, &generation, &keyGeneration); err != nil {
			return err
		}
		result := &b.results[places[driver.Key(key)]]
		result.Reopened, result.Generation, result.KeyGeneration = true, int(generation), int(keyGeneration)
		return nil
	}, s.text(reopenClaimedSQL), keys, done, clock(b.Now))
}

// boundSQL bounds how long a process that has stopped can keep a claim open, and tells whether there
// are synchronous standbys.
const boundSQL = `
SELECT current_setting('synchronous_standby_names') <> ''
FROM set_config('idle_in_transaction_session_timeout', $1::text, true)`

var claimedSQL = statement(`
SELECT ` + runColumns + `, ` + takenColumns + `, 1, now()
FROM {schema}.event e
CROSS JOIN LATERAL (
	SELECT s.key, s.generation, s.key_generation, 0 AS crashes, false AS replayed, timestamptz 'infinity' AS due_at,
		coalesce((SELECT f.failures FROM {schema}.inline_failure f WHERE f.key = s.key), 0) AS attempts
	FROM {schema}.event_state s WHERE s.key = e.key LIMIT 1
) d
WHERE e.key = $1::bytea`)

// TakeClaim implements [driver.Driver]. The run is nil for a duplicate that is not reopened.
func (s *Store) TakeClaim(ctx context.Context, p *driver.ClaimParams) (*Run, driver.ClaimResult, error) {
	if len(p.Claims) != 1 {
		panic(fmt.Sprintf("pgstore: TakeClaim of %d claims", len(p.Claims)))
	}
	r, err := s.begin(ctx)
	if err != nil {
		return nil, driver.ClaimResult{}, fmt.Errorf("claiming: %w", err)
	}
	r.claim = true
	result, err := r.takeClaim(ctx, p)
	switch {
	case err != nil:
		r.tx.Rollback(ctx)
		return nil, result, err
	case !result.Claimed && !result.Reopened:
		// With synchronous standbys a commit waits until they have the event too; a rollback does
		// not. The event's own commit may have been cut off.
		if err := r.tx.Commit(ctx); err != nil {
			r.tx.Rollback(ctx)
			return nil, driver.ClaimResult{}, fmt.Errorf("claiming: %w: %w", driver.ErrCommitUnknown, err)
		}
		if err := r.confirm(ctx); err != nil {
			return nil, driver.ClaimResult{}, fmt.Errorf("claiming: %w", err)
		}
		return nil, result, nil
	}
	return r, result, nil
}

func (r *Run) takeClaim(ctx context.Context, p *driver.ClaimParams) (result driver.ClaimResult, err error) {
	if err := scan(ctx, r.tx, func(rows Rows) error { return rows.Scan(&r.standbys) }, boundSQL, milliseconds(runTimeout)); err != nil {
		return result, fmt.Errorf("claiming: %w", r.failure(err))
	}
	results, err := r.store.ClaimTxOn(ctx, r.tx, p)
	if err != nil || !results[0].Claimed && !results[0].Reopened {
		if err == nil {
			result = results[0]
		}
		return result, err
	}
	if _, err := r.collect(ctx, r.store.text(claimedSQL), p.Claims[0].Key[:]); err != nil {
		return result, fmt.Errorf("claiming: %w", r.failure(err))
	}
	if err := r.tx.Script(ctx, "SAVEPOINT "+savepoint); err != nil {
		return result, fmt.Errorf("claiming: %w", r.failure(err))
	}
	return results[0], nil
}

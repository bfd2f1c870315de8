package pgstore

import (
	"context"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// notEndedSQL is the condition that no handler of the dead state row s ended its transaction.
const notEndedSQL = `s.note <> '` + driver.NoteTxEnded + `'`

// reopenSQL reopens dead events that were not redacted. The lock on the event's row decides between concurrent calls. It
// lasts for this statement only, and the row is not changed. All messages are read again under
// their locks. An event stays if another session holds one of its dead messages: that one would stay dead.
var reopenSQL = statement(again(`
WITH setting AS MATERIALIZED (
	SELECT coalesce($2::timestamptz, now()) AS now, {schema}.durably() AS durable
), mine AS MATERIALIZED (
	SELECT e.key, e.work
	FROM (SELECT DISTINCT key FROM unnest($1::bytea[]) AS k (key) ORDER BY key) i
	CROSS JOIN LATERAL (
		SELECT e.key, e.work FROM {schema}.event e WHERE e.key = i.key AND NOT e.outbox AND e.body IS NOT NULL
		FOR NO KEY UPDATE SKIP LOCKED
	) e
), queued AS MATERIALIZED (
	SELECT s.key, s.generation
	FROM mine
	CROSS JOIN LATERAL (
		SELECT s.key, s.generation FROM {schema}.event_state s
		WHERE mine.work = 1 AND s.key = mine.key AND s.state = 3 AND NOT s.undecided AND `+notEndedSQL+`
		FOR UPDATE SKIP LOCKED
	) s
), held AS MATERIALIZED (
	SELECT m.id, m.key, m.generation
	FROM mine
	CROSS JOIN LATERAL (
		SELECT m.id, m.event_key AS key, m.generation FROM {schema}.message m
		WHERE mine.work = 0 AND m.event_key = mine.key AND m.state = 3
			AND NOT EXISTS (SELECT FROM {schema}.message o WHERE o.event_key = mine.key AND o.state < 2)
		FOR UPDATE SKIP LOCKED
	) m
), routed AS MATERIALIZED (
	SELECT h.* FROM held h
	WHERE NOT EXISTS (
		SELECT FROM {schema}.message m
		WHERE m.event_key = h.key AND m.state = 3 AND (m.id IN (SELECT id FROM held)) IS NOT TRUE
	)`+againSQL+reopenedSQL+`
SELECT key FROM next ORDER BY key`, stateAgainSQL, false))

// settleReopenedSQL puts the reopened messages back into their lines, where they keep later ones waiting.
var settleReopenedSQL = statement(`
SELECT {schema}.settle_places(ARRAY(
	SELECT m.id FROM {schema}.message m WHERE m.event_key = ANY ($1::bytea[]) AND m.state = 0
	UNION ALL
	SELECT {schema}.place_of(k) FROM unnest($1::bytea[]) AS k
), '{}', '{}', $2::timestamptz)`)

// reopenedSQL follows againSQL, and records the reopening in the history.
const reopenedSQL = `, told AS (
	INSERT INTO {schema}.history (event_key, at, action, generation, messages)
	SELECT next.key, setting.now, '` + driver.ActionReopened + `', next.generation,
		(SELECT count(*) FROM routed r WHERE r.key = next.key)
	FROM next, setting
)`

// stillDeadSQL returns the keys of events that reopenSQL would reopen. It waits for no lock.
var stillDeadSQL = statement(`
SELECT e.key
FROM unnest($1::bytea[]) AS i (key)
JOIN {schema}.event e ON e.key = i.key
WHERE NOT e.outbox AND e.body IS NOT NULL AND CASE e.work
	WHEN 1 THEN EXISTS (SELECT FROM {schema}.event_state s WHERE s.key = e.key AND s.state = 3 AND NOT s.undecided AND ` + notEndedSQL + `)
	WHEN 0 THEN EXISTS (SELECT FROM {schema}.message m WHERE m.event_key = e.key AND m.state = 3)
		AND NOT EXISTS (SELECT FROM {schema}.message m WHERE m.event_key = e.key AND m.state < 2)
END`)

// Reopen waits for so long before it looks again at events that other sessions hold.
const (
	firstReopenPoll   = 20 * time.Millisecond
	longestReopenPoll = 200 * time.Millisecond
)

// Reopen implements [driver.Store].
func (s *Store) Reopen(ctx context.Context, p *driver.ReopenParams) (reopened, held []driver.Key, err error) {
	until := time.Now().Add(p.Wait)
	poll := firstReopenPoll
	for held = p.Keys; len(held) > 0; poll = min(2*poll, longestReopenPoll) {
		got, err := s.reopenOnce(ctx, held, p.Now)
		if err != nil {
			return nil, nil, err
		}
		reopened = append(reopened, got...)
		if len(got) == len(held) {
			return reopened, nil, nil
		}
		held = slices.DeleteFunc(slices.Clone(held), func(key driver.Key) bool { return slices.Contains(got, key) })
		if held, err = s.stillDead(ctx, held); err != nil {
			return nil, nil, err
		}
		if ctx.Err() != nil || !time.Now().Before(until) {
			break
		}
		_ = Pause(ctx, poll) // the next look tells of ctx
	}
	return reopened, held, nil
}

func (s *Store) reopenOnce(ctx context.Context, keys []driver.Key, now time.Time) (reopened []driver.Key, err error) {
	err = transact(ctx, s.pools.Receive, "reopening dead events", func(conn Conn) error {
		reopened = nil
		if err := scan(ctx, conn, eachKey(&reopened), s.text(reopenSQL), keyArgs(keys), clock(now)); err != nil || len(reopened) == 0 {
			return err
		}
		return scan(ctx, conn, noRows, s.text(settleReopenedSQL), keyArgs(reopened), clock(now))
	})
	if err != nil {
		return nil, err
	}
	return reopened, nil
}

func (s *Store) stillDead(ctx context.Context, keys []driver.Key) (dead []driver.Key, err error) {
	err = read(ctx, s.pools.Receive, "looking for dead events", eachKey(&dead), s.text(stillDeadSQL), keyArgs(keys))
	return dead, err
}

// eachKey adds the key of each row to keys.
func eachKey(keys *[]driver.Key) func(Rows) error {
	return func(r Rows) error {
		var key []byte
		err := r.Scan(&key)
		if err == nil {
			*keys = append(*keys, driver.Key(key))
		}
		return err
	}
}

// Pause waits for d. If ctx ends first, it returns its error.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

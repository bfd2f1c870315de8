package pgstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// maxSwept is the most records that one call reads.
const maxSwept = 1000

// elsewhere is the state of a transaction that a record from another database names.
const elsewhere = "elsewhere"

// maxBadRuns is how many records the database may refuse to change before a sweep ends. The next one
// goes on behind them.
const maxBadRuns = 10

// firstRun is where a round of sweeps begins. Records from elsewhere may have any number.
const firstRun = math.MinInt64

// longestWait bounds the recorded wait until the next attempt.
const longestWait = 365 * 24 * time.Hour

var (
	// suspectsSQL reads $1 records from the id $2 on, and whether the first event of each is unlocked,
	// which makes it a suspect. It returns the keys of suspects only, and gives up its own locks at
	// once.
	//
	// It runs on the admin pool, whose sessions do not compile plans: the size of the run table
	// makes this plan look expensive. It looks the event up with a LIMIT, so that the planner can
	// only probe the index: it would turn EXISTS with OR into a list of all events.
	suspectsSQL = statement(`
SELECT r.id, coalesce(s.free, false) OR r.found IS NULL, k.key
FROM (
	SELECT r.id, r.keys, first.found
	FROM {schema}.run r
	LEFT JOIN LATERAL (
		SELECT true AS found FROM {schema}.event_state o WHERE o.key = r.keys[1] LIMIT 1
	) first ON true
	WHERE r.id >= $2::bigint
	ORDER BY r.id
	LIMIT $1::int
) r
LEFT JOIN LATERAL (
	SELECT true AS free FROM {schema}.event_state s WHERE s.key = r.keys[1] FOR UPDATE SKIP LOCKED
) s ON true
LEFT JOIN LATERAL unnest(r.keys) WITH ORDINALITY AS k (key, place) ON s.free OR r.found IS NULL
ORDER BY r.id, k.place`)

	// lockLostSQL locks the unlocked events of a run, and counts them. It bounds how long a process
	// that has stopped keeps the locks.
	lockLostSQL = statement(`
WITH setting AS MATERIALIZED (
	SELECT set_config('idle_in_transaction_session_timeout', '5s', true) AS bound
), free AS MATERIALIZED (
	SELECT s.key
	FROM setting
	CROSS JOIN LATERAL (
		SELECT s.key FROM {schema}.event_state s
		WHERE s.key = ANY ($1::bytea[]) AND setting.bound <> ''
		ORDER BY s.key
		FOR UPDATE SKIP LOCKED
	) s
)
SELECT (SELECT count(*) FROM free), (SELECT count(*) FROM {schema}.event_state WHERE key = ANY ($1::bytea[]))`)

	// takeRecordSQL deletes the record of a run, unless it is gone or a call is settling the run,
	// and returns the state of its transaction and the wait until the next attempt. A record of
	// another home has no transaction here. Nor has a number that was not given out yet: the record
	// was written after its transaction got the number, so the snapshot includes that. A record
	// younger than $2 whose transaction was committed stays: a handler committed it, and its process
	// still knows which one. A time as far ahead comes from a clock that was set back.
	takeRecordSQL = statement(`
WITH found AS MATERIALIZED (
	SELECT r.id, r.home, r.started_at FROM {schema}.run r WHERE r.id = $1::bigint FOR UPDATE SKIP LOCKED
), judged AS MATERIALIZED (
	SELECT id, started_at, CASE
			WHEN NOT {schema}.is_run_home(home) OR id NOT BETWEEN 1 AND txid_snapshot_xmax(txid_current_snapshot()) - 1 THEN '` + elsewhere + `'
			ELSE coalesce(txid_status(id), '')
		END AS status
	FROM found
), gone AS (
	DELETE FROM {schema}.run r
	USING judged j
	WHERE r.id = j.id AND (
		j.status <> '` + txCommitted + `'
		OR j.started_at < coalesce($3::timestamptz, clock_timestamp()) - $2::bigint * interval '1 microsecond'
		OR j.started_at > clock_timestamp() + $2::bigint * interval '1 microsecond'
	)
	RETURNING j.status, r.retry_in
)
SELECT status, coalesce(retry_in, -1) FROM gone`)

	// strayedSQL returns the pending events of a record that belongs elsewhere.
	strayedSQL = statement(`
SELECT s.key, e.source, e.event_id, e.type, s.attempts, false
FROM {schema}.event_state s
CROSS JOIN LATERAL (SELECT * FROM {schema}.event e WHERE e.key = s.key LIMIT 1) e
WHERE s.key = ANY ($1::bytea[]) AND s.state = 0
ORDER BY e.received_at, s.key`)

	// lostSQL records the events $2 of an interrupted run that are pending. If $3, it records an
	// attempt for each. The event is then due again after $4 microseconds, or dead if that is -1.
	lostSQL = statement(`
WITH setting AS MATERIALIZED (
	SELECT coalesce($1::timestamptz, clock_timestamp()) AS now, {schema}.durably() AS durable
), lost AS MATERIALIZED (
	SELECT s.key, $3::bool AND $4::bigint < 0 AS dead, setting.now + $4::bigint * interval '1 microsecond' AS retry_at
	FROM {schema}.event_state s, setting
	WHERE s.key = ANY ($2::bytea[]) AND s.state = 0
), changed AS (
	UPDATE {schema}.event_state s
	SET state = CASE WHEN lost.dead THEN 3 ELSE 0 END,
		attempts = CASE WHEN $3::bool THEN least(s.attempts, 2147483646) + 1 ELSE s.attempts END,
		crashes = least(s.crashes, 2147483646) + 1,
		due_at = CASE WHEN $3::bool
			THEN lost.retry_at
			ELSE least(s.due_at, setting.now)
		END,
		retry_in = CASE WHEN $3::bool THEN greatest($4::bigint, 0) ELSE s.retry_in END,
		failed_at = CASE WHEN lost.dead THEN setting.now END,
		last_error = CASE WHEN $3::bool THEN $5::text ELSE s.last_error END,
		signature = CASE WHEN lost.dead THEN {schema}.error_signature($5::text) END,
		note = CASE WHEN $6::bool THEN '` + driver.NoteTxEnded + `' ELSE s.note END
	FROM lost, setting
	WHERE s.key = lost.key
	RETURNING s.key, s.generation, s.attempts, lost.dead
), tried AS (
	INSERT INTO {schema}.event_attempt (key, generation, number, outcome, error, at, took)
	SELECT key, generation, attempts, CASE WHEN dead THEN 3 ELSE 2 END, $5::text, setting.now, 0
	FROM changed, setting
	WHERE $3::bool
	ON CONFLICT DO NOTHING
)
SELECT c.key, e.source, e.event_id, e.type, c.attempts, c.dead
FROM changed c
CROSS JOIN LATERAL (SELECT * FROM {schema}.event e WHERE e.key = c.key LIMIT 1) e
ORDER BY e.received_at, c.key`)
)

// suspect is a run that may have been interrupted.
type suspect struct {
	xid  int64
	keys [][]byte
}

// SweepRuns implements [driver.Store]. If the database refuses a record, SweepRuns goes on with the
// next one. Together with an error it returns the runs that it recorded.
//
// Each call goes on where the one before it ended, so that no number of bad records keeps others from
// being swept.
func (s *Store) SweepRuns(ctx context.Context, p *driver.SweepRunsParams) ([]driver.LostRun, error) {
	from := s.sweepFrom.Load()
	suspects, next, err := s.suspects(ctx, from)
	if err == nil && len(suspects) == 0 && from != firstRun && next == firstRun {
		suspects, next, err = s.suspects(ctx, firstRun) // the round ended
	}
	if err != nil {
		return nil, err
	}
	var lost []driver.LostRun
	var refused []error
	for i := range suspects {
		found, err := s.sweep(ctx, p, &suspects[i])
		lost = append(lost, found...)
		s.marks.forget() // its events may be due since long ago
		if err == nil {
			continue
		}
		refused = append(refused, fmt.Errorf("run %d: %w", suspects[i].xid, err))
		if SQLState(err) == "" || len(refused) == maxBadRuns {
			next = behind(suspects[i].xid) // the connection or the whole database may fail, not this record
			break
		}
	}
	s.sweepFrom.Store(next)
	return lost, errors.Join(refused...)
}

// suspects returns the suspects among the next records, from an id on, and the id where the call after
// this one goes on.
func (s *Store) suspects(ctx context.Context, from int64) (suspects []suspect, next int64, err error) {
	records := 0
	last := int64(firstRun)
	err = read(ctx, s.pools.Admin, "looking for interrupted runs", func(r Rows) error {
		var xid int64
		var isSuspect bool
		var key []byte
		if err := r.Scan(&xid, &isSuspect, &key); err != nil {
			return err
		}
		if records == 0 || last != xid {
			records, last = records+1, xid
			if isSuspect {
				suspects = append(suspects, suspect{xid: xid})
			}
		}
		if key != nil {
			run := &suspects[len(suspects)-1]
			run.keys = append(run.keys, key)
		}
		return nil
	}, s.text(suspectsSQL), int32(maxSwept), from)
	if err != nil || records < maxSwept {
		return suspects, firstRun, err
	}
	return suspects, behind(last), nil
}

// behind returns the id behind another one; behind the last one a new round begins.
func behind(xid int64) int64 {
	if xid == math.MaxInt64 {
		return firstRun
	}
	return xid + 1
}

// sweep records the interruption of a run if all its events are unlocked, because then no process
// works on it. Under the locks of the events it reads the record again.
func (s *Store) sweep(ctx context.Context, p *driver.SweepRunsParams, run *suspect) (lost []driver.LostRun, err error) {
	err = transact(ctx, s.pools.Work, "recording an interrupted run", func(conn Conn) error {
		var free, all int64
		if err := scan(ctx, conn, func(r Rows) error { return r.Scan(&free, &all) }, s.text(lockLostSQL), run.keys); err != nil {
			return err
		}
		var status string
		var retryIn int64
		found := false
		if free == all {
			if err := scan(ctx, conn, func(r Rows) error {
				found = true
				return r.Scan(&status, &retryIn)
			}, s.text(takeRecordSQL), run.xid, committedPatience.Microseconds(), clock(p.Now)); err != nil {
				return err
			}
		}
		if !found {
			return refusedError{errNotLost}
		}
		if status == elsewhere {
			lost, err = s.lostRows(ctx, conn, driver.LostRun{Elsewhere: true}, s.text(strayedSQL), run.keys)
		} else {
			lost, err = s.lose(ctx, conn, p, run, retryIn, status == txCommitted)
		}
		if err != nil {
			return err
		}
		// Where the database refuses to let a line go on, the sweep of lines tries again.
		_, err = s.loseEach(ctx, conn, run.keys, func(keys [][]byte) ([]driver.LostRun, error) {
			places := make([]string, len(keys))
			for i, key := range keys {
				places[i] = driver.EventPlace(driver.Key(key))
			}
			return nil, s.settle(ctx, conn, places, p.Now)
		})
		return err
	})
	switch {
	case errors.Is(err, errNotLost):
		return nil, nil
	case err != nil:
		return nil, err // the commit may be what failed
	}
	return lost, nil
}

var errNotLost = errors.New("it was not interrupted")

// committedPatience is how long a process may take to record that a handler committed by itself:
// longer than a batch, the longest handler and the calls of the store after it.
const committedPatience = 2 * time.Minute

// lose records an interrupted run. If the record exists although its transaction was committed, a
// handler committed it. Nothing tells which handler that was and which had run before, so all
// events are dead: none may take effect again.
func (s *Store) lose(ctx context.Context, conn Conn, p *driver.SweepRunsParams, run *suspect, retryIn int64, committed bool) ([]driver.LostRun, error) {
	alone := len(run.keys) == 1
	retryIn = min(max(retryIn, noRetry), longestWait.Microseconds())
	reason := driver.ErrorRunInterrupted
	if committed {
		reason, retryIn = (&driver.TxEndedError{Committed: true}).Error(), noRetry
	}
	record := func(keys [][]byte) ([]driver.LostRun, error) {
		return s.lostRows(ctx, conn, driver.LostRun{Alone: alone, Ended: committed},
			s.text(lostSQL), clock(p.Now), keys, alone || committed, retryIn, reason, committed)
	}
	if alone || committed {
		return record(run.keys)
	}
	return s.loseEach(ctx, conn, run.keys, record)
}

// loseEach records something about the events of an interrupted run. If the database refuses the row of one, that one stays as it was, and
// the others are free.
func (s *Store) loseEach(ctx context.Context, conn Conn, keys [][]byte, record func(keys [][]byte) ([]driver.LostRun, error)) ([]driver.LostRun, error) {
	if err := conn.Script(ctx, "SAVEPOINT "+savepoint); err != nil {
		return nil, err
	}
	lost, err := record(keys)
	if !errors.Is(rowFailed(s.pools.Work, "", err), driver.ErrBadRow) {
		return lost, err
	}
	if err := conn.Script(ctx, "ROLLBACK TO SAVEPOINT "+savepoint); err != nil || len(keys) == 1 {
		return nil, err
	}
	lost = nil
	for _, key := range keys {
		one, err := s.loseEach(ctx, conn, [][]byte{key}, record)
		if err != nil {
			return nil, err
		}
		lost = append(lost, one...)
	}
	return lost, nil
}

// lostRows runs a statement that returns events of a run, and adds them to like.
func (s *Store) lostRows(ctx context.Context, conn Conn, like driver.LostRun, sql string, args ...any) (lost []driver.LostRun, err error) {
	err = scan(ctx, conn, func(r Rows) error {
		l := like
		var key []byte
		var attempts int32
		if err := r.Scan(&key, &l.Source, &l.EventID, &l.Type, &attempts, &l.Dead); err != nil {
			return err
		}
		l.Key, l.Attempts = driver.Key(key), int(attempts)
		lost = append(lost, l)
		return nil
	}, sql, args...)
	return lost, err
}

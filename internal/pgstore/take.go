package pgstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// runTimeout is idle_in_transaction_session_timeout in runs: how long a process may be silent
// before the server ends its session.
const runTimeout = time.Minute

// notInRunSQL is the condition that no record of a run holds the state row s. An unlocked row in a
// record belongs to an interrupted run. Through the array the planner expects few keys, which is
// right, and hashes them. Records come and go, so from the size of their table it would expect
// hundreds of thousands.
const notInRunSQL = `(s.key IN (SELECT unnest(ARRAY(SELECT unnest(keys) FROM {schema}.run)))) IS NOT TRUE`

// typesSQL is the condition that the type of a state row s is one of $5 or matches one of the
// patterns $6.
const typesSQL = `(s.type = ANY ($5::text[]) OR s.type LIKE ANY ($6::text[]))`

// The kinds of rows of event_state that a statement may take. Each kind has an index of its own.
const (
	freshSQL = `s.state = 0 AND s.attempts = 0 AND s.crashes = 0`
	triedSQL = `s.state = 0 AND (s.attempts > 0 OR s.crashes > 0)`
)

// takenColumns are the columns of a takenRow, of state rows d and events e. sizedColumns are the same,
// of rows d that have both.
var takenColumns, sizedColumns = takenFrom("e"), takenFrom("d")

func takenFrom(e string) string {
	return "d.key, " + e + ".source, " + e + ".event_id, " + e + ".type, " +
		boundedOrNull(e+".occurred_at") + ", " + bounded(e+".received_at") + ", " + e + ".headers, " + e + ".body," +
		" d.generation, d.key_generation, d.attempts, d.crashes, d.replayed, " + dueMicros
}

// dueMicros is the time d.due_at in microseconds since 1970. It is 0 for infinity and other times
// that Go cannot read, because one such row must not keep other events from being taken.
const dueMicros = `CASE WHEN d.due_at > '0001-01-01 00:00:00+00' AND d.due_at < '9999-01-01 00:00:00+00'
	THEN (extract(epoch FROM d.due_at) * 1000000)::bigint ELSE 0 END`

// takeSQL locks due events that {which} selects, and bounds how long a process that has stopped
// keeps the locks. It gives the transaction a number only if it finds an event. If {bytes} is 0, it returns one event without
// headers and body.
var takeSQL = `
WITH setting AS MATERIALIZED (
	SELECT coalesce($2::timestamptz, now()) AS now,
		set_config('idle_in_transaction_session_timeout', $3::text, true) AS bound
), due AS MATERIALIZED (
	SELECT s.key, s.due_at, s.generation, s.key_generation, s.attempts, s.crashes, s.replayed
	FROM {schema}.event_state s
	WHERE {which} AND ` + notInRunSQL + `
	ORDER BY s.source, s.due_at
	LIMIT $1::int
	FOR UPDATE SKIP LOCKED
)
SELECT ` + runColumns + `, ` + sizedColumns + `, d.found, (SELECT now FROM setting)
FROM (
	SELECT d.*, e.source, e.event_id, e.type, e.occurred_at, e.received_at,
		CASE WHEN {bytes}::bigint > 0 THEN e.headers END AS headers, CASE WHEN {bytes}::bigint > 0 THEN e.body END AS body,
		(sum(` + sizeSQL + `) OVER w)::bigint AS bytes, row_number() OVER w AS place, count(*) OVER () AS found
	FROM due d
	CROSS JOIN setting
	CROSS JOIN LATERAL (SELECT * FROM {schema}.event e WHERE e.key = d.key LIMIT 1) e
	WHERE setting.bound <> ''
	WINDOW w AS (ORDER BY d.due_at, d.key)
) d
WHERE d.place = 1 OR d.bytes <= {bytes}::bigint
ORDER BY d.due_at, d.key`

// sizeSQL is the size of an event e. The server knows it without reading a body that it stores apart.
const sizeSQL = `octet_length(e.headers)::bigint + coalesce(octet_length(e.body), 0)`

// Conditions for {which}, with $4 and the following arguments. The condition on the source is
// written so that only an index on both columns can serve it in order. With an equality the planner
// may use the index on all pending events in the order of due_at, if its statistics know of one
// source only, and read the events of all sources.
const (
	dueSQL = ` AND (s.source, s.due_at) >= ($4::text, coalesce($9::timestamptz, '-infinity'))
		AND (s.source, s.due_at) <= ($4::text, (SELECT now FROM setting)) AND ` + typesSQL + `
		AND ($8::int = 0 OR ($8::int = 1) = (s.crashes = 0))`
	keysSQL = `s.key = ANY ($4::bytea[]) AND s.state = 0`
)

var (
	takeFreshSQL = statement(takeIn(freshSQL+dueSQL, "$7"))
	takeTriedSQL = statement(takeIn(triedSQL+dueSQL, "$7"))
	takeKeysSQL  = statement(takeIn(keysSQL, "$5"))
)

// takeIn returns takeSQL for a condition, after whose arguments bytes is the next one.
func takeIn(which, bytes string) string {
	return strings.NewReplacer("{which}", which, "{bytes}", bytes).Replace(takeSQL)
}

// runColumns are columns of the transaction of a run.
const runColumns = `txid_current(), (SELECT {schema}.run_home()), pg_backend_pid(), current_setting('role'),
	(SELECT format('SET LOCAL statement_timeout = %L; SET LOCAL lock_timeout = %L; ', current_setting('statement_timeout'), current_setting('lock_timeout')))`

// markSQL writes the record of a run, unless another record holds one of its events. Then a handler
// committed the transaction of that run by itself, which unlocked the events before their outcomes were
// recorded, and after the look for due events began: it could not see the record yet.
//
// Losing the record costs nothing, so it need not wait for the disk.
var markSQL = statement(`
INSERT INTO {schema}.run (id, keys, started_at, retry_in, home)
SELECT $1::bigint, $2::bytea[], clock_timestamp(), nullif($3::bigint, -1), $4::text
FROM set_config('synchronous_commit', 'off', true)
WHERE NOT EXISTS (SELECT FROM {schema}.run r WHERE r.keys OPERATOR(pg_catalog.&&) $2::bytea[])
RETURNING true`)

// noRetry stands for the wait after the last attempt.
const noRetry = -1

// takenRow holds one row of takenColumns.
type takenRow struct {
	driver.TakenEvent
	key                           []byte
	occurredAt                    *time.Time
	generation, attempts, crashes int32
	keyGeneration                 int32
	due                           int64
}

func (t *takenRow) targets() []any {
	return []any{
		&t.key, &t.Source, &t.EventID, &t.Type, &t.occurredAt, &t.ReceivedAt,
		&t.Headers, &t.Body, &t.generation, &t.keyGeneration, &t.attempts, &t.crashes, &t.Replayed, &t.due,
	}
}

// finish returns the event after a scan.
func (t *takenRow) finish() driver.TakenEvent {
	t.Key, t.OccurredAt, t.ReceivedAt = driver.Key(t.key), timeOf(t.occurredAt), t.ReceivedAt.UTC()
	t.Generation, t.KeyGeneration = int(t.generation), int(t.keyGeneration)
	t.Attempts, t.Crashes = int(t.attempts), int(t.crashes)
	if t.due != 0 {
		t.DueAt = time.UnixMicro(t.due).UTC()
	}
	return t.TakenEvent
}

// Take implements [driver.Driver]. The run is nil if no event was found.
func (s *Store) Take(ctx context.Context, p *driver.TakeParams) (r *Run, err error) {
	for p != nil && r == nil && err == nil {
		r, p, err = s.takeOnce(ctx, p)
	}
	return r, err
}

// takeOnce is Take, unless only some of the events in lines may run. Then it takes none, because only the end of its
// transaction unlocks the others, and returns left, which asks for those.
func (s *Store) takeOnce(ctx context.Context, p *driver.TakeParams) (run *Run, left *driver.TakeParams, err error) {
	r, err := s.lockDue(ctx, p, p.Limit)
	if isUnreadable(err) {
		r, err = s.lockReadable(ctx, p)
	}
	for err == nil && len(r.events) > 0 && len(r.events) < r.found {
		// It has locked more events than fit into the bytes. Only the end of the transaction
		// unlocks the others.
		r.drop(ctx)
		r, err = s.lockDue(ctx, p, len(r.events))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("taking events: %w", err)
	}
	if len(r.events) == 0 {
		r.drop(ctx)
		return nil, nil, nil
	}
	marked, left, err := s.mark(ctx, r, p)
	if err == nil && !marked {
		r.drop(ctx)
		return nil, left, nil
	}
	if err == nil {
		err = r.failure(r.tx.Script(ctx, "SAVEPOINT "+savepoint))
	}
	if err == nil {
		return r, nil, nil
	}
	if marked {
		_ = s.unmark(ctx, r) // if it fails, a sweep finds the record
	}
	r.drop(ctx)
	return nil, nil, fmt.Errorf("taking events: %w", err)
}

// isUnreadable reports whether the server could not read a row. A damaged body may ask for more memory than there can be,
// or for a compression that the server does not have.
func isUnreadable(err error) bool {
	return slices.Contains([]string{codeDamaged, codeIndexDamaged, codeInternal, codeNotSupported}, SQLState(err))
}

// readAgain reads the headers and the body of an event. It tells whether they cannot be read: the event that a statement
// could not read may be one that another session has locked since.
func (s *Store) readAgain(ctx context.Context, key driver.Key) (headers, body []byte, unreadable, err error) {
	err = read(ctx, s.pools.Receive, "reading an event", func(r Rows) error { return r.Scan(&headers, &body) }, s.text(bodyByKeySQL), key[:])
	if isUnreadable(err) {
		return nil, nil, err, nil
	}
	return headers, body, nil, err
}

var bodyByKeySQL = statement(`SELECT headers, body FROM {schema}.event WHERE key = $1::bytea`)

// lockReadable is lockDue after the server could not read an event: it locks half of the events, a quarter, and so on. If the
// first one alone cannot be read, it is locked without headers and body.
func (s *Store) lockReadable(ctx context.Context, p *driver.TakeParams) (*Run, error) {
	r, err := halving(min(p.Limit, maxTake), func(limit int) (*Run, error) { return s.lockDue(ctx, p, limit) }, isUnreadable)
	if !isUnreadable(err) {
		return r, err
	}
	unread := *p
	unread.Bytes = noBytes
	if r, err = s.lockDue(ctx, &unread, 1); err != nil || len(r.events) == 0 {
		return r, err
	}
	ev := &r.events[0]
	if ev.Headers, ev.Body, ev.Unreadable, err = s.readAgain(ctx, ev.Key); err != nil {
		r.drop(ctx)
		return nil, err
	}
	return r, nil
}

// drop ends a run that was not handed out.
func (r *Run) drop(ctx context.Context) {
	r.tx.Rollback(ctx)
	r.dueAgain()
}

func (s *Store) begin(ctx context.Context) (*Run, error) {
	tx, err := s.pools.Work.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	return &Run{store: s, tx: tx}, nil
}

// lockDue begins a transaction, and locks up to limit events in it.
func (s *Store) lockDue(ctx context.Context, p *driver.TakeParams, limit int) (*Run, error) {
	r, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.take(ctx, p, limit); err != nil {
		r.tx.Rollback(ctx)
		return nil, r.failure(err)
	}
	return r, nil
}

// take locks events.
func (r *Run) take(ctx context.Context, p *driver.TakeParams, limit int) error {
	timeout := max(runTimeout, p.HandlerTimeout+5*time.Second)
	limit = min(max(limit, 1), maxTake)
	args := []any{int32(limit), clock(p.Now), milliseconds(timeout)}
	r.beside, r.ordered = p.Beside, len(p.Lines) > 0
	if len(p.Keys) > 0 {
		_, err := r.collect(ctx, r.store.text(takeKeysSQL), append(args, keyArgs(p.Keys), mostBytes(p.Bytes))...)
		return err
	}
	kind, sql := "fresh", r.store.text(takeFreshSQL)
	if p.Tried {
		kind, sql = "tried", r.store.text(takeTriedSQL)
	}
	exact, patterns := typeArgs(p.Types)
	k := r.store.marks.begin(queue{fmt.Sprint(kind, p.Suspects), p.Source}, strings.Join(p.Types, " "), p.Now)
	now, err := r.collect(ctx, sql, append(args, p.Source, exact, patterns, mostBytes(p.Bytes), int32(p.Suspects), k.from)...)
	if err == nil {
		k.end(r.takenUntil(limit, now), now)
	}
	return err
}

// takenUntil returns a lower bound for the due times of unlocked events after r locked up to limit events.
func (r *Run) takenUntil(limit int, now time.Time) time.Time {
	if r.found < limit {
		return now
	}
	return r.events[len(r.events)-1].DueAt
}

// noBytes is TakeParams.Bytes for an event without headers and body.
const noBytes = -1

// mostBytes returns the bound of the bytes of events.
func mostBytes(bytes int64) int64 { return max(0, cmp.Or(bytes, driver.MaxTakeBytes)) }

// collect reads events into the run, and the identity of its transaction. It returns the time of
// the statement, which is zero if there are no events.
func (r *Run) collect(ctx context.Context, sql string, args ...any) (now time.Time, err error) {
	err = scan(ctx, r.tx, func(rows Rows) error {
		var row takenRow
		if err := rows.Scan(append(append([]any{&r.xid, &r.home, &r.pid, &r.role, &r.bounds}, row.targets()...), &r.found, &now)...); err != nil {
			return err
		}
		r.events = append(r.events, row.finish())
		return nil
	}, sql, args...)
	return now, err
}

// maxTake is the most events of one run.
const maxTake = 10_000

// typeArgs returns the types of TakeParams as arguments of typesSQL.
func typeArgs(types []string) (exact, patterns []string) {
	exact, patterns = []string{}, []string{}
	escape := strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`, "*", "%")
	for _, t := range types {
		switch {
		case !driver.IsText(t): // no event has such a type
		case strings.Contains(t, "*"):
			patterns = append(patterns, escape.Replace(t))
		default:
			exact = append(exact, t)
		}
	}
	return exact, patterns
}

// milliseconds returns a duration as the value of a setting. "0" would mean no bound.
func milliseconds(d time.Duration) string { return fmt.Sprintf("%dms", max(1, d.Milliseconds())) }

// mark writes the record of a run on another connection: the run's own transaction would take the
// record with it. A record with a single key counts an attempt when it is swept, so a run beside others
// has its key twice. marked is false if no record was written, because another one holds an event of
// the run, or because only the events of left may run.
func (s *Store) mark(ctx context.Context, r *Run, p *driver.TakeParams) (marked bool, left *driver.TakeParams, err error) {
	retryIn := int64(noRetry)
	if delay, last := p.Retry.AfterInterrupted(r.events[0].Attempts + 1); !last {
		retryIn = delay.Microseconds()
	}
	keys := r.keys()
	if r.beside && len(keys) == 1 {
		keys = append(keys, keys[0])
	}
	if r.ordered {
		return s.markOrdered(ctx, r, p, keys, retryIn)
	}
	err = write(ctx, s.pools.Receive, "recording a run", func(Rows) error {
		marked = true
		return nil
	}, s.text(markSQL), r.xid, keyArgs(keys), retryIn, r.home)
	return marked || errors.Is(err, driver.ErrCommitUnknown), nil, err
}

// markOrdered is mark for events of lines.
func (s *Store) markOrdered(ctx context.Context, r *Run, p *driver.TakeParams, keys []driver.Key, retryIn int64) (marked bool, left *driver.TakeParams, err error) {
	lineOf := func(key driver.Key) driver.Key { return p.Lines[slices.Index(p.Keys, key)] }
	lines := make([][]byte, len(keys))
	for i, key := range keys {
		lines[i] = []byte{}
		if line := lineOf(key); line != (driver.Key{}) {
			lines[i] = line[:]
		}
	}
	mine := *p
	mine.Keys, mine.Lines = nil, nil
	err = write(ctx, s.pools.Receive, "recording a run", func(rows Rows) error {
		var bytes []byte
		if err := rows.Scan(&bytes); err != nil {
			return err
		}
		if key := driver.Key(bytes); !slices.Contains(mine.Keys, key) {
			mine.Keys, mine.Lines = append(mine.Keys, key), append(mine.Lines, lineOf(key))
		}
		return nil
	}, s.text(markOrderedSQL), r.xid, keyArgs(keys), lines, retryIn, r.home)
	switch {
	case err != nil:
		return errors.Is(err, driver.ErrCommitUnknown), nil, err
	case len(mine.Keys) == 0:
		return false, nil, nil
	case len(mine.Keys) < len(r.events):
		return false, &mine, nil
	}
	return true, nil, nil
}

// unmark deletes the record of a run. It may wait for a transaction of the run that deletes it too
// and is about to end.
func (s *Store) unmark(ctx context.Context, r *Run) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer cancel()
	return transact(ctx, s.pools.Receive, "removing the record of a run", func(conn Conn) error {
		if err := scan(ctx, conn, noRows, s.text(unmarkSQL), r.xid); err != nil {
			return err
		}
		return r.settleLines(ctx, conn, &driver.FinishParams{})
	})
}

// unmarkSQL deletes the record of a run without an outcome for its events.
var unmarkSQL = statement(`DELETE FROM {schema}.run WHERE id = $1::bigint`)

// WorkLimits returns the limits of handlers on a pool of conns connections; 0 means no limit. Two of
// four or more connections are left for leases, outcomes and upkeep, and one of fewer.
func WorkLimits(conns int) driver.WorkLimits {
	limits := driver.WorkLimits{
		Transactions: 4, HandlerTimeout: 30 * time.Second, MaxHandlerTimeout: 55 * time.Second, BatchTime: 5 * time.Second,
	}
	switch {
	case conns >= 4:
		limits.MaxTransactions = conns - 2
	case conns > 1:
		limits.MaxTransactions = conns - 1
	case conns == 1:
		limits.MaxTransactions = -1
	}
	if conns > 0 {
		limits.Transactions = max(1, min(limits.Transactions, conns/2))
	}
	return limits
}

package pgstore

import (
	"slices"
	"strings"

	"github.com/hookonce/hookonce/driver"
)

// The statements of this file record outcomes of handlers: 1 succeeded, 2 stale, 3 retry, 4 failed
// for good, 5 postponed, 6 ended its transaction. $1 is the time; NULL means the database's clock at the
// statement, not at the beginning of the transaction. $2 to $6 are the outcomes, $7 to $10 the versions, $11 the run.

const givenSQL = `
WITH setting AS MATERIALIZED (
	SELECT coalesce($1::timestamptz, clock_timestamp()) AS now, {schema}.durably() AS durable
), given AS MATERIALIZED (
	SELECT * FROM unnest($2::bytea[], $3::int[], $4::bigint[], $5::text[], $6::bigint[])
		AS i (key, outcome, retry_in, error, took)
)`

// changedSQL changes the state rows of "held", and records their failed attempts. A distributed PostgreSQL refuses a
// function in a CASE of an UPDATE that is not immutable, such as the sum of a time and an interval.
const changedSQL = `, changed AS (
	UPDATE {schema}.event_state s
	SET state = CASE WHEN i.outcome = 1 THEN 2 WHEN i.outcome = 2 THEN 4 WHEN i.outcome IN (4, 6) THEN 3 ELSE 0 END,
		note = CASE i.outcome WHEN 2 THEN '` + driver.NoteStale + `' WHEN 6 THEN '` + driver.NoteTxEnded + `' ELSE '' END,
		attempts = CASE WHEN i.outcome IN (2, 5) THEN s.attempts ELSE least(s.attempts, 2147483646) + 1 END,
		due_at = CASE
			WHEN i.outcome IN (3, 5) THEN i.retry_at
			WHEN i.outcome = 2 THEN setting.now -- pruning counts from here
			ELSE s.due_at
		END,
		retry_in = CASE i.outcome WHEN 3 THEN i.retry_in ELSE s.retry_in END,
		processed_at = CASE i.outcome WHEN 1 THEN setting.now END,
		failed_at = CASE WHEN i.outcome IN (4, 6) THEN setting.now END,
		last_error = CASE i.outcome WHEN 5 THEN s.last_error ELSE nullif(i.error, '') END,
		signature = CASE WHEN i.outcome IN (4, 6) THEN {schema}.error_signature(nullif(i.error, '')) END
	FROM (SELECT h.*, setting.now + h.retry_in * interval '1 microsecond' AS retry_at FROM {held} h, setting) i, setting
	WHERE s.key = i.key AND s.state = 0
	RETURNING s.key, s.generation, s.attempts, i.outcome, i.error, i.took
), tried AS (
	INSERT INTO {schema}.event_attempt (key, generation, number, outcome, error, at, took)
	SELECT key, generation, attempts, CASE outcome WHEN 3 THEN 2 ELSE 3 END, error, setting.now, took
	FROM changed, setting
	WHERE outcome IN (3, 4, 6)
	ON CONFLICT DO NOTHING
)`

const appliedSQL = `, applied AS (
	INSERT INTO {schema}.object_version AS v (object, source, version, shown, applied_at)
	SELECT DISTINCT ON (o.object) o.object, o.source, o.version, o.shown, setting.now
	FROM unnest($7::bytea[], $8::text[], $9::bytea[], $10::text[]) AS o (object, source, version, shown)
	CROSS JOIN setting
	WHERE {free}
	ORDER BY o.object, o.version DESC` + higherSQL + `
)`

const (
	// anyObjectSQL and freeObjectSQL are conditions for {free}. A run in progress has locked its
	// objects. Outside of it, another run may hold an object for as long as handlers work: its
	// version is left out, because the outcomes of events cannot wait for it.
	anyObjectSQL  = `true`
	freeObjectSQL = `o.object NOT IN (SELECT object FROM held_object)`
)

const heldObjectSQL = `, free_object AS MATERIALIZED (
	SELECT v.object FROM {schema}.object_version v
	WHERE v.object = ANY ($7::bytea[])
	FOR UPDATE SKIP LOCKED
), held_object AS MATERIALIZED (
	SELECT v.object FROM {schema}.object_version v
	WHERE v.object = ANY ($7::bytea[]) AND v.object NOT IN (SELECT object FROM free_object)
)`

// finishSQL records the outcomes of a run, in its transaction, and deletes its record. settleSQL
// does so under the lock of the record.
var (
	finishSQL = statement(outcomesIn(givenSQL+changedSQL+appliedSQL+goneSQL, "given", anyObjectSQL))
	settleSQL = statement(outcomesIn(givenSQL+heldObjectSQL+changedSQL+appliedSQL+goneSQL, "given", freeObjectSQL))
)

const goneSQL = `, gone AS (
	DELETE FROM {schema}.run r WHERE r.id = $11::bigint RETURNING r.id
)
SELECT (SELECT count(*) FROM changed), (SELECT count(*) FROM gone), txid_current()`

// finishClaimSQL records the outcome of a run of TakeClaim, whose row has been done since the
// claim. Its earlier failures count as attempts. It does not use $11.
var finishClaimSQL = statement(outcomesIn(givenSQL+`, changed AS (
	UPDATE {schema}.event_state s
	SET state = CASE i.outcome WHEN 2 THEN 4 ELSE 2 END,
		note = CASE i.outcome WHEN 2 THEN '`+driver.NoteStale+`' ELSE '' END,
		attempts = coalesce(f.failures, 0) + CASE i.outcome WHEN 2 THEN 0 ELSE 1 END,
		processed_at = CASE i.outcome WHEN 1 THEN setting.now END,
		last_error = nullif(i.error, '')
	FROM given i LEFT JOIN {schema}.inline_failure f ON f.key = i.key, setting
	WHERE s.key = i.key AND s.state = 2
	RETURNING s.key
)`+appliedSQL+`, forgotten AS (
	DELETE FROM {schema}.inline_failure f USING given i WHERE f.key = i.key
)
SELECT (SELECT count(*) FROM changed), $11::bigint, txid_current()`, "given", anyObjectSQL))

// endClaimSQL records that the handler of a claim committed by itself. The event has been done
// since the claim. Its earlier failures count as attempts. $7 is the generation.
var endClaimSQL = statement(givenSQL + `, changed AS (
	UPDATE {schema}.event_state s
	SET state = 3, note = '` + driver.NoteTxEnded + `', attempts = coalesce(f.failures, 0) + 1,
		processed_at = NULL, failed_at = setting.now, last_error = i.error, signature = {schema}.error_signature(i.error)
	FROM given i LEFT JOIN {schema}.inline_failure f ON f.key = i.key, setting
	WHERE s.key = i.key AND s.state = 2 AND s.generation = $7::int
	RETURNING s.key, s.generation, s.attempts, i.error, i.took
), tried AS (
	INSERT INTO {schema}.event_attempt (key, generation, number, outcome, error, at, took)
	SELECT key, generation, attempts, 3, error, setting.now, took
	FROM changed, setting
	ON CONFLICT DO NOTHING
), forgotten AS (
	DELETE FROM {schema}.inline_failure f USING given i WHERE f.key = i.key
)
SELECT count(*) FROM changed`)

// recordReservedSQL records outcomes of events in no run, and passes over locked rows. $11 are the
// ends of the reservations; it passes over an event that has another due time by now.
var recordReservedSQL = statement(outcomesIn(givenSQL+`, held AS MATERIALIZED (
	SELECT i.*
	FROM given i
	JOIN unnest($2::bytea[], $11::bigint[]) AS r (key, until) ON r.key = i.key
	CROSS JOIN LATERAL (
		SELECT FROM {schema}.event_state d
		WHERE d.key = i.key AND d.state = 0 AND `+dueMicros+` = r.until
			AND (d.key IN (SELECT unnest(ARRAY(SELECT unnest(keys) FROM {schema}.run)))) IS NOT TRUE
		FOR UPDATE SKIP LOCKED
	) s
)`+changedSQL+appliedSQL+`
SELECT count(*) FROM changed`, "held", anyObjectSQL))

// outcomesIn returns a statement of this file for the outcomes in the list held, and for the versions of
// free objects.
func outcomesIn(sql, held, free string) string {
	return strings.NewReplacer("{held}", held, "{free}", free).Replace(sql)
}

// checkResults panics if the caller broke the contract.
func checkResults(results []driver.WorkResult) {
	for i := range results {
		if o := results[i].Outcome; o < driver.WorkSucceeded || o > driver.WorkEnded {
			panic("pgstore: a result without an outcome")
		}
	}
}

// outcomeArgs returns the arguments of the statements above, except $11.
func outcomeArgs(p *driver.FinishParams) []any {
	n := len(p.Results)
	keys, texts := make([][]byte, n), make([]string, n)
	outcomes, retryIn, took := make([]int32, n), make([]int64, n), make([]int64, n)
	for i := range p.Results {
		r := &p.Results[i]
		keys[i], outcomes[i], texts[i] = slices.Clone(r.Key[:]), int32(r.Outcome), plain(r.Error)
		retryIn[i], took[i] = max(0, r.RetryIn.Microseconds()), max(0, r.Took.Microseconds())
	}
	versions := newVersionArgs()
	for i := range p.Versions {
		versions.add(&p.Versions[i])
	}
	return []any{
		clock(p.Now), keys, outcomes, retryIn, texts, took,
		versions.objects, versions.sources, versions.versions, versions.shown,
	}
}

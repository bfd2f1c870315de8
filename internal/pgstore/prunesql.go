package pgstore

// pruneChunkSQL removes the finished events of one chunk of a walk, or their bodies, by a function of the schema that
// each session plans once. It has no row if the turn was lost.
var pruneChunkSQL = statement(`
SELECT locked, removed, last_at, last_key FROM {schema}.prune_chunk(
	$1::bigint, $2::boolean, $3::timestamptz, $4::bytea, $5::timestamptz, $6::text[], $7::boolean, $8::timestamptz,
	$9::int, $10::int
)`)

// nextEventSQL returns the place of the next event of a walk; $4: of the next one with a body.
var nextEventSQL = statement(`
SELECT e.received_at, e.key FROM {schema}.event e
WHERE (e.received_at, e.key) > ($1::timestamptz, $2::bytea) AND e.received_at < $3::timestamptz AND (NOT $4::boolean OR e.body IS NOT NULL)
ORDER BY e.received_at, e.key
LIMIT 1`)

// The statements that follow share their first arguments: $1 the time (NULL means the database's
// clock); $2 and $3 the sources with windows of their own, and these in microseconds; $4 the window
// of the other sources; $5 the shortest window.
const pruneSettingsSQL = `
WITH setting AS MATERIALIZED (
	SELECT coalesce($1::timestamptz, now()) AS now
), windows AS MATERIALIZED (
	SELECT * FROM unnest($2::text[], $3::bigint[]) AS w (source, keep)
)`

// pruneQuarantineAgeSQL has the shared arguments $1 to $4, and $5 the size of a chunk.
var pruneQuarantineAgeSQL = statement(pruneSettingsSQL + `
, victim AS MATERIALIZED (
	SELECT q.key
	FROM {schema}.quarantine q
	WHERE q.last_at < (SELECT now FROM setting) - coalesce(
		(SELECT w.keep FROM windows w WHERE w.source = q.source), $4::bigint
	) * interval '1 microsecond'
	LIMIT $5::int
	FOR UPDATE SKIP LOCKED
), gone AS (
	DELETE FROM {schema}.quarantine q USING victim v WHERE q.key = v.key RETURNING q.key
)
SELECT count(*) FROM gone`)

// pruneVersionsSQL has the shared arguments $1 to $5, and $6 the size of a chunk. Versions that a
// run has locked stay, and those of lines with open messages or dead letters.
var pruneVersionsSQL = statement(pruneSettingsSQL + `
, victim AS MATERIALIZED (
	SELECT v.object
	FROM {schema}.object_version v
	WHERE v.applied_at < (SELECT now FROM setting) - $5::bigint * interval '1 microsecond'
		AND v.applied_at < (SELECT now FROM setting) - coalesce(
			(SELECT w.keep FROM windows w WHERE w.source = v.source), $4::bigint
		) * interval '1 microsecond'
		AND NOT EXISTS (SELECT FROM {schema}.ordered_message o WHERE o.line = v.object AND o.state < 2)
		AND NOT EXISTS (SELECT FROM {schema}.ordered_message o WHERE o.line = v.object AND o.state = 3)
	ORDER BY v.applied_at
	LIMIT $6::int
	FOR UPDATE SKIP LOCKED
), gone AS (
	DELETE FROM {schema}.object_version o USING victim v WHERE o.object = v.object RETURNING o.object
)
SELECT count(*) FROM gone`)

// pruneQuarantineRowsSQL keeps the newest rows of each source: $2 of the sources $1, and $3 of the
// others. It removes up to $4 rows.
var pruneQuarantineRowsSQL = statement(`
WITH windows AS MATERIALIZED (
	SELECT * FROM unnest($1::text[], $2::bigint[]) AS w (source, keep)
), ranked AS MATERIALIZED (
	SELECT key, source, row_number() OVER (PARTITION BY source ORDER BY last_at DESC, key) AS place
	FROM {schema}.quarantine
), victim AS MATERIALIZED (
	SELECT q.key
	FROM {schema}.quarantine q
	WHERE q.key IN (
		SELECT r.key FROM ranked r
		WHERE r.place > coalesce((SELECT w.keep FROM windows w WHERE w.source = r.source), $3::bigint)
		LIMIT $4::int
	)
	FOR UPDATE SKIP LOCKED
), gone AS (
	DELETE FROM {schema}.quarantine q USING victim v WHERE q.key = v.key RETURNING q.key
)
SELECT count(*) FROM gone`)

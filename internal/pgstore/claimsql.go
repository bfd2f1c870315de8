package pgstore

// What a claim does in the database stands in functions of the schema (step 6 of its
// migrations), where it is planned once in each session.
const (
	claimSQL = `
SELECT place, is_claimed, body_taken, known_sha256, is_dead, seen_key, seen_id, lock_before
FROM {schema}.claim(
	$1::text, $2::timestamptz,
	$3::bytea[], $4::text[], $5::text[], $6::text[], $7::timestamptz[], $8::bytea[], $9::bytea[],
	$10::bytea[], $11::bytea[], $12::int[], $13::int[],
	$14::text[], $15::bytea[], $16::text[], $17::text[]
)`

	// lookUpSQL reads what a claim's own snapshot could not see.
	lookUpSQL = `
SELECT i.place, known.known_sha256, coalesce(known.dead, false), known.seen_key, known.seen_id
FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::int[])
	WITH ORDINALITY AS i (key, body_key, body_sha256, guard, place)
CROSS JOIN LATERAL {schema}.known_claim(i.key, i.body_key, i.body_sha256, i.guard) known`
)

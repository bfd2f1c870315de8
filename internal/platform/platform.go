// Package platform recognises managed PostgreSQL servers. The schema's functions and the durability check use its one rule.
package platform

// SQL is a query that returns one row for a platform whose settings are off although no commit is lost by it, and none for
// any other server: its name, these settings, and why no commit is lost.
//
// Each is recognised by two facts, which no other server has by accident. The query calls nothing that another server
// lacks. Neon's storage is durable only while commits wait for its safekeepers. A role cannot create a function in
// pg_catalog, which always has the number 11.
const SQL = `SELECT p.name, p.covered, p.reason
FROM (VALUES
	(1, 'Neon', CASE WHEN current_setting('synchronous_standby_names') LIKE '%walproposer%' THEN ARRAY['fsync', 'full_page_writes'] END,
		'its safekeepers store the log', current_setting('neon.tenant_id', true) <> '' AND current_setting('neon.timeline_id', true) <> ''),
	(2, 'Aurora', ARRAY['full_page_writes'], 'its storage takes the log, and no pages',
		EXISTS (SELECT FROM pg_catalog.pg_proc f WHERE f.proname = 'aurora_version' AND f.pronamespace = 11::oid) AND coalesce(
			current_setting('rds.extensions', true), current_setting('rds.logical_replication', true),
			current_setting('apg_plan_mgmt.capture_plan_baselines', true), current_setting('apg_ccm_enabled', true)) IS NOT NULL)
) AS p (place, name, covered, reason, here)
WHERE p.here
ORDER BY p.place
LIMIT 1`

// NameSQL is a query that returns one row for each managed server that is known, and none for any other: its name, and how
// its storage keeps commits without a standby, ” if it does not. Nothing but texts for people depends on it, so one fact
// is enough.
const NameSQL = `SELECT p.name, p.reason
FROM (
	SELECT 0 AS place, durable.name, durable.reason, durable.name AS fact FROM (` + SQL + `) AS durable
	UNION ALL VALUES
		(1, 'AlloyDB', 'its storage keeps the log', coalesce(current_setting('alloydb.iam_authentication', true), current_setting('alloydb.logical_decoding', true))),
		(2, 'Cloud SQL', '', coalesce(current_setting('cloudsql.iam_authentication', true), current_setting('cloudsql.logical_decoding', true))),
		(3, 'Azure', '', coalesce(current_setting('azure.extensions', true), current_setting('azure.accepted_password_auth_method', true))),
		(4, 'Amazon RDS', '', coalesce(current_setting('rds.extensions', true), current_setting('rds.logical_replication', true)))
) AS p (place, name, reason, fact)
WHERE p.fact IS NOT NULL
ORDER BY p.place
LIMIT 1`

// Package platform recognises managed PostgreSQL servers. The schema's functions and the durability check use its one rule.
package platform

// SQL is a query that returns one row for a managed platform, and none for any other server: its name, the settings that
// are always off there although no commit is lost by it, and why none is.
//
// The two with such settings are recognised by two facts each. Nobody can give a server these facts by accident. It calls
// nothing that another server lacks. Neon's storage is durable only while commits wait for its safekeepers.
const SQL = `SELECT p.name, p.covered, p.reason
FROM (VALUES
	(1, 'Neon', CASE WHEN current_setting('synchronous_standby_names') LIKE '%walproposer%' THEN ARRAY['fsync', 'full_page_writes'] END,
		'its safekeepers store the log', current_setting('neon.tenant_id', true) <> '' AND current_setting('neon.timeline_id', true) <> ''),
	(2, 'Aurora', ARRAY['full_page_writes'], 'its storage takes the log, and no pages',
		EXISTS (SELECT FROM pg_catalog.pg_proc f WHERE f.proname = 'aurora_version') AND coalesce(
			current_setting('rds.extensions', true), current_setting('rds.logical_replication', true),
			current_setting('apg_plan_mgmt.capture_plan_baselines', true), current_setting('apg_ccm_enabled', true)) IS NOT NULL),
	(3, 'Amazon RDS', NULL, '', current_setting('rds.extensions', true) IS NOT NULL),
	(4, 'AlloyDB', NULL, '', current_setting('alloydb.iam_authentication', true) IS NOT NULL),
	(5, 'Cloud SQL', NULL, '', current_setting('cloudsql.iam_authentication', true) IS NOT NULL),
	(6, 'Azure', NULL, '', current_setting('azure.extensions', true) IS NOT NULL)
) AS p (place, name, covered, reason, here)
WHERE p.here
ORDER BY p.place
LIMIT 1`

// Package platform recognises managed PostgreSQL servers. The schema's functions and the durability check use its one rule.
package platform

// SQL is a query that returns one row for a platform whose settings are off although no commit is lost by it, and none for
// any other server: its name, these settings, and why no commit is lost.
//
// Each is recognised by two facts, which no other server has by accident. The query calls nothing that another server
// lacks. Neon's storage is durable only while commits wait for its safekeepers.
const SQL = `SELECT p.name, p.covered, p.reason
FROM (VALUES
	(1, 'Neon', CASE WHEN current_setting('synchronous_standby_names') LIKE '%walproposer%' THEN ARRAY['fsync', 'full_page_writes'] END,
		'its safekeepers store the log', current_setting('neon.tenant_id', true) <> '' AND current_setting('neon.timeline_id', true) <> ''),
	(2, 'Aurora', ARRAY['full_page_writes'], 'its storage takes the log, and no pages',
		EXISTS (SELECT FROM pg_catalog.pg_proc f WHERE f.proname = 'aurora_version') AND coalesce(
			current_setting('rds.extensions', true), current_setting('rds.logical_replication', true),
			current_setting('apg_plan_mgmt.capture_plan_baselines', true), current_setting('apg_ccm_enabled', true)) IS NOT NULL)
) AS p (place, name, covered, reason, here)
WHERE p.here
ORDER BY p.place
LIMIT 1`

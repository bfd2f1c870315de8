package pgstore

import (
	"context"
	"fmt"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/platform"
)

// Now implements [driver.Store]. It takes the same way as claims, so that it fails when they do,
// and not when listings are busy.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	err = read(ctx, s.pools.Receive, "reading the clock", func(r Rows) error {
		return r.Scan(&now)
	}, "SELECT clock_timestamp()")
	return now.UTC(), err
}

// settingsSQL reads the settings of the server that a transaction cannot change, and the platform. The schema may not
// exist yet.
const settingsSQL = `
SELECT current_setting('fsync'), current_setting('full_page_writes'),
	pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on', coalesce(platform.name, ''), coalesce(platform.reason, ''),
	coalesce('fsync' = ANY (platform.covered), false), coalesce('full_page_writes' = ANY (platform.covered), false)
FROM (SELECT) AS always LEFT JOIN (` + platform.SQL + `) AS platform ON true`

// Weaknesses implements [driver.Store]. A server that accepts no writes is unavailable, not weak.
//
// synchronous_commit is no weakness, because transactions raise it: see durably in the
// schema, and https://www.postgresql.org/docs/current/runtime-config-wal.html.
func (s *Store) Weaknesses(ctx context.Context) ([]driver.Weakness, error) {
	const op = "reading the durability settings"
	var fsync, fullPageWrites, name, reason string
	var readOnly, fsyncCovered, pagesCovered bool
	err := read(ctx, s.pools.Receive, op, func(r Rows) error {
		return r.Scan(&fsync, &fullPageWrites, &readOnly, &name, &reason, &fsyncCovered, &pagesCovered)
	}, settingsSQL)
	if err != nil {
		return nil, err
	}
	if readOnly {
		return nil, fmt.Errorf("%s: %w: connect to the primary", op, driver.ErrReadOnly)
	}
	var found []driver.Weakness
	add := func(covered bool, w driver.Weakness) {
		if covered {
			w.Platform, w.Effect, w.Remedy = name, reason, ""
		}
		found = append(found, w)
	}
	if fsync != "on" {
		add(fsyncCovered, driver.Weakness{
			Setting: "fsync", Value: fsync,
			Effect: "A crash of the machine loses acknowledged events or the whole database.",
			Remedy: "Set fsync = on in postgresql.conf and reload the server.",
		})
	}
	if fullPageWrites != "on" {
		add(pagesCovered, driver.Weakness{
			Setting: "full_page_writes", Value: fullPageWrites,
			Effect: "A crash of the machine can leave half-written pages, and lose the events on them.",
			Remedy: "Set full_page_writes = on in postgresql.conf and reload the server.",
		})
	}
	return found, nil
}

// replicationSQL reads the standbys. The level is the one of claims: see durably in the schema. A role that is no member of
// pg_read_all_stats sees the standbys, but not their states.
const replicationSQL = `
SELECT current_setting('synchronous_standby_names'),
	CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' WHEN 'local' THEN 'on' ELSE current_setting('synchronous_commit') END,
	(SELECT count(*) FROM pg_stat_replication)::int,
	(SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state IN ('sync', 'quorum'))::int,
	NOT pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE'),
	(SELECT count(*) FROM pg_replication_slots WHERE slot_type = 'physical' AND NOT temporary AND NOT active)::int,
	coalesce(platform.name, ''), coalesce(platform.reason, '')
FROM (SELECT) AS always LEFT JOIN (` + platform.NameSQL + `) AS platform ON true`

// Replication implements [driver.Replicated].
func (s *Store) Replication(ctx context.Context) (*driver.Replication, error) {
	var r driver.Replication
	const op = "looking at the standbys"
	err := read(ctx, s.pools.Receive, op, func(rows Rows) error {
		return rows.Scan(&r.Names, &r.Level, &r.Standbys, &r.Synchronous, &r.Hidden, &r.UnusedSlots, &r.Platform, &r.Storage)
	}, replicationSQL)
	if hidden(s.pools.Receive, err) {
		err = fmt.Errorf("%s: %w: %w", op, driver.ErrHidden, err)
	}
	return &r, err
}

// foreignTriggersSQL lists the triggers and rules that fire on tables of the schema. Those of foreign
// keys are internal; the schema itself has one trigger.
const foreignTriggersSQL = `
SELECT pg_catalog.format('trigger %s on %s.%s', t.tgname, n.nspname, c.relname) AS text
FROM pg_trigger t
JOIN pg_class c ON c.oid = t.tgrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1::text AND NOT t.tgisinternal AND t.tgenabled IN ('O', 'A')
	AND (c.relname, t.tgname) NOT IN (('take_call', 'refuse_autocommit'), ('taken_in_line', 'settle_taken'))
UNION ALL
SELECT pg_catalog.format('rule %s on %s.%s', r.rulename, n.nspname, c.relname)
FROM pg_rewrite r
JOIN pg_class c ON c.oid = r.ev_class
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1::text AND c.relkind IN ('r', 'p') AND r.ev_enabled IN ('O', 'A')
ORDER BY text`

// ForeignTriggers implements [driver.Store]. It lists only what fires in sessions of clients.
func (s *Store) ForeignTriggers(ctx context.Context) (found []string, err error) {
	err = read(ctx, s.pools.Admin, "looking for foreign triggers", eachText(&found), foreignTriggersSQL, s.name)
	return found, err
}

// plantersSQL lists who may create in schemas of the search path, apart from this role, superusers and the database's owner.
const plantersSQL = `
SELECT CASE WHEN a.grantee = 0::oid THEN 'every role' ELSE 'role ' || r.rolname::text END || ' may create in schema ' || n.nspname::text
FROM pg_namespace n
CROSS JOIN LATERAL aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) a
LEFT JOIN pg_roles r ON r.oid = a.grantee
WHERE n.nspname = ANY (current_schemas(false)::name[]) AND a.privilege_type = 'CREATE'
	AND (a.grantee = 0::oid OR NOT r.rolsuper AND r.rolname::text NOT IN (current_user::text, 'pg_database_owner'))
ORDER BY 1`

// Planters implements [driver.Searched].
func (s *Store) Planters(ctx context.Context) (found []string, err error) {
	err = read(ctx, s.pools.Receive, "looking at the search path", eachText(&found), plantersSQL)
	return found, err
}

// eachText adds the text of each row to texts.
func eachText(texts *[]string) func(Rows) error {
	return func(r Rows) error {
		var text string
		err := r.Scan(&text)
		*texts = append(*texts, text)
		return err
	}
}

// Confirm implements [driver.Store].
func (s *Store) Confirm(ctx context.Context) error {
	return write(ctx, s.pools.Receive, "waiting until earlier commits are durable", noRows, s.text(confirmSQL))
}

-- Ready schemas for tests: see Ready in ready.go. Several processes may run this at once. {ready} is a schema of this
-- build.
SELECT pg_advisory_xact_lock(4027811);

CREATE SCHEMA IF NOT EXISTS {ready};

CREATE TABLE IF NOT EXISTS {ready}.schema (
	name      text PRIMARY KEY,
	version   bigint NOT NULL, -- of the steps that made it
	relations oid[] NOT NULL,  -- what the steps made
	print     text NOT NULL,   -- its definitions
	free      boolean NOT NULL DEFAULT false
);

-- Tells definitions apart: a changed row of a catalog, or of the applied steps, has another xmin. It reads no catalog whole:
-- what depends on the schema is what lies in it. A parallel plan has the parts in any order, so they are sorted.
CREATE OR REPLACE FUNCTION {ready}.print(name text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	space oid := to_regnamespace(quote_ident(name));
	within oid[] := ARRAY(SELECT objid FROM pg_depend WHERE refclassid = 'pg_namespace'::regclass AND refobjid = space);
	relations oid[] := ARRAY(SELECT oid FROM pg_class WHERE oid = ANY (within) OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = ANY (within)));
	steps text;
BEGIN
	EXECUTE format('SELECT concat_ws('' '', count(*), sum(version * xmin::text::bigint)) FROM %I.schema_migration', name) INTO steps;
	RETURN concat_ws(' ', steps, (
		SELECT string_agg(concat_ws(' ', n, sum), ',' ORDER BY n, sum) FROM (
			SELECT count(*), sum(xmin::text::bigint) FROM pg_namespace WHERE oid = space
			UNION ALL SELECT count(*), sum(xmin::text::bigint) FROM pg_class WHERE oid = ANY (relations)
			UNION ALL SELECT count(*), sum(xmin::text::bigint) FROM pg_attribute WHERE attrelid = ANY (relations)
			UNION ALL SELECT count(*), sum(xmin::text::bigint) FROM pg_attrdef WHERE adrelid = ANY (relations)
			UNION ALL SELECT count(*), sum(xmin::text::bigint) FROM pg_constraint WHERE conrelid = ANY (relations)
			UNION ALL SELECT count(*), sum(xmin::text::bigint) FROM pg_index WHERE indrelid = ANY (relations)
			UNION ALL SELECT count(*), sum(xmin::text::bigint) FROM pg_trigger WHERE tgrelid = ANY (relations)
			UNION ALL SELECT count(*), sum(xmin::text::bigint) FROM pg_rewrite WHERE ev_class = ANY (relations)
			UNION ALL SELECT count(*), sum(xmin::text::bigint) FROM pg_proc WHERE oid = ANY (within)
			UNION ALL SELECT count(*), sum(xmin::text::bigint) FROM pg_type WHERE oid = ANY (within)
		) AS part (n, sum)
	));
END
$$;

CREATE OR REPLACE FUNCTION {ready}.take(wanted bigint) RETURNS text
LANGUAGE sql SET search_path = pg_catalog, pg_temp
AS $$
	WITH taken AS (
		UPDATE {ready}.schema SET free = false WHERE name = (
			SELECT name FROM {ready}.schema WHERE free AND version = wanted LIMIT 1 FOR UPDATE SKIP LOCKED
		) RETURNING name
	)
	SELECT coalesce((SELECT name FROM taken), '')
$$;

CREATE OR REPLACE FUNCTION {ready}.add(name text, version bigint) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp
AS $$
	INSERT INTO {ready}.schema VALUES (
		name, version, ARRAY(SELECT oid FROM pg_class WHERE relnamespace = to_regnamespace(quote_ident(name))),
		{ready}.print(name)
	)
$$;

-- Makes a schema as new, or drops it and tells why: its definitions have changed, or a table is larger than 256 kB, since
-- dead rows stay in it.
CREATE OR REPLACE FUNCTION {ready}.clean(given text, OUT dropped_for text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	known {ready}.schema := (SELECT s FROM {ready}.schema s WHERE s.name = given);
	space oid := to_regnamespace(quote_ident(given));
	tables oid[] := ARRAY(
		SELECT c.oid FROM pg_depend d JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid AND c.relkind = 'r'
		WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = space
	);
	print text;
	r record;
BEGIN
	FOR r IN SELECT oid::regclass AS name FROM pg_class WHERE oid = ANY (tables) AND oid <> ALL (known.relations) LOOP
		EXECUTE 'DROP TABLE IF EXISTS ' || r.name || ' CASCADE';
	END LOOP;
	print := CASE WHEN space IS NOT NULL THEN {ready}.print(given) END;
	dropped_for := CASE
		WHEN print IS NULL THEN 'it is gone'
		WHEN print <> known.print THEN format('its definitions are %s, and were %s', print, known.print)
		ELSE (
			SELECT format('%s has %s bytes', t::regclass, pg_relation_size(t)) FROM unnest(tables) AS t
			WHERE pg_relation_size(t) > 256 * 1024 LIMIT 1
		)
	END;
	IF dropped_for IS NOT NULL THEN
		EXECUTE format('DROP SCHEMA IF EXISTS %I CASCADE', given);
		DELETE FROM {ready}.schema s WHERE s.name = given;
		RETURN;
	END IF;
	FOR r IN SELECT oid::regclass AS name, relname FROM pg_class WHERE oid = ANY (tables) LOOP
		IF r.relname <> 'schema_migration' AND pg_relation_size(r.name) > 0 THEN
			EXECUTE 'DELETE FROM ' || r.name;
		END IF;
	END LOOP;
END
$$;

-- Hands a clean schema to the next test.
CREATE OR REPLACE FUNCTION {ready}.give_back(given text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp
AS $$
	UPDATE {ready}.schema s SET free = true WHERE s.name = given
$$;

CREATE OR REPLACE FUNCTION {ready}.drop_free() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
	r record;
BEGIN
	FOR r IN DELETE FROM {ready}.schema WHERE free RETURNING name LOOP
		EXECUTE format('DROP SCHEMA %I CASCADE', r.name);
	END LOOP;
END
$$;

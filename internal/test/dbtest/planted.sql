-- Plants functions, aggregates and operators with the names of polymorphic ones of pg_catalog, and of those that take
-- arguments by an implicit cast, as regclass of an oid. The planted ones fit exactly, so a statement that names one without its schema finds
-- them first if its search_path has this schema. All of them fail.
DO $do$
DECLARE
	types CONSTANT text[] := '{text,bytea,bigint,integer,smallint,boolean,timestamptz}';
	names  CONSTANT text[] := string_to_array(current_setting('planted.names'), ',');
	-- A type of an argument, and one that the server casts to it.
	casts CONSTANT text[] := '{{text,name},{text,character varying},{name,text},{bigint,integer},{bigint,smallint},{integer,smallint},{oid,integer},
		{oid,bigint},{oid,regclass},{regclass,oid},{regclass,text},{timestamp with time zone,timestamp without time zone},{timestamp with time zone,date}}';
	f   record;
	t   text;
	n   integer;
	sql text;
	id  integer := 0;
BEGIN
	PERFORM pg_advisory_xact_lock(hashtext('planted'));
	IF EXISTS (SELECT FROM pg_namespace WHERE nspname = 'planted') THEN
		RETURN;
	END IF;
	CREATE SCHEMA planted;
	SET LOCAL search_path = pg_catalog;
	SET LOCAL check_function_bodies = off;
	FOR f IN
		SELECT p.proname AS name, p.prokind AS kind, p.proretset AS set_of, format_type(p.prorettype, NULL) AS returns,
			ARRAY(SELECT format_type(a, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY AS x (a, i) ORDER BY i) AS args,
			p.provariadic <> 0 AS variadic
		FROM pg_proc p
		WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind IN ('f', 'a') AND p.pronargs BETWEEN 1 AND 3 AND p.proname = ANY (names) AND p.proname <> 'pg_sleep' -- tests call it
			AND NOT EXISTS (SELECT FROM pg_aggregate g WHERE g.aggfnoid = p.oid AND g.aggkind <> 'n')
			AND NOT (format_type(p.prorettype, NULL) || p.proargtypes::regtype[]::text) ~ 'internal|cstring|range|enum|record|trigger|language'
			AND p.proargtypes::regtype[]::text ~ 'any|double precision|numeric'
	LOOP
		FOREACH t IN ARRAY types LOOP
			FOR n IN 1..CASE WHEN f.variadic THEN 4 ELSE 1 END LOOP
				sql := (SELECT string_agg(CASE
						WHEN a IN ('anyarray', 'anycompatiblearray') THEN t || '[]'
						WHEN a ~ 'any' OR a IN ('double precision', 'numeric') THEN t
						ELSE a END, ', ' ORDER BY i)
					FROM unnest(CASE WHEN f.variadic THEN f.args || array_fill('"any"'::text, ARRAY[n - 1]) ELSE f.args END) WITH ORDINALITY AS x (a, i));
				CONTINUE WHEN to_regprocedure(format('pg_catalog.%I(%s)', f.name, sql)) IS NOT NULL;
				BEGIN
					IF f.kind = 'a' THEN
						EXECUTE format('CREATE FUNCTION planted.%I(text, %s) RETURNS text LANGUAGE plpgsql AS ''BEGIN RAISE EXCEPTION ''''a planted aggregate was called''''; END''',
							'state_' || f.name, sql);
						EXECUTE format('CREATE AGGREGATE planted.%I(%s) (SFUNC = planted.%I, STYPE = text)', f.name, sql, 'state_' || f.name);
					ELSE
						EXECUTE format('CREATE FUNCTION planted.%I(%s) RETURNS %s %s LANGUAGE plpgsql AS ''BEGIN RAISE EXCEPTION ''''a planted function was called''''; END''',
							f.name, sql, CASE WHEN f.set_of THEN 'SETOF' ELSE '' END,
							CASE WHEN f.returns IN ('anyarray', 'anycompatiblearray') THEN t || '[]' WHEN f.returns ~ '^any' THEN t ELSE f.returns END);
					END IF;
				EXCEPTION WHEN OTHERS THEN
					NULL; -- there is an exact one
				END;
			END LOOP;
		END LOOP;
	END LOOP;
	FOR f IN
		SELECT o.oprname AS name, format_type(o.oprleft, NULL) AS l, format_type(o.oprright, NULL) AS r,
			format_type(o.oprresult, NULL) AS returns
		FROM pg_operator o
		WHERE o.oprnamespace = 'pg_catalog'::regnamespace AND o.oprkind = 'b'
			AND ARRAY[o.oprleft, o.oprright]::regtype[]::text ~ 'any|double precision|numeric'
			AND NOT ARRAY[o.oprleft, o.oprright]::regtype[]::text ~ 'range|enum'
	LOOP
		FOREACH t IN ARRAY types LOOP
			BEGIN
				f.returns := CASE WHEN f.returns IN ('anyarray', 'anycompatiblearray') THEN t || '[]' WHEN f.returns ~ '^any' THEN t ELSE f.returns END;
				SELECT string_agg(CASE WHEN a IN ('anyarray', 'anycompatiblearray') THEN t || '[]'
						WHEN a ~ '^any' OR a IN ('double precision', 'numeric') THEN t ELSE a END, ', ' ORDER BY i)
					INTO sql FROM unnest(ARRAY[f.l, f.r]) WITH ORDINALITY AS x (a, i);
				IF NOT EXISTS (
					SELECT FROM pg_operator o WHERE o.oprnamespace = 'pg_catalog'::regnamespace AND o.oprname = f.name
						AND o.oprleft = split_part(sql, ', ', 1)::regtype AND o.oprright = split_part(sql, ', ', 2)::regtype
				) THEN
					id := id + 1;
					EXECUTE format('CREATE FUNCTION planted.operator_%s(%s) RETURNS %s LANGUAGE plpgsql AS ''BEGIN RAISE EXCEPTION ''''a planted operator was called''''; END''',
						id, sql, f.returns);
					EXECUTE format('CREATE OPERATOR planted.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = planted.operator_%s)',
						f.name, split_part(sql, ', ', 1), split_part(sql, ', ', 2), id);
				END IF;
			EXCEPTION WHEN OTHERS THEN
				NULL; -- two of the operators have these arguments
			END;
		END LOOP;
	END LOOP;
	-- In each position alone, and in all at once (0).
	FOR f IN
		SELECT p.proname AS name, p.prokind AS kind, p.proretset AS set_of, format_type(p.prorettype, NULL) AS returns,
			ARRAY(SELECT format_type(a, NULL) FROM unnest(p.proargtypes) WITH ORDINALITY AS x (a, i) ORDER BY i) AS args
		FROM pg_proc p
		WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind IN ('f', 'a') AND p.pronargs BETWEEN 1 AND 3 AND p.proname = ANY (names) AND p.proname <> 'pg_sleep'
			AND NOT EXISTS (SELECT FROM pg_aggregate g WHERE g.aggfnoid = p.oid AND g.aggkind <> 'n')
			AND NOT (format_type(p.prorettype, NULL) || p.proargtypes::regtype[]::text) ~ 'internal|cstring|any|enum|record|trigger|language'
	LOOP
		FOR k IN 1..array_length(casts, 1) LOOP
			FOR pos IN 0..3 LOOP
				sql := (SELECT string_agg(CASE WHEN a = casts[k][1] AND pos IN (0, i) THEN casts[k][2] ELSE a END, ', ' ORDER BY i)
					FROM unnest(f.args) WITH ORDINALITY AS x (a, i));
				CONTINUE WHEN sql = array_to_string(f.args, ', ') OR to_regprocedure(format('pg_catalog.%I(%s)', f.name, sql)) IS NOT NULL;
				BEGIN
					IF f.kind = 'a' THEN
						EXECUTE format('CREATE FUNCTION planted.%I(text, %s) RETURNS text LANGUAGE plpgsql AS ''BEGIN RAISE EXCEPTION ''''a planted aggregate was called''''; END''',
							'state_' || f.name, sql);
						EXECUTE format('CREATE AGGREGATE planted.%I(%s) (SFUNC = planted.%I, STYPE = text)', f.name, sql, 'state_' || f.name);
					ELSE
						EXECUTE format('CREATE FUNCTION planted.%I(%s) RETURNS %s %s LANGUAGE plpgsql AS ''BEGIN RAISE EXCEPTION ''''a planted function was called''''; END''',
							f.name, sql, CASE WHEN f.set_of THEN 'SETOF' ELSE '' END, f.returns);
					END IF;
				EXCEPTION WHEN OTHERS THEN
					NULL; -- there is an exact one
				END;
			END LOOP;
		END LOOP;
	END LOOP;
	FOR f IN
		SELECT o.oprname AS name, format_type(o.oprleft, NULL) AS l, format_type(o.oprright, NULL) AS r, format_type(o.oprresult, NULL) AS returns
		FROM pg_operator o
		WHERE o.oprnamespace = 'pg_catalog'::regnamespace AND o.oprkind = 'b'
			AND NOT ARRAY[o.oprleft, o.oprright, o.oprresult]::regtype[]::text ~ 'any|range|enum|internal'
	LOOP
		FOR k IN 1..array_length(casts, 1) LOOP
			FOR pos IN 0..2 LOOP
				DECLARE
					l text := CASE WHEN f.l = casts[k][1] AND pos IN (0, 1) THEN casts[k][2] ELSE f.l END;
					r text := CASE WHEN f.r = casts[k][1] AND pos IN (0, 2) THEN casts[k][2] ELSE f.r END;
				BEGIN
					CONTINUE WHEN (l, r) = (f.l, f.r) OR EXISTS (
						SELECT FROM pg_operator o WHERE o.oprnamespace = 'pg_catalog'::regnamespace AND o.oprname = f.name
							AND o.oprleft = l::regtype AND o.oprright = r::regtype
					);
					id := id + 1;
					EXECUTE format('CREATE FUNCTION planted.operator_%s(%s, %s) RETURNS %s LANGUAGE plpgsql AS ''BEGIN RAISE EXCEPTION ''''a planted operator was called''''; END''',
						id, l, r, f.returns);
					EXECUTE format('CREATE OPERATOR planted.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = planted.operator_%s)', f.name, l, r, id);
				EXCEPTION WHEN OTHERS THEN
					NULL; -- there is an exact one
				END;
			END LOOP;
		END LOOP;
	END LOOP;
END
$do$;

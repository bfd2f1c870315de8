package dbtest

import (
	"fmt"
	"strings"
	"testing"
)

// refusedSuffix is added to the name of a function that RefuseFunctions hides.
const refusedSuffix = "_hidden"

// RefuseFunctions makes the server refuse functions of pg_catalog with 55000, as managed platforms do. Each signature is
// a name and its parameters, as "pg_current_wal_flush_lsn()". The function itself stays, with the suffix "_hidden".
func (s *Server) RefuseFunctions(t testing.TB, signatures ...string) {
	t.Helper()
	s.configure(t, "SET allow_system_table_mods = on", "SET check_function_bodies = off", fmt.Sprintf(`DO $do$
DECLARE
	f record;
BEGIN
	FOR f IN SELECT p.oid::regprocedure AS signature, p.proname AS name, pg_get_function_arguments(p.oid) AS parameters,
			pg_get_function_result(p.oid) AS result
		FROM unnest(%s) AS s (signature) JOIN pg_proc p ON p.oid = s.signature::regprocedure
	LOOP
		EXECUTE format('ALTER FUNCTION %%s RENAME TO %%I', f.signature, f.name || '%s');
		EXECUTE format('CREATE FUNCTION pg_catalog.%%I(%%s) RETURNS %%s LANGUAGE plpgsql AS $f$
			BEGIN RAISE ''%%s is not supported here'' USING ERRCODE = ''55000''; END $f$', f.name, f.parameters, f.result, f.name);
	END LOOP;
END $do$`, textArray(signatures), refusedSuffix))
}

// textArray returns an array of SQL. The texts hold no quotes.
func textArray(texts []string) string { return "ARRAY['" + strings.Join(texts, "', '") + "']" }

package hookpgx_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/group"
)

// wantServerError expects that both a migration and a check refuse the server, and that nothing was migrated.
func (w *world) wantServerError(t *testing.T, text string) {
	t.Helper()
	_, migrated := hookmigrate.Up(t.Context(), w.Store)
	for call, err := range map[string]error{"Up": migrated, "Check": hookmigrate.Check(t.Context(), w.Store)} {
		var refused *driver.ServerError
		if !errors.As(err, &refused) || !strings.Contains(refused.Error(), text) || refused.Remedy == "" {
			t.Errorf("%s: got the error %v, want %q and a remedy", call, err, text)
		}
	}
}

func TestOldServer(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	server := dbtest.StartServer(t, nil)
	w := connect(t, server.DSN(), hookpgx.DefaultSchema, nil)
	w.exec(t, `SET allow_system_table_mods = on;
		ALTER FUNCTION pg_catalog.current_setting(text) RENAME TO current_setting_hidden;
		CREATE FUNCTION pg_catalog.current_setting(name text) RETURNS text LANGUAGE sql STABLE AS $$
			SELECT CASE name WHEN 'server_version_num' THEN '120022' WHEN 'server_version' THEN '12.22' ELSE current_setting_hidden(name) END $$`)
	w.wantServerError(t, "the server is PostgreSQL 12.22, and hookonce needs 13 or newer")
}

func TestEncodings(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	server := dbtest.StartServer(t, nil)
	first := connect(t, server.DSN(), hookpgx.DefaultSchema, nil)
	in := func(t *testing.T, encoding string) *world {
		t.Helper()
		first.exec(t, "CREATE DATABASE in_"+encoding+" TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C' ENCODING '"+encoding+"'")
		dsn, err := url.Parse(server.DSN())
		if err != nil {
			t.Fatal(err)
		}
		dsn.Path = "/in_" + strings.ToLower(encoding)
		return connect(t, dsn.String(), hookpgx.DefaultSchema, nil)
	}
	for _, encoding := range []string{"LATIN1", "EUC_JP"} {
		in(t, encoding).wantServerError(t, "the database has the encoding "+encoding)
	}
	ascii := in(t, "SQL_ASCII")
	if _, err := hookmigrate.Up(t.Context(), ascii.Store); err != nil {
		t.Fatal(err)
	}
	ascii.mustClaim(t, true, newClaim("évt_€"))
	ascii.mustClaim(t, false, newClaim("évt_€"))
}

// TestRoleWithAnotherEncoding has a role whose sessions convert texts. The store's own sessions do not, and a pool of the
// caller is refused.
func TestRoleWithAnotherEncoding(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	server := migrated(t)
	w := private(t, server)
	w.exec(t, "ALTER ROLE CURRENT_USER SET client_encoding = 'LATIN1'")
	w.pool.Reset()
	w.wantServerError(t, "client_encoding of the pool is LATIN1")

	own, err := hookpgx.Open(w.pool.Config(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if err := hookmigrate.Check(t.Context(), own); err != nil {
		t.Error(err)
	}
	if _, err := own.Claim(t.Context(), claimOf(newClaim("évt_€"))); err != nil {
		t.Error(err)
	}
	w.exec(t, "ALTER ROLE CURRENT_USER RESET client_encoding")
	w.pool.Reset()
	if n := w.number(t, "SELECT count(*) FROM {schema}.event WHERE event_id = 'évt_€'"); n != 1 {
		t.Error("the id is stored in another encoding")
	}
}

// TestRefusedMigration has an event trigger that refuses a step with the code of a wrong value. It is no fault of a row.
func TestRefusedMigration(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	w := connect(t, dbtest.StartServer(t, nil).DSN(), hookpgx.DefaultSchema, nil)
	w.exec(t, `CREATE FUNCTION no_tables() RETURNS event_trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE 'no tables here' USING ERRCODE = '22023'; END $$;
		CREATE EVENT TRIGGER no_tables ON ddl_command_start WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION no_tables()`)
	_, err := hookmigrate.Up(t.Context(), w.Store)
	if err == nil || errors.Is(err, driver.ErrBadRow) || !strings.Contains(err.Error(), "the server refused a step: step 1 (init)") {
		t.Errorf("got the error %v", err)
	}
}

// TestSessionsThatReadBackslashesOtherwise has clients with the old reading of backslashes.
func TestSessionsThatReadBackslashesOtherwise(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	conn, err := pgx.Connect(t.Context(), w.pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	const text = "answered 404: order 17\n"
	got := ""
	for _, sql := range []string{
		"SET standard_conforming_strings = off", "SELECT {schema}.enqueue('mail', '{}', id => 'msg-x1')", "BEGIN",
		"SELECT event_id FROM {schema}.take('stripe', 1, ARRAY['a_%'])", "COMMIT",
	} {
		if _, err := conn.Exec(t.Context(), strings.ReplaceAll(sql, "{schema}", w.schema)); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
	err = conn.QueryRow(t.Context(), "SELECT "+w.schema+".error_signature($1)", pgx.QueryExecModeExec, text).Scan(&got)
	if want := driver.ErrorSignature(text); err != nil || got != want {
		t.Errorf("error_signature: got %q and the error %v, want %q", got, err, want)
	}
}

// TestTakeWithoutATransactionOnAReplica has a session whose ordinary triggers do not fire.
func TestTakeWithoutATransactionOnAReplica(t *testing.T) {
	t.Parallel()
	w := openWork(t)
	w.queue(t, "evt_1")
	conn, err := w.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Conn().Close(context.WithoutCancel(t.Context()))
	defer conn.Release()
	if _, err := conn.Exec(t.Context(), "SET session_replication_role = replica"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "SELECT * FROM "+w.schema+".take('stripe')"); err == nil {
		t.Error("take without a transaction was not refused")
	}
	w.wantEvent(t, "evt_1", driver.StatePending, 0)
}

package hookpgx_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/platform"
	"github.com/hookonce/hookonce/internal/test/group"
)

// TestRefusedFunctions has a server that refuses functions of the log and of the cluster, as Aurora does without logical
// replication.
func TestRefusedFunctions(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	server := migrated(t, "wal_writer_delay=10s")
	w := private(t, server)
	emit := "pg_logical_emit_message(boolean, text, text)"
	if newer := "pg_logical_emit_message(boolean, text, text, boolean)"; w.has(t, newer) {
		emit = newer
	}
	logHidden := func() {
		t.Helper()
		if skipped, err := prove(t, w.Store); err != nil || len(skipped) != 1 || !strings.Contains(skipped[0], "log") {
			t.Errorf("Prove: got %q and the error %v, want that the log is hidden", skipped, err)
		}
	}
	server.RefuseFunctions(t, "pg_current_wal_flush_lsn()")
	logHidden()
	server.RefuseFunctions(t, "pg_current_wal_insert_lsn()", "pg_control_system()", emit)
	w.wantDuplicatesFlushed(t, "_hidden")
	if n := w.number(t, "SELECT count(*) FROM {schema}.log_mark"); n != 0 {
		t.Errorf("log_mark keeps %d rows", n)
	}
	run := w.takeOne(t, "of a handler")
	mustDo(t, run, "SELECT 1")
	if err := run.Finish(t.Context(), succeeded(run)); err != nil {
		t.Errorf("Finish: %v", err)
	}
	w.wantEvent(t, "of a handler", driver.StateDone, 1)
	logHidden()
}

// has reports whether the server has a function.
func (w *world) has(t *testing.T, signature string) bool {
	t.Helper()
	return w.number(t, "SELECT count(*) WHERE to_regprocedure($1) IS NOT NULL", signature) == 1
}

// TestPlatforms has the settings of managed platforms. Where the storage below is durable, a setting that is off is no
// weakness. One fact alone is not enough to recognise a platform.
func TestPlatforms(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	const version = "CREATE FUNCTION pg_catalog.aurora_version() RETURNS text LANGUAGE sql AS 'SELECT ''16.4.0'''"
	for name, c := range map[string]struct {
		config   []string
		facts    string // SQL that makes them
		standby  string
		platform map[string]string // by the weak setting; "" stands for a refused one
	}{
		"Neon": {
			[]string{"fsync=off", "full_page_writes=off", "neon.tenant_id=t", "neon.timeline_id=l", "synchronous_standby_names=walproposer"},
			"", "walproposer",
			map[string]string{"fsync": "Neon", "full_page_writes": "Neon"},
		},
		"Neon without its safekeepers": {
			[]string{"fsync=off", "neon.tenant_id=t", "neon.timeline_id=l"}, "", "", map[string]string{"fsync": ""},
		},
		"one fact of Neon": {
			[]string{"fsync=off", "neon.tenant_id=t", "synchronous_standby_names=walproposer"}, "", "walproposer", map[string]string{"fsync": ""},
		},
		"Aurora": {
			[]string{"full_page_writes=off", "rds.extensions=a"}, version, "", map[string]string{"full_page_writes": "Aurora"},
		},
		"Aurora without fsync": {
			[]string{"fsync=off", "full_page_writes=off", "apg_plan_mgmt.capture_plan_baselines=off"},
			version, "",
			map[string]string{"fsync": "", "full_page_writes": "Aurora"},
		},
		"a function of another schema": {
			[]string{"full_page_writes=off", "rds.extensions=a"},
			"CREATE FUNCTION public.aurora_version() RETURNS text LANGUAGE sql AS 'SELECT ''16.4.0'''", "",
			map[string]string{"full_page_writes": ""},
		},
		"one fact of Aurora": {[]string{"full_page_writes=off"}, version, "", map[string]string{"full_page_writes": ""}},
		"Amazon RDS":         {[]string{"full_page_writes=off", "rds.extensions=a"}, "", "", map[string]string{"full_page_writes": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := migrated(t, c.config...)
			if c.standby != "" {
				server.ReceiveLog(t, c.standby)
			}
			w := private(t, server)
			w.exec(t, "SET allow_system_table_mods = on; "+c.facts)
			found, err := w.Weaknesses(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got, refused := map[string]string{}, ""
			for _, weakness := range found {
				got[weakness.Setting] = weakness.Platform
				if weakness.Platform == "" {
					refused = weakness.Setting
				}
			}
			if diff := cmp.Diff(c.platform, got); diff != "" {
				t.Errorf("platforms of the weak settings (-want +got):\n%s", diff)
			}
			if refused != "" {
				w.refusesAll(t, refused)
				return
			}
			w.mustClaim(t, true, newClaim("evt_1"))
			for _, mostlyKnown := range []bool{false, true} {
				p := claimOf(newClaim("evt_1"))
				p.MostlyKnown = mostlyKnown
				if got, err := w.Claim(t.Context(), p); err != nil || got[0].Claimed {
					t.Errorf("Claim of a duplicate: got %+v and the error %v", got, err)
				}
			}
		})
	}
}

// TestPlatformNames sets one setting of each managed server.
func TestPlatformNames(t *testing.T) {
	t.Parallel()
	w := warm(t)
	for _, c := range []struct{ setting, name string }{
		{"rds.extensions", "Amazon RDS"},
		{"rds.logical_replication", "Amazon RDS"},
		{"cloudsql.iam_authentication", "Cloud SQL"},
		{"cloudsql.logical_decoding", "Cloud SQL"},
		{"azure.extensions", "Azure"},
		{"azure.accepted_password_auth_method", "Azure"},
		{"alloydb.iam_authentication", "AlloyDB"},
		{"alloydb.logical_decoding", "AlloyDB"},
	} {
		config := w.pool.Config().ConnConfig
		config.RuntimeParams[c.setting] = "on"
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		var name, storage string
		if err := conn.QueryRow(t.Context(), platform.NameSQL).Scan(&name, &storage); err != nil || name != c.name {
			t.Errorf("%s: got the platform %q and the error %v, want %q", c.setting, name, err, c.name)
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if r, err := w.Replication(t.Context()); err != nil || r.Platform != "" {
		t.Errorf("Replication: got the platform %q and the error %v, want none", r.Platform, err)
	}
}

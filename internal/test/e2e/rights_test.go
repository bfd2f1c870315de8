package e2e

import (
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/internal/test/dbtest"
)

// psql runs a script as the owner of the database.
func (d *database) psql(t testing.TB, script string) {
	t.Helper()
	program := filepath.Join(dbtest.Programs(t), "psql")
	if _, err := exec.LookPath(program); err != nil {
		program = "psql" // some packages of a server have no client; that of the PATH serves
	}
	cmd := exec.Command(program, "-X", "-q", "-v", "ON_ERROR_STOP=1", d.url)
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("psql: %v\n%s", err, out)
	}
}

// role makes a role without any right, and returns its name and the URL of the database for it.
func (d *database) role(t testing.TB, kind string) (name, dsn string) {
	t.Helper()
	u, err := url.Parse(d.url)
	if err != nil {
		t.Fatal(err)
	}
	name = strings.TrimPrefix(u.Path, "/") + `_"` + kind + `"`
	quoted := `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
	db := d.open(t)
	mustExec(t, db, "CREATE ROLE "+quoted+" LOGIN PASSWORD '"+databasePassword+"'")
	t.Cleanup(func() { mustExec(t, db, "DROP OWNED BY "+quoted+"; DROP ROLE "+quoted) })
	u.User = url.UserPassword(name, databasePassword)
	return name, u.String()
}

// TestGrants has a schema that its owner made with psql, a gateway whose role has the printed rights and no others, and
// may not read the views of the server's state, and a consumer with its own. All works.
func TestGrants(t *testing.T) {
	t.Parallel()
	db := newDatabase(t, "postgres")
	w := newWorld(t, db, `
database: ${DATABASE_URL}
sources:
  play: {provider: none, event: {id: "body:id", type: "body:type"}}
  taken: {provider: none, event: {id: "body:id"}, consume: sql}
routes:
  - {name: r, sources: [play], url: "${SINK}/hooks"}
`)
	printed := func(args ...string) string {
		t.Helper()
		out := w.run(t, append([]string{"migrate"}, args...)...)
		if out.code != 0 || out.stdout == "" {
			t.Fatalf("migrate %v: code %d: %s", args, out.code, out.stderr)
		}
		return out.stdout
	}
	db.psql(t, printed("sql"))
	gateway, gatewayURL := db.role(t, "gateway")
	consumer, consumerURL := db.role(t, "consumer")
	super := db.open(t)
	mustExec(t, super, `REVOKE ALL ON SCHEMA public FROM PUBLIC; REVOKE SELECT ON pg_settings, pg_stat_replication, pg_replication_slots FROM PUBLIC;
		REVOKE EXECUTE ON FUNCTION pg_control_system(), pg_postmaster_start_time() FROM PUBLIC`)
	w.env = append(w.env, "DATABASE_URL="+gatewayURL)

	if out := w.run(t, "doctor"); out.code == 0 || !strings.Contains(out.stdout, "permission denied") {
		t.Errorf("doctor without rights: code %d:\n%s%s", out.code, out.stdout, out.stderr)
	}
	grants := printed("grants", "--role", gateway)
	db.psql(t, strings.ReplaceAll(grants, "SELECT, INSERT, UPDATE, DELETE", "SELECT"))
	reader := w.launch(t, "--config", "hookonce.yaml")
	reader.Eventually(t, "the test claim is refused", func() bool { return strings.Contains(reader.Log(), "permission denied") })
	if got := reader.readiness(); got != http.StatusServiceUnavailable {
		t.Errorf("a gateway that may only read answers /readyz with %d", got)
	}
	db.psql(t, grants)
	db.psql(t, printed("grants", "--role", consumer, "--consumer"))
	reader.waitReady(t)
	reader.stop(t)
	g := w.start(t)
	g.expect(t, play("one", "x"), "200 ok")
	g.expect(t, play("one", "x"), "200 duplicate")
	g.waitState(t, "play", "one", "done")
	for _, args := range [][]string{
		{"events", "replay", "play", "one", "--as-new"}, {"events", "replay", "--source", "play", "--same-id", "--yes"}, {"prune"}, {"doctor"},
	} {
		out := w.run(t, args...)
		if out.code != 0 {
			t.Errorf("%v: code %d: %s%s", args, out.code, out.stdout, out.stderr)
		}
		if args[0] == "doctor" && !strings.Contains(out.stdout, "hides it from this role") {
			t.Errorf("doctor does not say that the standbys are hidden:\n%s", out.stdout)
		}
		g.waitState(t, "play", "one", "done")
	}
	g.Eventually(t, "the replays are sent", func() bool { return len(w.sink.requests("one")) >= 3 })
	g.expect(t, newDelivery("taken", `{"id":"one"}`), "200 ok")
	app := openDB(t, "pgx", consumerURL)
	tx, err := app.Begin()
	if err != nil {
		t.Fatal(err)
	}
	var id string
	if err := tx.QueryRow("SELECT event_id FROM hookonce.take('taken')").Scan(&id); err != nil || id != "one" {
		t.Errorf("take: %q, error %v", id, err)
	}
	if err := tx.Commit(); err != nil {
		t.Error(err)
	}
	g.waitState(t, "taken", "one", "done")
	if strings.Contains(g.Log(), "permission denied") {
		t.Errorf("the gateway was refused something:\n%s", g.Log())
	}
}

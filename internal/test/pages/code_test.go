package pages

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/internal/test/dbtest"
)

var (
	variable   = regexp.MustCompile(`\$\{(\w+)`)
	secretFile = regexp.MustCompile(`file:[/\w.-]+`)
)

const secret = "a-secret-of-16-bytes-or-more"

// runSettings checks a block of settings as the gateway does, or as Prometheus does. The file stays,
// for the commands after it.
func (w *world) runSettings(t *testing.T, where, text string) {
	t.Helper()
	if strings.Contains(text, "scrape_configs:") {
		w.checkPrometheus(t, where, text)
		return
	}
	for _, found := range variable.FindAllStringSubmatch(text, -1) {
		w.env = append(w.env, found[1]+"="+secret+strings.ToLower(found[1]))
	}
	file := filepath.Join(w.folder, "secret.txt")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	w.write(t, "hookonce.yaml", secretFile.ReplaceAllString(text, "file:"+file))
	if out, code := w.run(t, "hookonce config check"); code != 0 {
		t.Errorf("%s: exit code %d\n%s", where, code, out)
	}
}

func (w *world) checkPrometheus(t *testing.T, where, text string) {
	t.Helper()
	dbtest.Need(t, "pages", func() error {
		_, err := exec.LookPath("promtool")
		return err
	}, "prometheus")
	alerts, err := os.ReadFile(filepath.Join(repository, "deploy", "prometheus", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	w.replace = append(w.replace, "/etc/prometheus/hookonce-token", filepath.Join(w.folder, "token"))
	w.write(t, "token", secret)
	w.write(t, "alerts.yaml", string(alerts))
	w.write(t, "prometheus.yml", text)
	if out, code := w.run(t, "promtool check config prometheus.yml"); code != 0 {
		t.Errorf("%s: exit code %d\n%s", where, code, out)
	}
}

// runGo builds a block of Go. A whole program is an application of the page: it is started as well.
func (w *world) runGo(t *testing.T, where, text string) {
	t.Helper()
	text = w.here(t, text)
	folder := t.TempDir()
	file, binary := filepath.Join(folder, "app.go"), filepath.Join(folder, "app")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-o", binary, file)
	cmd.Dir = repository // for its modules
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s\n%s", where, err, out, text)
	}
	if address := listens.FindStringSubmatch(text); address != nil {
		w.application = func() { w.start(t, "exec "+binary, address[1]) }
		w.application()
	}
}

// runPython starts a program that stands for the application before it, at the port 3000 of the page.
func (w *world) runPython(t *testing.T, text string) {
	t.Helper()
	address := w.ports["127.0.0.1:3000"]
	host, port, _ := strings.Cut(address, ":")
	w.write(t, "app.py", strings.Replace(text, `"127.0.0.1", 3000`, `"`+host+`", `+port, 1))
	w.stopLast(t)
	w.application = func() { w.start(t, "exec python3 app.py", address) }
	w.application()
}

var listens = regexp.MustCompile(`ListenAndServe\("([^"]+)"`)

// runSQL runs a block as the owner of the schema.
func runSQL(t *testing.T, where, text string) {
	t.Helper()
	dsn, schema := dbtest.Ready(t)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	here := strings.NewReplacer(`"hookonce".`, schema+".", `SCHEMA "hookonce" `, "SCHEMA "+schema+" ", "hookonce.", schema+".", "SCHEMA hookonce ", "SCHEMA "+schema+" ")
	// Tables of a page are made in the schema of this test, too.
	statements := slices.Concat([]string{"SET search_path = " + schema}, beforeSQL, statementsOf(text))
	for _, statement := range statements {
		if _, err := conn.PgConn().Exec(t.Context(), here.Replace(statement)).ReadAll(); err != nil {
			t.Errorf("%s: %s: %v", where, statement, err)
		}
	}
}

// beforeSQL makes the rows that the pages name: an event of the source shop, which is not due yet, and a role.
var beforeSQL = []string{
	`DO $$ BEGIN CREATE ROLE app; EXCEPTION WHEN duplicate_object THEN END $$`,
	`CREATE TABLE seen (event_id text PRIMARY KEY)`,
	`INSERT INTO hookonce.event (key, source, event_id, type, received_at, headers, body, body_sha256, work)
		VALUES (hookonce.hash_strings(ARRAY['event', 'shop', 'evt_1']), 'shop', 'evt_1', 'order.paid', now(), '{}', '{}', sha256('{}'), 1)`,
	`INSERT INTO hookonce.event_state (key, source, type, state, attempts, received_at, due_at)
		SELECT key, source, type, 0, 0, received_at, now() + interval '1 hour' FROM hookonce.event`,
}

// statementsOf splits a script at the semicolons that end a line, as a reader types it into psql.
func statementsOf(script string) []string {
	var statements []string
	var open strings.Builder
	for line := range strings.Lines(script) {
		code, _, _ := strings.Cut(line, "--")
		open.WriteString(code + "\n")
		if strings.HasSuffix(strings.TrimSpace(code), ";") {
			statements = append(statements, open.String())
			open.Reset()
		}
	}
	return statements
}

package pages

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// canary is in every part of an event that a redaction removes. It is short, and so stored uncompressed.
const canary = "canary of a redaction"

// The runbook's statements leave no byte of a redacted event in the tables of PostgreSQL, also none in the
// statistics of the planner.
func TestRedactedBytesLeaveTheDisk(t *testing.T) {
	t.Parallel()
	server := dbtest.StartServer(t, &dbtest.Options{Config: []string{"autovacuum=off"}})
	conn, err := pgx.Connect(t.Context(), server.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	exec := func(statement string) {
		t.Helper()
		if _, err := conn.PgConn().Exec(t.Context(), statement).ReadAll(); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	var data string
	if err := conn.QueryRow(t.Context(), "SHOW data_directory").Scan(&data); err != nil {
		t.Fatal(err)
	}
	w := serveFailing(t, server.DSN())
	// Values could stand in the statistics of the planner, too.
	exec("ANALYZE")
	exec("CHECKPOINT")
	if len(filesWith(t, data)) == 0 {
		t.Fatal("the event is in no file")
	}
	if out, code := w.run(t, "hookonce events redact lab evt_1 --yes"); code != 0 || !strings.Contains(out, "see the runbook of hookonce") {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	exec("CHECKPOINT")
	if len(filesWith(t, data)) == 0 {
		t.Error("a redaction alone removes the bytes, and the runbook asks for more")
	}
	for _, b := range blocksOf(read(t, "docs/runbook.md")) {
		if strings.HasPrefix(b.first(), "VACUUM FULL") {
			for _, statement := range statementsOf(b.text) {
				exec(statement)
			}
		}
	}
	for _, file := range filesWith(t, data) {
		t.Errorf("%s has a redacted text: %s", file, relation(t, conn, file))
	}
}

// serveFailing serves a source on the database, and sends it one event, with the canary in all its parts,
// that dies at a destination which repeats it.
func serveFailing(t *testing.T, dsn string) *world {
	t.Helper()
	destination := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		rw.WriteHeader(http.StatusGone)
		_, _ = rw.Write(body)
	}))
	t.Cleanup(destination.Close)
	w := newWorld(t)
	w.write(t, "hookonce.yaml", fmt.Sprintf(`database: %s
sources: {lab: {provider: none, event: {id: "body:id"}}}
destinations: {app: {url: %q}}
routes: [{name: all, to: app}]
`, dsn, destination.URL))
	w.start(t, "exec hookonce serve", w.ports["127.0.0.1:8081"])
	watch(t, w)
	deliver(t, w, "evt_1", canary)
	deliver(t, w, "evt_1", canary+" and "+canary)
	for i := range 5 { // without others, statistics hold no values
		deliver(t, w, fmt.Sprintf("other_%d", i), fmt.Sprintf("text %d", i))
	}
	eventually.Succeeds(t, "the event is shown", func() error {
		shown := w.get(t, "/api/v1/events/lab/evt_1")
		for _, want := range []string{`"dead"`, `"other_body":{`, `"response":"`} {
			if !strings.Contains(strings.ReplaceAll(shown, ": ", ":"), want) {
				return fmt.Errorf("the event lacks %s: %s", want, shown)
			}
		}
		return nil
	})
	return w
}

// watch follows the stream, as the dashboard does, until the test ends.
func watch(t *testing.T, w *world) {
	t.Helper()
	resp, err := http.Get("http://" + w.ports["127.0.0.1:8081"] + "/api/v1/stream")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("the stream is answered %s", resp.Status)
	}
}

// deliver sends an event with a text in its body and in a header.
func deliver(t *testing.T, w *world, id, text string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+w.ports["127.0.0.1:8080"]+"/webhooks/lab",
		strings.NewReader(fmt.Sprintf(`{"id":%q,"text":%q}`, id, text)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Text", text)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("a delivery is answered %s", resp.Status)
	}
}

// filesWith returns the files of a server that hold the canary, without those of the WAL.
func filesWith(t *testing.T, data string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(data, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case os.IsNotExist(err): // removed meanwhile
			return nil
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "pg_wal":
			return filepath.SkipDir
		case !entry.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			return err
		}
		if bytes.Contains(text, []byte(canary)) {
			found = append(found, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	return found
}

// relation returns the name of the table whose file this is.
func relation(t *testing.T, conn *pgx.Conn, file string) string {
	t.Helper()
	var name string
	node, _, _ := strings.Cut(filepath.Base(file), ".")
	err := conn.QueryRow(t.Context(), "SELECT oid::regclass::text FROM pg_class WHERE pg_relation_filenode(oid)::text = $1", node).Scan(&name)
	if err != nil {
		return "a file of no table"
	}
	return name
}

package e2e

import (
	"strings"
	"testing"
)

// With "migrate: manual" an empty database is refused, and stays empty, until an operator migrates
// it.
func TestManualMigration(t *testing.T) {
	anyStore(t, func(t *testing.T, db *database) {
		w := newWorld(t, db, standardSettings+"migrate: manual\n")
		out := w.run(t, "serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
		if out.code != 1 || !strings.Contains(out.stderr, "migrate up") {
			t.Errorf("code %d, want 1 and a suggestion: %s", out.code, out.stderr)
		}
		for range 2 { // the second time there is nothing to do
			if out := w.run(t, "migrate", "up"); out.code != 0 {
				t.Fatalf("migrate up: code %d: %s", out.code, out.stderr)
			}
		}
		w.start(t).expect(t, push("gh-1"), "200 ok")
	})
}

// Events of a source with "consume: sql" wait for the application.
func TestConsumeSQLWaits(t *testing.T) {
	t.Parallel()
	settings := strings.Replace(standardSettings, "provider: github\n", "provider: github\n    consume: sql\n", 1)
	settings = strings.Replace(settings, "  - name: all\n", "  - name: all\n    sources: [bare]\n", 1)
	w := newWorld(t, newDatabase(t, "postgres"), settings)
	g := w.start(t)
	g.expect(t, push("gh-1"), "200 ok")
	g.expect(t, newDelivery("bare", `{"id":"b-1"}`), "200 ok")
	g.waitState(t, "bare", "b-1", "done")
	if detail := g.event(t, "github", "gh-1"); detail.State != "pending" || len(detail.Messages) != 0 {
		t.Errorf("the event is %s with %d messages, want pending with none", detail.State, len(detail.Messages))
	}
	g.expect(t, push("gh-1"), "200 duplicate")
}

// Environment variables override the file, and flags override both.
func TestPrecedenceOfSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newDatabase(t, "sqlite"), standardSettings)
	fromVariable, fromFlag := newDatabase(t, "sqlite"), newDatabase(t, "sqlite")
	w.env = append(w.env, "HOOKONCE_DATABASE="+fromVariable.url)
	w.start(t).expect(t, push("gh-1"), "200 ok")
	g := w.launch(t, "--config", "hookonce.yaml", "--database", fromFlag.url)
	g.waitReady(t)
	g.expect(t, push("gh-1"), "200 ok")
	for name, db := range map[string]*database{"variable": fromVariable, "flag": fromFlag} {
		if n := number(t, db.open(t), `SELECT count(*) FROM hookonce_event`); n != 1 {
			t.Errorf("%d events in the database of the %s, want 1", n, name)
		}
	}
}

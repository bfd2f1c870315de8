package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// Two gateways with two schemas in one database know nothing of each other: the same event is new to each, and neither
// sees, sends or takes the other's. A command finds the gateway of its own schema.
func TestTwoSchemas(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newDatabase(t, "postgres"), "")
	settings := func(schema string) string {
		return fmt.Sprintf(`
database: ${DATABASE_URL}
schema: %[1]s
sources:
  play: {provider: none, event: {id: "body:id", type: "body:type"}}
  taken: {provider: none, event: {id: "body:id"}, consume: sql}
routes:
  - {name: r, sources: [play], url: "${SINK}/%[1]s"}
`, schema)
	}
	w.writeSettings(t, "hookonce.yaml", settings("hookonce"))
	w.writeSettings(t, "billing.yaml", settings("billing"))
	a, b := w.startWith(t, "hookonce.yaml"), w.startWith(t, "billing.yaml")

	db := w.db.open(t)
	for _, g := range []*gateway{a, b} {
		g.expect(t, play("same", "x"), "200 ok")
		g.expect(t, play("same", "x"), "200 duplicate")
		g.waitState(t, "play", "same", "done")
	}
	if n := len(w.sink.requests("same")); n != 2 {
		t.Errorf("the destinations got %d requests, want one from each gateway", n)
	}
	b.expect(t, newDelivery("taken", `{"id":"of-billing"}`), "200 ok")
	for query, want := range map[string]int{
		`SELECT coalesce(cardinality(array_agg(event_id)), 0) FROM hookonce.take('taken', 10)`: 0,
		`SELECT coalesce(cardinality(array_agg(event_id)), 0) FROM billing.take('taken', 10)`:  1,
	} {
		tx, err := db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		var n int
		if err := tx.QueryRow(query).Scan(&n); err != nil || n != want {
			t.Errorf("%s: %d, error %v, want %d", query, n, err, want)
		}
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
	}
	if n := len(a.events(t, "")); n != 1 {
		t.Errorf("the gateway of the schema hookonce lists %d events, want its own", n)
	}

	for name, want := range map[string]int{"hookonce.yaml": 1, "billing.yaml": 2} {
		out := w.run(t, "events", "list", "--config", name, "--json")
		if n := strings.Count(out.stdout, `"event_id"`); out.code != 0 || n != want {
			t.Errorf("events list --config %s: code %d, %d events, want %d: %s%s", name, out.code, n, want, out.stdout, out.stderr)
		}
	}
}

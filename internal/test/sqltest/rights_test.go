package sqltest

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/hookmigrate"
)

// TestRights works as a role that has exactly the documented rights.
func TestRights(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.put(t, "shop", "a", "b")
	role := pgx.Identifier{strings.Trim(w.schema, `"`) + "_app"}.Sanitize()
	w.exec(t, "CREATE ROLE "+role)
	t.Cleanup(func() { w.dropRole(t, role) })
	asRole := func() *session {
		s := w.connect(t)
		s.run(t, "SET ROLE "+role)
		return s
	}
	all := []string{
		"SELECT * FROM hookonce.events, hookonce.dead_letters",
		"SELECT hookonce.fail('shop', 'b', 'x', first => '1 microsecond')",
		"SELECT hookonce.fail('shop', 'a', 'x')", // done
		"SELECT hookonce.enqueue('crm', 'x', id => 'one', source => 'shop', event_id => 'a')",
		"SELECT hookonce.enqueue('crm', 'x', id => 'one')",
	}
	s := asRole()
	for _, statement := range append(all, "SELECT hookonce.take('shop')") {
		s.fails(t, noRights, statement)
	}
	w.exec(t, hookmigrate.ConsumerGrants(strings.Trim(w.schema, `"`), strings.Trim(role, `"`)))
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "sql.md"))
	if err != nil || !strings.Contains(string(page), hookmigrate.ConsumerGrants("hookonce", "app")) {
		t.Errorf("docs/sql.md has other grants (error %v)", err)
	}
	s = asRole()
	s.run(t, "BEGIN")
	s.wantTake(t, 1, "a")
	s.run(t, "COMMIT")
	s.fails(t, notActive, "SELECT hookonce.take('shop')")
	for _, statement := range all {
		s.run(t, statement)
	}
	w.wantState(t, "b", state{State: "pending", Attempts: 1, LastError: "x"})
	for _, statement := range []string{
		"DELETE FROM hookonce.event", "UPDATE hookonce.event SET body = ''", "DELETE FROM hookonce.event_state",
		"INSERT INTO hookonce.event_state SELECT * FROM hookonce.event_state", "UPDATE hookonce.message SET state = 2",
		"SELECT * FROM hookonce.message", "SELECT * FROM hookonce.quarantine", "SELECT * FROM hookonce.learned_secret", "SELECT * FROM hookonce.feed_consumed",
		"TRUNCATE hookonce.taken_in_line", "INSERT INTO hookonce.taken_in_line VALUES ('{}')", "TRUNCATE hookonce.take_call", "INSERT INTO hookonce.take_call VALUES (now())",
		"INSERT INTO hookonce.message SELECT * FROM hookonce.message", "INSERT INTO hookonce.event SELECT * FROM hookonce.event",
		"UPDATE hookonce.event_state SET due_at = 'infinity'", "INSERT INTO hookonce.event_attempt SELECT * FROM hookonce.event_attempt",
		"DROP FUNCTION hookonce.take", "ALTER TABLE hookonce.take_call DISABLE TRIGGER ALL",
	} {
		_, err := s.Exec(t.Context(), w.text(statement))
		if err == nil {
			t.Errorf("the role may run: %s", statement)
		}
	}
	w.arrive(t, "o", 1, 2)
	for _, id := range []string{"o-1", "o-2"} { // the COMMIT writes to tables that the role has no right on
		s.run(t, "BEGIN")
		if got := s.take(t, 10); !slices.Contains(got, id) {
			t.Errorf("took %q, want %s", got, id)
		}
		s.run(t, "COMMIT")
	}
}

func (w *world) dropRole(t *testing.T, role string) {
	for _, statement := range []string{"DROP OWNED BY " + role, "DROP ROLE " + role} {
		if _, err := w.pool.Exec(context.WithoutCancel(t.Context()), statement); err != nil {
			t.Errorf("%s: %v", statement, err)
		}
	}
}

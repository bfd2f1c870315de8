package hookpgx_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
)

// TestMoveByReplication moves a schema to another server with the statements of docs/moving.md, while events come.
func TestMoveByReplication(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	server := migrated(t, "wal_level=logical")
	from, to := private(t, server), private(t, dbtest.StartServer(t, &dbtest.Options{Stranger: true, Migrated: true}))
	claims := populate(t, from, "early")
	page := statementsOf(t, "../docs/moving.md")
	if len(page) != 5 {
		t.Fatalf("the page has %d statements, want 5: %q", len(page), page)
	}
	var publication string
	if err := from.pool.QueryRow(t.Context(), page[0]).Scan(&publication); err != nil {
		t.Fatal(err)
	}
	from.exec(t, publication)
	to.exec(t, replaced(t, page[1], "'host=old dbname=hooks user=mover password=…'", "'"+server.DSN()+"'"))
	claims = append(claims, populate(t, from, "meanwhile")...)
	eventually.True(t, "the tables are copied", func() bool {
		return to.number(t, page[2]) == 0
	})
	claims = append(claims, populate(t, from, "late")...)
	last := claims[len(claims)-1].Key[:]
	from.exec(t, "UPDATE {schema}.event SET headers = NULL, body = NULL WHERE key = $1", last)
	from.exec(t, "DELETE FROM {schema}.event_state WHERE key = $1", last)

	var end string
	if err := from.pool.QueryRow(t.Context(), replaced(t, page[3], "()", "()::text")).Scan(&end); err != nil {
		t.Fatal(err)
	}
	confirmed := replaced(t, page[4], "'0/16B3748'", "'"+end+"'")
	eventually.True(t, "the new server has everything", func() bool {
		var has bool
		if err := from.pool.QueryRow(t.Context(), confirmed).Scan(&has); err != nil {
			t.Fatal(err)
		}
		return has
	})
	to.exec(t, "DROP SUBSCRIPTION hookonce_move")
	moved(t, from, to, claims)
}

// statementsOf returns the SQL of a page, as psql sends it.
func statementsOf(t *testing.T, page string) (statements []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, block := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		for statement := range strings.SplitSeq(strings.ReplaceAll(block[1], `\gexec`, ";"), ";") {
			if statement = strings.TrimSpace(statement); statement != "" {
				statements = append(statements, statement)
			}
		}
	}
	return statements
}

// replaced returns a statement with a placeholder of its page filled in.
func replaced(t *testing.T, statement, placeholder, value string) string {
	t.Helper()
	if !strings.Contains(statement, placeholder) {
		t.Fatalf("%q has no %q", statement, placeholder)
	}
	return strings.Replace(statement, placeholder, value, 1)
}

// TestMoveByDump moves a schema by pg_dump, as for a group of sources that gets a server of its own.
func TestMoveByDump(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	programs := dbtest.Programs(t)
	for _, name := range []string{"pg_dump", "psql"} {
		if _, err := os.Stat(filepath.Join(programs, name)); errors.Is(err, fs.ErrNotExist) {
			t.Skipf("%s is not installed", name)
		}
	}
	old, fresh := migrated(t), dbtest.StartServer(t, &dbtest.Options{Stranger: true})
	from := private(t, old)
	claims := populate(t, from, "evt")
	file := filepath.Join(t.TempDir(), "dump.sql")
	for _, args := range [][]string{
		{"pg_dump", "--schema=hookonce", "--file=" + file, old.DSN()},
		{"psql", "--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--file=" + file, fresh.DSN()},
	} {
		if out, err := exec.CommandContext(t.Context(), filepath.Join(programs, args[0]), args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", args[0], err, out)
		}
	}
	moved(t, from, connect(t, fresh.DSN(), "hookonce", nil), claims)
}

// populate claims events in many states, and replays one, and returns their claims: three dead ones first.
func populate(t *testing.T, w *world, name string) []driver.Claim {
	t.Helper()
	var claims []driver.Claim
	for n := range 3 {
		claims = append(claims, w.mustClaimDead(t, fmt.Sprint(name, "_dead_", n), "billing"))
	}
	waiting, again, worked := newClaim(name+"_waiting", "billing"), w.mustClaimDead(t, name+"_again", "billing"), queued(name+"_queued")
	w.mustClaim(t, true, waiting)
	w.mustClaim(t, true, worked)
	if done, err := w.ReplayDead(t.Context(), letterOf(&again)); err != nil || !done[0] {
		t.Fatalf("ReplayDead: %v, %v", done, err)
	}
	w.exec(t, "UPDATE {schema}.message SET state = 3, failed_at = now() WHERE event_key = $1", again.Key[:])
	w.exec(t, "SELECT {schema}.enqueue('billing', 'x', id => $1)", name)
	return append(claims, waiting, again, worked)
}

// moved checks that a server has all of another one, knows every id, and replays and reopens dead events at once.
func moved(t *testing.T, from, to *world, claims []driver.Claim) {
	t.Helper()
	for _, table := range []string{"event", "event_state", "message", "history"} {
		sum := "SELECT count(*)::text || ' ' || coalesce(sum(hashtextextended(t::text, 0)), 0) FROM " + from.schema + "." + table + " t"
		if diff := cmp.Diff(textOf(t, from, sum), textOf(t, to, sum)); diff != "" {
			t.Errorf("%s (-old +new):\n%s", table, diff)
		}
	}
	for i := range claims {
		to.mustClaim(t, false, claims[i])
		switch id := claims[i].EventID; {
		case strings.HasSuffix(id, "_dead_0"):
			_, err := to.Replay(t.Context(), &driver.ReplayParams{Key: claims[i].Key, Mode: driver.ReplayPlain})
			if err != nil {
				t.Errorf("Replay of %s: %v", id, err)
			}
		case strings.HasSuffix(id, "_dead_1"), strings.HasSuffix(id, "_again"):
			if done, err := to.ReplayDead(t.Context(), letterOf(&claims[i])); err != nil || !done[0] {
				t.Errorf("ReplayDead of %s: %v, %v", id, done, err)
			}
		case strings.HasSuffix(id, "_dead_2"):
			reopened, _, err := to.Reopen(t.Context(), &driver.ReopenParams{Keys: []driver.Key{claims[i].Key}})
			if err != nil || len(reopened) != 1 {
				t.Errorf("Reopen of %s: %v, %v", id, reopened, err)
			}
		}
	}
	if n := to.number(t, "SELECT count(*) FROM pg_class WHERE relnamespace = 'hookonce'::regnamespace AND relkind = 'S'"); n > 0 {
		t.Errorf("the schema has %d sequences, which replication does not copy", n)
	}
}

func textOf(t *testing.T, w *world, sql string) (text string) {
	t.Helper()
	if err := w.pool.QueryRow(t.Context(), sql).Scan(&text); err != nil {
		t.Fatal(err)
	}
	return text
}

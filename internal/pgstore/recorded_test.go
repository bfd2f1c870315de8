package pgstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/driver"
)

// recorder is a DB on one connection that keeps the text of each statement.
type recorder struct {
	conn  *pgx.Conn
	many  bool // counts of rows are large, so that listings do not look few rows up one by one
	texts map[string]bool
}

func (r *recorder) Query(ctx context.Context, sql string, args ...any) (Rows, error) {
	r.texts[sql] = true
	if r.many && strings.HasPrefix(sql, "SELECT count(*) FROM (") {
		sql, args = "SELECT 1000000000::bigint", nil
	}
	return r.conn.Query(ctx, sql, args...) //nolint:sqlclosecheck // the caller closes them
}

func (r *recorder) Script(ctx context.Context, sql string) error {
	_, err := r.conn.PgConn().Exec(ctx, sql).ReadAll()
	return err
}

func (r *recorder) Transaction(ctx context.Context, _ Isolation, f func(Conn) error) error {
	tx, err := r.conn.Begin(ctx)
	if err != nil {
		return err
	}
	if err := f(r); err != nil {
		_ = tx.Rollback(ctx) // err is the cause
		return err
	}
	return tx.Commit(ctx)
}

func (r *recorder) Begin(context.Context) (Tx, error) {
	panic("no listing begins a transaction of its own")
}

func (r *recorder) Outcome(error) Outcome { return Refused }

// runTimeFiles build statements when they run them, and record runs all their forms. The other files run what New has
// prepared.
var runTimeFiles = []string{
	"events.go", "figures.go", "groups.go", "jobs.go", "listing.go", "messages.go", "migrate.go", "pgstore.go", "refused.go",
}

// record runs what builds its statements at run time on a store of a schema, and returns all statements.
func record(t *testing.T, conn *pgx.Conn, schema string, many bool) []string {
	t.Helper()
	r := &recorder{conn: conn, many: many, texts: make(map[string]bool)}
	s, ctx := New(schema, Pools{r, r, r, r}), t.Context()
	run := func(_ any, err error) {
		t.Helper()
		if err != nil && !errors.Is(err, driver.ErrNotFound) {
			t.Error(err)
		}
	}
	run(s.Apply(ctx))
	run(s.Applied(ctx))
	for _, f := range eventFilters() {
		run(s.Events(ctx, &f))
	}
	for _, f := range messageFilters() {
		run(s.Messages(ctx, &f))
		run(s.DeadLetters(ctx, &f))
	}
	for _, f := range []driver.GroupFilter{{}, {Source: "stripe"}, {Destination: "app", Signature: "x", Since: noon, Until: noon}} {
		run(s.ErrorGroups(ctx, &f))
	}
	for of := range driver.FigureTypes + 1 {
		for _, byName := range []bool{false, true} {
			run(s.Series(ctx, &driver.SeriesFilter{Of: of, Resolution: driver.ByHour, Name: "stripe", Label: "x", ByName: byName, Since: noon, Until: noon, Limit: 1}))
		}
	}
	place := driver.Cursor{At: noon, Key: driver.Key{1}}
	for _, after := range []driver.Cursor{{}, place} {
		run(s.Quarantined(ctx, &driver.QuarantineFilter{Source: "stripe", After: after}))
		run(s.Refused(ctx, &driver.RefusedFilter{Source: "stripe", Reason: "x", Remote: "x", ErrorID: "x", Since: noon, Until: noon, After: after}))
		run(s.Jobs(ctx, &driver.JobFilter{State: driver.JobPlanned, After: driver.Cursor{At: after.At}}))
	}
	run(s.QuarantinedRequest(ctx, driver.Key{}))
	return slices.Sorted(maps.Keys(r.texts))
}

// eventFilters returns each state with each other condition.
func eventFilters() (all []driver.EventFilter) {
	for _, state := range append([]string{""}, driver.EventStates()...) {
		for _, f := range []driver.EventFilter{
			{},
			{Source: "stripe", Type: "x", Note: driver.NoteNoRoute},
			{Source: "stripe", ID: "e1"},
			{Text: "x"},
			{Text: "\xff"},
			{TraceID: strings.Repeat("a", 32)},
			{Since: noon.Add(-time.Hour), Until: noon, After: driver.Cursor{At: noon}},
		} {
			f.State, f.Limit = state, 1
			all = append(all, f)
		}
	}
	return all
}

// messageFilters returns each state with each other condition.
func messageFilters() (all []driver.MessageFilter) {
	for _, state := range append([]string{""}, driver.MessageStates()...) {
		for _, f := range []driver.MessageFilter{
			{},
			{Source: "stripe", Type: "x"},
			{Note: driver.NoteDiscarded},
			{Source: "stripe", EventID: "e1"},
			{Text: "x"},
			{MessageID: "x"},
			{Destination: "app"},
			{Destination: "app", Signature: "x"},
			{Since: noon.Add(-time.Hour), Until: noon, After: driver.Cursor{At: noon, ID: "x"}},
		} {
			f.State, f.Limit = state, 1
			all = append(all, f)
		}
	}
	return all
}

// claimSome claims events with a message each, so that listings go through all of their steps.
func claimSome(t *testing.T, conn *pgx.Conn, schema string) {
	t.Helper()
	r := &recorder{conn: conn, texts: make(map[string]bool)}
	p := &driver.ClaimParams{}
	for i := range 3 {
		id := fmt.Sprint("e", i)
		keys, _ := driver.KeysOf([]string{"stripe"}, id)
		p.Claims = append(p.Claims, driver.Claim{
			Key: keys[0], Source: "stripe", EventID: id, Type: "x", Headers: []byte("{}"), Body: []byte(id), BodyHash: sha256.Sum256([]byte(id)),
			Messages: []driver.NewMessage{{ID: driver.MessageID(keys[0], 0, "first"), Route: "first", Destination: "app"}},
		})
	}
	slices.SortFunc(p.Claims, func(a, b driver.Claim) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	if _, err := New(schema, Pools{r, r, r, r}).Claim(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

// Statements that are built when they run need one schema too.
func TestStatementsAtRunTimeNeedOneSchema(t *testing.T) {
	t.Parallel()
	conn := connectTo(t)
	migrate(t, conn, "east")
	claimSome(t, conn, "east")
	for _, many := range []bool{false, true} {
		all := record(t, conn, "east", many)
		for sql, err := range spanning(t, conn, all) {
			t.Errorf("%v:\n%s", err, sql)
		}
		for _, table := range []string{"event", "event_overview", "message", "event_state", "rollup", "type_rollup", "quarantine", "refused", "job", "schema_migration"} {
			if !slices.ContainsFunc(all, func(sql string) bool {
				return strings.Contains(sql, ` "east".`+table+" ") || strings.HasSuffix(sql, ` "east".`+table)
			}) {
				t.Errorf("no statement reads the table %s", table)
			}
		}
		if len(all) < 80 {
			t.Errorf("only %d statements were seen", len(all))
		}
	}
}

// The check finds another schema and names without one, and the statements of a store on another schema.
func TestStatementsOfAnotherSchema(t *testing.T) {
	t.Parallel()
	conn := connectTo(t)
	migrate(t, conn, "east")
	planted := []string{
		`SELECT e.key FROM "east".event e JOIN "west".message m ON m.event_key = e.key`,
		`SELECT key FROM event`,
		`SELECT nextval('west.numbers'), key FROM "east".event`,
	}
	if found := spanning(t, conn, planted); len(found) != len(planted) {
		t.Errorf("%d of %d planted statements were found: %v", len(found), len(planted), found)
	}
	r := &recorder{conn: conn, texts: make(map[string]bool)}
	if _, err := New("west", Pools{r, r, r, r}).Messages(t.Context(), &driver.MessageFilter{}); err == nil {
		t.Error("a listing of a schema that does not exist succeeded")
	}
	if found := spanning(t, conn, slices.Collect(maps.Keys(r.texts))); len(found) == 0 {
		t.Errorf("no statement of another schema was found among %d", len(r.texts))
	}
}

// A file that begins to build statements at run time must be among those that record runs.
func TestFilesThatBuildStatements(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var building []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(file, "_test.go") && strings.Contains(string(text), "s.schema") {
			building = append(building, file)
		}
	}
	if diff := cmp.Diff(runTimeFiles, building); diff != "" {
		t.Errorf("let record run the statements of these files, too (-known +found):\n%s", diff)
	}
}

package pgstore

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/hookmigrate"
)

func TestStatements(t *testing.T) {
	t.Parallel()
	for script, want := range map[string][]string{
		"":                                        nil,
		" -- nothing; at all\n;;":                 nil,
		"SELECT 1":                                {"SELECT 1"},
		"SELECT 1; SELECT 2;":                     {"SELECT 1", "SELECT 2"},
		"SELECT 'a;''b'; SELECT ''":               {"SELECT 'a;''b'", "SELECT ''"},
		`SELECT '\'; SELECT 2`:                    {`SELECT '\'`, "SELECT 2"},
		`SELECT E'\';', e'\\'; SELECT 2`:          {`SELECT E'\';', e'\\'`, "SELECT 2"},
		`SELECT ";""--"; SELECT 2`:                {`SELECT ";""--"`, "SELECT 2"},
		"SELECT 1 -- one; 'x\n; SELECT 2":         {"SELECT 1 -- one; 'x", "SELECT 2"},
		"SELECT /* a; /* b */ ; ' */ 1; SELECT 2": {"SELECT /* a; /* b */ ; ' */ 1", "SELECT 2"},
		"DO $$ BEGIN a; END $$; SELECT 2":         {"DO $$ BEGIN a; END $$", "SELECT 2"},
		"DO $a$ $$; $b$; $a$; SELECT 2":           {"DO $a$ $$; $b$; $a$", "SELECT 2"},
		"SELECT a$b$c; SELECT $1; SELECT 3":       {"SELECT a$b$c", "SELECT $1", "SELECT 3"},
		"BEGIN; COMMIT":                           {"BEGIN", "COMMIT"},
		"CREATE FUNCTION f() BEGIN ATOMIC SELECT CASE WHEN a THEN 1 END; SELECT 2; END; SELECT 3": {
			"CREATE FUNCTION f() BEGIN ATOMIC SELECT CASE WHEN a THEN 1 END; SELECT 2; END", "SELECT 3",
		},
		"SELECT 'open; SELECT 2": {"SELECT 'open; SELECT 2"},
	} {
		if diff := cmp.Diff(want, slices.Collect(statements(script))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", script, diff)
		}
	}
}

// Each step of the schema is sent in single statements, and no part is left out.
func TestStepsAreSentStatementByStatement(t *testing.T) {
	t.Parallel()
	conn := connectTo(t)
	run(t, conn, "BEGIN")
	for _, step := range hookmigrate.Postgres("east") {
		rest := step.SQL
		for sql := range statements(step.SQL) {
			// The extended protocol refuses two statements at once.
			if _, err := conn.PgConn().ExecParams(t.Context(), sql, nil, nil, nil, nil).Close(); err != nil {
				t.Fatalf("%v:\n%s", err, sql)
			}
			_, after, found := strings.Cut(rest, sql)
			if !found {
				t.Fatalf("this is not a part of the step:\n%s", sql)
			}
			rest = strings.TrimPrefix(after, ";")
		}
		if strings.TrimSpace(rest) != "" {
			t.Errorf("this was not sent:\n%s", rest)
		}
	}
	run(t, conn, "COMMIT")
	if n := len(texts(t, conn, "SELECT tablename FROM pg_tables WHERE schemaname = 'east'")); n < 20 {
		t.Errorf("%d tables were made", n)
	}
}

package cli_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/internal/cli"
)

// TestMain lets this binary be the command hookonce, for the scripts and for
// the tests that start it as a process of its own.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"hookonce": func() {
			os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
		},
	})
}

// raceEnv keeps a process under the race detector from waiting a second at its
// end for reports of other goroutines; it still reports, and exits with 66.
func raceEnv() string { return "GORACE=" + os.Getenv("GORACE") + " atexit_sleep_ms=0" }

// TestScripts runs the scripts of testdata/script. Besides the commands of
// testscript they have
//
//	code N COMMAND...   run COMMAND, which must exit with code N
//	seed DATABASE       make a SQLite database that holds known events
//	sql DATABASE STMT   run statements on a SQLite database; @FILE holds them
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			name, value, _ := strings.Cut(raceEnv(), "=")
			env.Setenv(name, value)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code": code,
			"seed": seed,
			"sql":  runSQL,
		},
	})
}

func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N COMMAND...")
	}
	got := "0"
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := err.(interface{ ExitCode() int })
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = string(rune('0' + exit.ExitCode()))
	}
	if got != args[0] {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
}

func runSQL(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: sql DATABASE STATEMENT")
	}
	statements := args[1]
	if file, ok := strings.CutPrefix(statements, "@"); ok {
		statements = ts.ReadFile(file)
	}
	db, err := sql.Open("sqlite", ts.MkAbs(args[0]))
	ts.Check(err)
	defer db.Close()
	_, err = db.Exec(statements)
	ts.Check(err)
}

// seeded are the events of seed, a minute apart, the first received at noon.
var seeded = []struct{ source, id, typ, body string }{
	{"github", "g1", "push", `{"who":"ada"}`},
	{"github", "g2", "fork", `{"who":"bob"}`},
	{"stripe", "evt_1", "invoice.paid", `{"who":"ada"}`},
	// What a hostile sender would like to do to a terminal.
	{"lab", "a/b:\u202etxt", "\u200btype", "\x1b[2J\u202e{}"},
	{"lab", "binary", "", "\xff\xfe"},
}

func seed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: seed DATABASE")
	}
	ctx := context.Background()
	store, err := hooksql.OpenSQLite("sqlite", ts.MkAbs(args[0]))
	ts.Check(err)
	defer func() { ts.Check(store.Close()) }()
	_, err = hookmigrate.Up(ctx, store)
	ts.Check(err)
	for i, ev := range seeded {
		key := driver.EventKey(ev.source, ev.id)
		c := driver.Claim{
			Key: key, Source: ev.source, EventID: ev.id, Type: ev.typ,
			Headers: []byte(`{"Content-Type":["application/json"]}`),
			Body:    []byte(ev.body), BodyHash: sha256.Sum256([]byte(ev.body)),
		}
		if ev.source == "stripe" {
			c.Messages = []driver.NewMessage{{ID: driver.MessageID(key, 0, "billing"), Route: "billing", Destination: "billing"}}
		}
		_, err := store.Claim(ctx, &driver.ClaimParams{
			Claims: []driver.Claim{c},
			Now:    time.Date(2026, 1, 31, 12, i, 0, 0, time.UTC),
		})
		ts.Check(err)
	}
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

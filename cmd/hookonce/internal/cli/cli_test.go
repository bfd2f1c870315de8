package cli_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/cli"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hooksql"
)

// TestMain lets the test binary act as the command hookonce, for the scripts and for the tests that
// start it as a separate process.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"hookonce": func() {
			os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
		},
	})
}

// raceEnv stops a process under the race detector from waiting a second at exit for reports of
// other goroutines. It still reports races, and exits with 66.
func raceEnv() string { return "GORACE=" + os.Getenv("GORACE") + " atexit_sleep_ms=0" }

// TestScripts runs the scripts of testdata/script. They add these commands to those of testscript:
//
//	code N COMMAND...   run COMMAND, which must exit with code N
//	seed DATABASE       make a SQLite database that holds known events
//	finish DATABASE OUTCOME   send the due messages to billing; OUTCOME is sent or dead
//	sql DATABASE STMT   run statements on a SQLite database; @FILE holds them
//	bare FILE NEW       copy FILE without the line break at its end
//	quarantine DATABASE store quarantined requests: quarantinedOne, quarantinedElsewhere, one of a removed source, 25 with
//	                    a body:uid, and one without
//
// $EVT_1 and $G1 are the messages of the events evt_1 and g1, by the routes billing and pushes. $ONE
// is the id of quarantinedOne, $EVENT that of its event, and $ELSEWHERE that of quarantinedElsewhere.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			name, value, _ := strings.Cut(raceEnv(), "=")
			env.Setenv(name, value)
			env.Setenv("EVT_1", driver.MessageID(driver.EventKey("stripe", "evt_1"), 0, "billing"))
			one := quarantineKey("lab", quarantinedOne)
			env.Setenv("ONE", hex.EncodeToString(one[:]))
			elsewhere := quarantineKey("lab", quarantinedElsewhere)
			env.Setenv("ELSEWHERE", hex.EncodeToString(elsewhere[:]))
			env.Setenv("EVENT", "one\u202e")
			env.Setenv("G1", driver.MessageID(driver.EventKey("github", "g1"), 0, "pushes"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":   code,
			"seed":   seed,
			"finish": finish,
			"sql":    runSQL,
			"bare":   bare,

			"quarantine": quarantine,
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

func bare(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: bare FILE NEW")
	}
	text := strings.TrimSuffix(ts.ReadFile(args[0]), "\n")
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o600))
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

// seeded are the events that seed stores, one minute apart; the first is received at noon.
var seeded = []struct{ source, id, typ, body string }{
	{"github", "g1", "push", `{"who":"ada"}`},
	{"github", "g2", "fork", `{"who":"bob"}`},
	{"stripe", "evt_1", "invoice.paid", `{"who":"ada"}`},
	// A hostile sender tries to control the terminal.
	{"lab", "a/b:\u202etxt", "\u200btype", "\x1b[2J\u202e{}"},
	{"lab", "binary", "", "\xff\xfe"},
}

func seed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: seed DATABASE")
	}
	ctx := context.Background()
	store := open(ts, args[0])
	defer func() { ts.Check(store.Close()) }()
	_, err := hookmigrate.Up(ctx, store)
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

// quarantinedElsewhere is the body of a quarantined request whose events another program handles.
const quarantinedElsewhere = `{"uid":"elsewhere"}`

// quarantinedOne is the body of the latest quarantined request.
const quarantinedOne = "{\"uid\":\"one\u202e\",\"kind\":\"push\"}"

func quarantineKey(source, body string) driver.Key {
	return driver.BodyKey(source, sha256.Sum256([]byte(body)))
}

func quarantine(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: quarantine DATABASE")
	}
	store := open(ts, args[0])
	defer func() { ts.Check(store.Close()) }()
	all := [][2]string{{"lab", quarantinedOne}, {"gone", `{"uid":1}`}, {"lab", `{}`}}
	all = append(all, [2]string{"lab", quarantinedElsewhere})
	for i := range 25 {
		all = append(all, [2]string{"lab", fmt.Sprintf(`{"uid":%d}`, i)})
	}
	for i, q := range all {
		ts.Check(store.Quarantine(context.Background(), &driver.QuarantineParams{
			Requests: []driver.Quarantined{{
				Source: q[0], BodyHash: sha256.Sum256([]byte(q[1])), Headers: []byte(`{"Content-Type":["application/json"]}`),
				Body: []byte(q[1]), Reason: "no id", Handled: q[1] == quarantinedElsewhere,
			}},
			Now: time.Date(2026, 1, 31, 12, 0, -i, 0, time.UTC),
		}))
	}
}

func open(ts *testscript.TestScript, name string) driver.Store {
	store, err := hooksql.OpenSQLite("sqlite", ts.MkAbs(name))
	ts.Check(err)
	return store
}

// finish completes the due messages to billing, like a gateway whose destination answers 200, or
// 500 to the last attempt.
func finish(ts *testscript.TestScript, neg bool, args []string) {
	outcomes := map[string]driver.Completion{
		"sent": {Outcome: driver.MessageSent, StatusCode: 200},
		"dead": {
			Outcome: driver.MessageDead, StatusCode: 500, Error: "it answered 500: \x1b[2J",
			Response: []byte("<b>no\u202e</b>\n"), ResponseType: "text/html\u202e",
		},
	}
	if neg || len(args) != 2 || outcomes[args[1]].Outcome == 0 {
		ts.Fatalf("usage: finish DATABASE OUTCOME")
	}
	ctx := context.Background()
	store := open(ts, args[0])
	defer func() { ts.Check(store.Close()) }()
	leased, err := store.Lease(ctx, &driver.LeaseParams{Destination: "billing", Limit: 10, For: time.Minute, MaxAttempts: 3})
	ts.Check(err)
	if len(leased.Messages) == 0 {
		ts.Fatalf("nothing is due")
	}
	var p driver.CompleteParams
	for i := range leased.Messages {
		c := outcomes[args[1]]
		c.ID, c.Token = leased.Messages[i].ID, leased.Messages[i].Token
		p.Completions = append(p.Completions, c)
	}
	_, err = store.Complete(ctx, &p)
	ts.Check(err)
}

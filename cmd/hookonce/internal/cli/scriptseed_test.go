package cli_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/hooksql"
)

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
		if isPostgres(args[0]) { // which has its own clock
			runSQL(ts, false, []string{args[0], fmt.Sprintf(
				"UPDATE hookonce.event SET received_at = '2026-01-31 12:%02d:00Z' WHERE key = '\\x%x'", i, key[:])})
		}
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
		if isPostgres(args[0]) {
			runSQL(ts, false, []string{args[0], fmt.Sprintf(
				"UPDATE hookonce.quarantine SET (first_at, last_at) = (t, t) FROM (VALUES (timestamptz '2026-01-31 12:00:00Z' - interval '%d s')) AS v (t) "+
					"WHERE body = '\\x%x'", i, q[1])})
		}
	}
}

// open opens a database by the URL or by the path of a SQLite file.
func open(ts *testscript.TestScript, name string) driver.Store {
	var store driver.Store
	var err error
	if isPostgres(name) {
		var cfg *pgxpool.Config
		cfg, err = pgxpool.ParseConfig(name)
		ts.Check(err)
		store, err = hookpgx.Open(cfg, nil)
	} else {
		store, err = hooksql.OpenSQLite("sqlite", sqliteFile(ts, name))
	}
	ts.Check(err)
	return store
}

func isPostgres(database string) bool { return strings.HasPrefix(database, "postgres://") }

// sqliteFile returns the path of a SQLite file that is named by a URL of the settings or by a path.
func sqliteFile(ts *testscript.TestScript, name string) string {
	return ts.MkAbs(strings.TrimPrefix(name, "sqlite:"))
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

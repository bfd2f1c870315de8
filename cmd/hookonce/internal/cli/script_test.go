package cli_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"database/sql"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/cli"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/group"
)

// TestScripts runs the scripts: those of testdata/script once, and those of testdata/store on each kind
// of database; a plain run has only onPostgres on PostgreSQL. HOOKONCE_DATABASE names the database of a script, so commands need no flag for it;
// $DATABASE is the same. Afterwards, every command must have been run; see checkCoverage.
//
// The scripts have the commands of testscript, and these. DATABASE is a URL of the settings or the path
// of a SQLite file.
//
//	run COMMAND...            run COMMAND, which must succeed
//	code N COMMAND...         run COMMAND, which must exit with code N
//	error TEXT [TRY]          require that the last command printed this error and this hint, and nothing else to
//	                          stderr; \n in TEXT is a line break
//	gateway start|stop|kill   start a gateway on the database, with the flags that follow, end it, or kill it
//	gateway log               make its log the last output to stderr
//	certificate NAME...       write a certificate for the names to cert.pem, and its key to key.pem
//	destination STATUS [BODY] start the destination, or change its answer; BODY may have Go escapes. With
//	                          the status 0 it does not answer
//	await PATH REGEXP         wait until the admin API of the gateway answers GET PATH with a match
//	interrupt N REGEXP COMMAND...  run COMMAND, interrupt it once it prints a match, and require the exit code N
//	list N                    start an API of Stripe at $API that lists N events of the last hours
//	seed DATABASE             make a database that holds known events
//	finish DATABASE OUTCOME   send the due messages to billing; OUTCOME is sent or dead
//	sql DATABASE STMT         run statements; @FILE holds them
//	quarantine DATABASE       store quarantined requests: quarantinedOne, quarantinedElsewhere, one of a removed
//	                          source, 25 with a body:uid, and one without
//	bare FILE NEW             copy FILE without the line break at its end
//	capture NAME REGEXP       set a variable to the first group of the match in the last output
//
// $ADMIN and $PUBLIC are the addresses of the gateway; $LISTEN is the public one without http://, and
// $DESTINATION that of the destination. $EVT_1 and $G1 are the messages of the events evt_1 and g1, by the
// routes billing and pushes. $ONE is the id of quarantinedOne, $EVENT that of its event, $ELSEWHERE that of
// quarantinedElsewhere, and $BROKEN that of {"no":"id"}. $NOBODY is an address that refuses connections. On
// PostgreSQL, $SERVER is the host and port, $SUPER another database there, and $NONE one that does not
// exist. The conditions [sqlite] and [postgres] tell the stores apart.
func TestScripts(t *testing.T) {
	seen := newCoverage(t)
	all := scriptsOf(t)
	names := variablesOf(t, all)
	run := func(name string, newDatabase func(testing.TB) string) {
		root := t.TempDir()
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testscript.Run(t, testscript.Params{
				Files:               all[name],
				WorkdirRoot:         root,
				RequireExplicitExec: true,
				RequireUniqueNames:  true,
				ContinueOnError:     true, // one run shows every changed text
				Setup: func(env *testscript.Env) error {
					seen.ran(name)
					setUp(env, newDatabase(env.T().(testing.TB)), seen.file, names)
					return nil
				},
				Condition: func(condition string) (bool, error) {
					switch condition {
					case "sqlite", "postgres":
						return condition == strings.ToLower(name), nil
					case "root":
						return os.Geteuid() == 0, nil
					}
					return false, fmt.Errorf("unknown condition %q", condition)
				},
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"run": runIt, "code": code, "error": wantError, "gateway": runGateway, "destination": setDestination, "await": await,
					"interrupt": runInterrupted, "seed": seed, "finish": finish, "sql": runSQL, "quarantine": quarantine, "bare": bare, "certificate": certificate, "capture": capture, "list": startList,
				},
			})
		})
	}
	newDatabase := newDatabases(t) // not beside commands, which change this process
	run("alone", func(testing.TB) string { return "" })
	run("SQLite", func(testing.TB) string { return "sqlite:hookonce.db" })
	run("Postgres", newDatabase)
}

// onPostgres are the scripts whose output depends on the kind of database, or on what one process sees of another. The tests of the stores prove that
// both have the same contents.
var onPostgres = []string{"away", "move", "reconcile"}

// scriptsOf returns the scripts of each run of TestScripts.
func scriptsOf(t *testing.T) map[string][]string {
	t.Helper()
	all := make(map[string][]string)
	testdata, err := filepath.Abs("testdata") // commands change the folder of this process
	if err != nil {
		t.Fatal(err)
	}
	for name, folder := range map[string]string{"alone": "script", "SQLite": "store", "Postgres": "store"} {
		scripts, err := filepath.Glob(filepath.Join(testdata, folder, "*.txtar"))
		if err != nil || len(scripts) == 0 {
			t.Fatalf("no scripts in %s: %v", folder, err)
		}
		all[name] = scripts
	}
	if !group.Long() {
		all["Postgres"] = nil
		for _, name := range onPostgres {
			all["Postgres"] = append(all["Postgres"], filepath.Join(testdata, "store", name+".txtar"))
		}
	}
	return all
}

// newDatabases starts a server, and returns a function that makes a new database on it.
func newDatabases(t *testing.T) func(testing.TB) string {
	t.Helper()
	dsn := dbtest.StartServer(t, nil).DSN()
	return func(t testing.TB) string {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		name := strings.ToLower(filepath.Base(t.Name()))
		if _, err := conn.Exec(t.Context(), "CREATE DATABASE "+pgx.Identifier{name}.Sanitize()); err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(dsn)
		if err != nil {
			t.Fatal(err)
		}
		u.Path = "/" + name
		return u.String()
	}
}

// setUp sets the variables of a script. Without a database, HOOKONCE_DATABASE is not set.
func setUp(env *testscript.Env, database, seen string, names []string) {
	name, value, _ := strings.Cut(raceEnv(), "=")
	env.Setenv(name, value)
	env.Setenv(recordEnv, seen)
	if database != "" {
		env.Setenv("DATABASE", database)
		env.Setenv("HOOKONCE_DATABASE", database)
	}
	if u, err := url.Parse(database); err == nil && isPostgres(database) {
		env.Setenv("SERVER", u.Host)
		u.Path = "/postgres"
		env.Setenv("SUPER", u.String())
		u.Path = "/none"
		env.Setenv("NONE", u.String())
	}
	for name, key := range map[string]driver.Key{
		"ONE": quarantineKey("lab", quarantinedOne), "ELSEWHERE": quarantineKey("lab", quarantinedElsewhere),
		"BROKEN": quarantineKey("lab", "{\"no\":\"id\"}\n"),
	} {
		env.Setenv(name, hex.EncodeToString(key[:]))
	}
	env.Setenv("EVENT", "one\u202e")
	env.Setenv("EVT_1", driver.MessageID(driver.EventKey("stripe", "evt_1"), 0, "billing"))
	env.Setenv("G1", driver.MessageID(driver.EventKey("github", "g1"), 0, "pushes"))
	env.Setenv("NOBODY", "http://127.0.0.1:1")
	env.Setenv("LONG", strings.Repeat("a", 256))
	s := &scene{t: env.T().(testing.TB), variables: append([]string{"DESTINATION", "API"}, names...)}
	for _, entry := range env.Vars {
		name, _, _ := strings.Cut(entry, "=")
		s.variables = append(s.variables, name)
	}
	env.Values[sceneKey{}] = s
}

// wantError compares the whole text of stderr.
func wantError(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: error TEXT [TRY]")
	}
	want := "Error: " + strings.ReplaceAll(args[0], `\n`, "\n") + "\n"
	if len(args) == 2 {
		want += "Try: " + args[1] + "\n"
		checkHint(ts, args[1])
	}
	if got := seen.ReplaceAllString(ts.ReadFile("stderr"), ""); got != want {
		ts.Fatalf("stderr is not as expected\n-want\n%s+got\n%s", want, got)
	}
}

// seen matches the line that leads to the runbook. A script that is about it matches stderr.
var seen = regexp.MustCompile(`See: https://\S+/docs/runbook\.md#[a-z0-9-]+\n$`)

// checkHint requires that a hint which begins with a command names an existing one, with existing flags.
func checkHint(ts *testscript.TestScript, hint string) {
	text, isCommand := strings.CutPrefix(hint, "hookonce ")
	if !isCommand {
		return
	}
	text, _, _ = strings.Cut(text, ";")
	text, _, _ = strings.Cut(text, ", ")
	cmd, rest, err := cli.Root().Find(strings.Fields(text))
	if err != nil {
		ts.Fatalf("the hint is no command: %v", err)
	}
	cmd.InitDefaultHelpFlag()
	for _, arg := range rest {
		name, isFlag := strings.CutPrefix(arg, "--")
		name, _, _ = strings.Cut(name, "=")
		if isFlag && name != "" && cmd.Flags().Lookup(name) == nil {
			ts.Fatalf("the hint has an unknown flag: %s", arg)
		}
	}
	if cmd.HasSubCommands() && !slices.Contains(rest, "--help") {
		ts.Fatalf("the hint names no command: %s", hint)
	}
}

func bare(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: bare FILE NEW")
	}
	text := strings.TrimSuffix(ts.ReadFile(args[0]), "\n")
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o600))
}

func certificate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: certificate NAME...")
	}
	public, private, err := ed25519.GenerateKey(nil)
	ts.Check(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: args, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	ts.Check(err)
	key, err := x509.MarshalPKCS8PrivateKey(private)
	ts.Check(err)
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: key},
	} {
		ts.Check(os.WriteFile(ts.MkAbs(name), pem.EncodeToMemory(block), 0o600))
	}
}

func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: capture NAME REGEXP")
	}
	found := regexp.MustCompile("(?m)" + args[1]).FindStringSubmatch(ts.ReadFile("stdout") + ts.ReadFile("stderr"))
	if len(found) != 2 {
		ts.Fatalf("the output does not match %s", args[1])
	}
	ts.Setenv(args[0], found[1])
}

func runSQL(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: sql DATABASE STATEMENT")
	}
	statements := args[1]
	if file, ok := strings.CutPrefix(statements, "@"); ok {
		statements = ts.ReadFile(file)
	}
	if isPostgres(args[0]) {
		conn, err := pgx.Connect(context.Background(), args[0])
		ts.Check(err)
		defer conn.Close(context.Background())
		_, err = conn.PgConn().Exec(context.Background(), statements).ReadAll()
		ts.Check(err)
		return
	}
	db, err := sql.Open("sqlite", sqliteFile(ts, args[0])+"?_pragma=busy_timeout(20000)") // a gateway may write
	ts.Check(err)
	defer db.Close()
	_, err = db.Exec(statements)
	ts.Check(err)
}

package behind_test

import (
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	_ "modernc.org/sqlite"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/hooktest"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/examplestest"
	"github.com/hookonce/hookonce/internal/test/group"
	"github.com/hookonce/hookonce/internal/test/program"
	"github.com/hookonce/hookonce/provider"
)

//go:embed schema.sql
var schema string

// secret is made as hookonce init makes one.
const secret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"

func TestMain(m *testing.M) {
	group.Only("examples")
	dbtest.Main(m)
}

func TestGroup(t *testing.T) { group.Need(t, "examples") }

func needs(t *testing.T, check []string, packages ...string) {
	t.Helper()
	dbtest.Need(t, "examples", func() error {
		out, err := exec.Command(check[0], check[1:]...).CombinedOutput()
		if err != nil {
			return errors.New(strings.Join(check, " ") + ": " + err.Error() + "\n" + string(out))
		}
		return nil
	}, packages...)
}

func here(t *testing.T, path ...string) string {
	t.Helper()
	abs, err := filepath.Abs(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

// applications prepare a program each, and return its command.
var applications = map[string]func(t *testing.T, port string) []string{
	"go": func(t *testing.T, _ string) []string {
		binary := filepath.Join(t.TempDir(), "app")
		build := exec.Command("go", "build", "-o", binary, ".")
		build.Dir = "go"
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return []string{binary}
	},
	"express": func(t *testing.T, _ string) []string {
		needs(t, []string{"npm", "--version"}, "nodejs", "npm")
		folder := t.TempDir() // so that the checkout does not change
		if err := os.CopyFS(folder, os.DirFS("express")); err != nil {
			t.Fatal(err)
		}
		install := exec.Command("npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
		install.Dir = folder
		if out, err := install.CombinedOutput(); err != nil {
			t.Fatalf("npm ci: %v\n%s", err, out)
		}
		return []string{"node", filepath.Join(folder, "app.mjs")}
	},
	"fastapi": func(t *testing.T, port string) []string {
		const python = "/usr/bin/python3" // Debian's packages work only with Debian's own interpreter
		needs(t, []string{python, "-c", "import fastapi, uvicorn"}, "python3-fastapi", "python3-uvicorn")
		return []string{python, "-B", "-m", "uvicorn", "app:app", "--app-dir", here(t, "fastapi"), "--port", port}
	},
	"php": func(t *testing.T, port string) []string {
		needs(t, []string{"php", "-r", "exit(extension_loaded('pdo_sqlite') ? 0 : 1);"}, "php-cli", "php-sqlite3")
		return []string{"php", "-S", "127.0.0.1:" + port, here(t, "php", "app.php")}
	},
}

// held makes the work of an application never end while a row of hold says so. A view may recurse, a trigger may not.
const held = `CREATE TABLE hold (on_work BOOLEAN);
	INSERT INTO hold VALUES (false);
	CREATE VIEW forever AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n;
	CREATE TRIGGER hold_work BEFORE INSERT ON work WHEN (SELECT on_work FROM hold) BEGIN SELECT count(*) FROM forever; END`

// An application that is killed in the middle of its work, and gets each request many times, does the work
// of each once. It passes the five-minute test.
func TestApplications(t *testing.T) {
	for name, prepare := range applications {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := dbtest.FreeAddress(t)
			port := address[strings.LastIndex(address, ":")+1:]
			command := prepare(t, port)
			file := filepath.Join(t.TempDir(), "app.db")
			db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(20000)")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			p := examplestest.Start(t, []string{"PORT=" + port, "DATABASE=" + file, "APP_SECRET=" + secret}, command...)
			t.Cleanup(func() { p.Kill(t) }) // the examples do not drain: a kill does no harm
			all := requests(t, p)
			first := examplestest.Storm{Requests: all[:1], Copies: 2} // makes the tables
			first.Run(t, p)
			examplestest.Exec(t, db, held)
			storm(t, p, all, db, file)
			got := examplestest.Counts(t, db, "SELECT webhook_id, count(*) FROM work GROUP BY 1")
			want := map[string]int{}
			for _, r := range all {
				want[r.Header.Get("webhook-id")] = 1
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("work (-want +got):\n%s", diff)
			}

			needs(t, []string{"sqlite3", "--version"}, "sqlite3")
			probe(t, p, file)
		})
	}
}

// probe runs the command of docs/behind.md against an application.
func probe(t *testing.T, p *examplestest.Program, database string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/behind.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```sh\n(.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("docs/behind.md has no command")
	}
	command := strings.NewReplacer("http://127.0.0.1:3000", p.URL(), " app.db ", " "+database+" ").Replace(string(block[1]))
	// The machine may be busy.
	script := "hookonce() { '" + program.Hookonce(t) + "' \"$@\" --timeout 60s --wait 60s; }\n" + command
	cmd := exec.Command("bash", "-c", script)
	cmd.Env = append(os.Environ(), "NO_COLOR=1", "APP_SECRET="+secret)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", command, err, out)
	}
}

// Each application is short: lines with code, without imports and brackets that stand alone.
func TestApplicationsAreShort(t *testing.T) {
	t.Parallel()
	bracket := regexp.MustCompile(`^\W*$`)
	for _, name := range []string{"go/main.go", "express/app.mjs", "fastapi/app.py", "php/app.php"} {
		text, err := os.ReadFile(filepath.FromSlash(name))
		if err != nil {
			t.Fatal(err)
		}
		lines := 0
		for line := range strings.Lines(imports.ReplaceAllString(string(text), "")) {
			if line = strings.TrimSpace(line); !bracket.MatchString(line) && !strings.HasPrefix(line, "//") && !strings.HasPrefix(line, "package ") {
				lines++
			}
		}
		if lines >= 30 || lines < 15 {
			t.Errorf("%s has %d lines of code, want less than 30", name, lines)
		}
	}
}

var imports = regexp.MustCompile(`(?ms)^import \(.*?^\)|^(import|from) [^\n]*|^"""[^\n]*`)

func requests(t *testing.T, p *examplestest.Program) (all []*http.Request) {
	t.Helper()
	for i := range 20 {
		id := fmt.Sprint("msg_", i)
		r := hooktest.NewRequest(t, hookonce.Source{Name: "app", Provider: provider.StandardWebhooks, Secrets: hookonce.StaticSecrets(secret)},
			`{"n": 1}`, hooktest.WithEventID(id), hooktest.WithServer(p.URL()))
		r.URL.Path = "/hooks"
		all = append(all, r)
	}
	return all
}

// storm delivers requests several times each, and kills the program three times in the middle of its work.
func storm(t *testing.T, p *examplestest.Program, all []*http.Request, db *sql.DB, file string) {
	t.Helper()
	storm := examplestest.Storm{Requests: all, Copies: 3}
	done := make(chan struct{})
	examplestest.Exec(t, db, "UPDATE hold SET on_work = true") // until the last kill: then there is work for each of them
	go func() {
		defer close(done)
		storm.Run(t, p)
	}()
	for kill := range 3 {
		busy := 0
		eventually.True(t, "the program is in the middle of its work", func() bool {
			if locked(t, file) {
				busy++
			} else {
				busy = 0
			}
			return busy == 20 // a transaction without work ends sooner
		})
		p.Kill(t)
		// SQLite removes this file when a transaction ends.
		if _, err := os.Stat(file + "-journal"); err != nil {
			t.Errorf("no kill interrupted a transaction: %v", err)
		}
		if kill == 2 {
			examplestest.Exec(t, db, "UPDATE hold SET on_work = false")
		}
		p.Crash(t)
	}
	<-done
}

// locked reports whether a transaction of another process writes.
func locked(t *testing.T, file string) bool {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		return strings.Contains(err.Error(), "database is locked")
	}
	return tx.Rollback() != nil
}

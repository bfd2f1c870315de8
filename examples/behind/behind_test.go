package behind_test

import (
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/hooktest"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/examplestest"
	"github.com/hookonce/hookonce/internal/test/group"
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
		needs(t, []string{python, "-c", "import fastapi, psycopg2, uvicorn"}, "python3-fastapi", "python3-psycopg2", "python3-uvicorn")
		return []string{python, "-B", "-m", "uvicorn", "app:app", "--app-dir", here(t, "fastapi"), "--port", port}
	},
	"php": func(t *testing.T, port string) []string {
		needs(t, []string{"php", "-r", "exit(extension_loaded('pdo_pgsql') ? 0 : 1);"}, "php-cli", "php-pgsql")
		return []string{"php", "-S", "127.0.0.1:" + port, here(t, "php", "app.php")}
	},
}

// An application that is killed in the middle of its work, and gets each request many times, does the work
// of each once. It passes the five-minute test.
func TestApplications(t *testing.T) {
	for name, prepare := range applications {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := dbtest.FreeAddress(t)
			port := address[strings.LastIndex(address, ":")+1:]
			command := prepare(t, port)
			databaseURL, pool, db := examplestest.Postgres(t)
			// A rollback does not reset a sequence, so it counts the work that was begun. The work waits while
			// the test holds the lock.
			examplestest.Exec(t, db, schema+`
				CREATE SEQUENCE begun;
				CREATE FUNCTION begin_work() RETURNS trigger LANGUAGE plpgsql AS $$
					BEGIN PERFORM nextval('begun'), pg_advisory_xact_lock_shared(1); RETURN NEW; END
				$$;
				CREATE TRIGGER begin_work BEFORE INSERT ON work FOR EACH ROW EXECUTE FUNCTION begin_work()`)
			server := pool.Config().ConnConfig
			p := examplestest.Start(t, []string{
				"PORT=" + port, "DATABASE_URL=" + databaseURL, "APP_SECRET=" + secret,
				fmt.Sprintf("PDO_DSN=pgsql:host=%s;port=%d;dbname=%s;user=%s;password=%s",
					server.Host, server.Port, server.Database, server.User, server.Password),
			}, command...)
			t.Cleanup(func() { p.Kill(t) }) // the examples do not drain: a kill does no harm
			storm(t, p, pool)
			got := examplestest.Counts(t, db, "SELECT webhook_id, count(*) FROM work GROUP BY 1")
			want := map[string]int{}
			for _, r := range requests(t, p) {
				want[r.Header.Get("webhook-id")] = 1
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("work (-want +got):\n%s", diff)
			}
			begun := examplestest.Counts(t, db, "SELECT 'begun', last_value FROM begun")["begun"]
			if begun <= len(want) {
				t.Errorf("no kill interrupted the work: begun %d times for %d events", begun, len(want))
			}

			needs(t, []string{"psql", "--version"}, "postgresql-client")
			examplestest.Probe(t, p, "/hooks", "--provider", string(provider.StandardWebhooks), "--secret", secret,
				"--effects", "psql -Atc \"SELECT count(*) FROM work WHERE webhook_id = '{id}'\" '"+databaseURL+"'")
		})
	}
}

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
func storm(t *testing.T, p *examplestest.Program, pool *pgxpool.Pool) {
	t.Helper()
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	storm := examplestest.Storm{Requests: requests(t, p), Copies: 3}
	done := make(chan struct{})
	for kill := range 3 {
		if _, err := conn.Exec(t.Context(), "SELECT pg_advisory_lock(1)"); err != nil {
			t.Fatal(err)
		}
		if kill == 0 {
			go func() {
				defer close(done)
				storm.Run(t, p)
			}()
		}
		eventually.True(t, "the program is in the middle of its work", func() bool {
			var waiting bool
			err := conn.QueryRow(t.Context(), "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"+
				" AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))").Scan(&waiting)
			return err == nil && waiting
		})
		p.Kill(t)
		if _, err := conn.Exec(t.Context(), "SELECT pg_advisory_unlock(1)"); err != nil {
			t.Fatal(err)
		}
		p.Crash(t)
	}
	<-done
}

package bench

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/group"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

var (
	namesOnSQLite   = []string{"fsync", "receive", "forward", "take"}
	namesOnPostgres = []string{"round trip", "commit", "receive", "forward", "take"}
)

// database is a kind of database to measure.
type database struct {
	url   string
	names []string                    // of the figures
	left  func(t *testing.T) []string // what Run left there
}

// databases returns one of each kind.
func databases(t *testing.T) map[string]database {
	t.Helper()
	folder := t.TempDir()
	url := dbtest.StartServer(t, nil).DSN()
	return map[string]database{
		"SQLite": {"sqlite:" + filepath.Join(folder, "mine.db"), namesOnSQLite, func(t *testing.T) (left []string) {
			t.Helper()
			entries, err := os.ReadDir(folder)
			if err != nil {
				t.Fatal(err)
			}
			for _, entry := range entries {
				left = append(left, entry.Name())
			}
			return left
		}},
		"PostgreSQL": {url, namesOnPostgres, func(t *testing.T) []string {
			t.Helper()
			conn, err := pgx.Connect(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(t.Context())
			rows, err := conn.Query(t.Context(), "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'hookonce%'")
			if err != nil {
				t.Fatal(err)
			}
			left, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				t.Fatal(err)
			}
			return left
		}},
	}
}

// Each figure is measured and has a bound. Interrupted in any measurement, Run ends at once. Nothing is left behind.
func TestRun(t *testing.T) {
	t.Parallel()
	for name, db := range databases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := db.run(t, "")
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for i := range r.Figures {
				f := &r.Figures[i]
				names = append(names, f.Name)
				if f.PerSecond <= 0 || f.Unit == "" || f.Bound == "" || f.P99 < f.Median {
					t.Errorf("a figure is %+v", f)
				}
			}
			if !slices.Equal(names, db.names) {
				t.Errorf("measured %v", names)
			}
			for _, last := range db.names {
				if last == "take" && !group.Long() {
					continue // it ends as forward does
				}
				if _, err := db.run(t, last); !errors.Is(err, context.Canceled) {
					t.Errorf("interrupted in %s, the error is %v", last, err)
				}
			}
		})
	}
}

// run measures for the shortest time, until the measurement last begins.
func (db *database) run(t *testing.T, last string) (*Report, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var began []string
	r, err := Run(ctx, &Options{Database: db.url, Lasts: time.Second, Began: func(name string) {
		if began = append(began, name); name == last {
			cancel()
		}
	}})
	if !slices.Equal(began, db.names[:len(began)]) {
		t.Errorf("began %v, want the first of %v", began, db.names)
	}
	if left := db.left(t); len(left) > 0 {
		t.Errorf("after %v, left behind: %v", began, left)
	}
	return r, err
}

// A folder or a server that is not there is an error.
func TestRunWithoutADatabase(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"sqlite:" + filepath.Join(t.TempDir(), "none", "x.db"), "postgres://u@127.0.0.1:1/x?connect_timeout=2"} {
		if _, err := Run(t.Context(), &Options{Database: url, Lasts: time.Second}); err == nil {
			t.Errorf("%s is measured", url)
		}
	}
}

// Processors bound a figure when they are busy, commits when most of the time goes into them.
func TestBounds(t *testing.T) {
	t.Parallel()
	sqlite, postgres := &meter{sqlite: true}, new(meter)
	claims := func(took time.Duration) *commits { return &commits{n: 100, events: 800, took: took} }
	busy, idle := usage{0.97, 0.95}, usage{0.4, 0.4}
	for _, tt := range []struct{ got, want string }{
		{sqlite.boundOfClaims(busy, claims(time.Second), time.Second), "CPU 97 % of " + say.Count(runtime.GOMAXPROCS(0), "core")},
		{sqlite.boundOfClaims(idle, claims(900*time.Millisecond), time.Second), "fsync: 100 commits/s of 8 events"},
		{postgres.boundOfClaims(idle, claims(900*time.Millisecond), time.Second), "round trips: 9 ms for a commit of 8 events"},
		{sqlite.boundOfClaims(idle, claims(100*time.Millisecond), time.Second), "latency of one commit; CPU 40 % of " + say.Count(runtime.GOMAXPROCS(0), "core")},
		{sqlite.boundOfWork(idle), "fsync; CPU 40 % of " + say.Count(runtime.GOMAXPROCS(0), "core")},
		{postgres.boundOfWork(idle), "round trips; CPU 40 % of " + say.Count(runtime.GOMAXPROCS(0), "core")},
		{postgres.boundOfWork(usage{1, 0.3}), "CPU 100 % of " + say.Count(runtime.GOMAXPROCS(0), "core") + ", 30 % by this process"},
		{postgres.boundOfWork(usage{1.2, 1.2}), "CPU 100 % of " + say.Count(runtime.GOMAXPROCS(0), "core")},
	} {
		if tt.got != tt.want {
			t.Errorf("bound by %q, want %q", tt.got, tt.want)
		}
	}
}

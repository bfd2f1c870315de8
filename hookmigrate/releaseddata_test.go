package hookmigrate_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/provider"
)

// opened is a store whose handlers get a *sql.Tx.
type opened interface {
	driver.Driver[*sql.Tx]
	driver.Migrator
	Close() error
}

// dumps are the two databases: how a dump is made, and restored.
var dumps = []struct {
	folder, extension string
	empty             func(t *testing.T) (address string)
	open              func(address string) (opened, error)
	dump              func(t *testing.T, address, file string)
	restore           func(t *testing.T, file, address string)
}{
	{
		"sqlite", ".db",
		func(t *testing.T) string { t.Helper(); return filepath.Join(t.TempDir(), "hookonce.db") },
		func(address string) (opened, error) { return hooksql.OpenSQLite("sqlite", address) },
		func(t *testing.T, address, file string) {
			t.Helper()
			run(t, "sqlite", address, "VACUUM INTO '"+file+"'")
		},
		func(t *testing.T, file, address string) { t.Helper(); put(t, address, read(t, file)) },
	},
	{
		"postgres", ".sql",
		func(t *testing.T) string { t.Helper(); dsn, schema := dbtest.Postgres(t); return schema + " " + dsn },
		func(address string) (opened, error) {
			schema, dsn, _ := strings.Cut(address, " ")
			db, err := sql.Open("pgx", dsn)
			if err != nil {
				return nil, err
			}
			store, err := hooksql.NewPostgresWithOptions(db, &hooksql.PostgresOptions{Schema: schema})
			return &withPool{store, db}, err
		},
		func(t *testing.T, address, file string) {
			t.Helper()
			schema, dsn, _ := strings.Cut(address, " ")
			program := filepath.Join(dbtest.Programs(t), "pg_dump")
			if _, err := os.Stat(program); errors.Is(err, fs.ErrNotExist) {
				if *freeze {
					t.Fatal("pg_dump is not installed, so no database of PostgreSQL is kept")
				}
				t.Skip("pg_dump is not installed")
			}
			text, err := exec.CommandContext(t.Context(), program, "--inserts", "--no-owner", "--schema="+schema, dsn).Output()
			if err != nil {
				t.Fatal(err)
			}
			text = regexp.MustCompile(`(?m)^\\.*\n`).ReplaceAll(text, nil) // commands for psql
			put(t, file, strings.ReplaceAll(string(text), schema, "{schema}"))
		},
		func(t *testing.T, file, address string) {
			t.Helper()
			schema, dsn, _ := strings.Cut(address, " ")
			conn, err := pgx.Connect(t.Context(), dsn)
			if err == nil {
				_, err = conn.Exec(t.Context(), strings.ReplaceAll(read(t, file), "{schema}", schema))
				err = errors.Join(err, conn.Close(context.WithoutCancel(t.Context())))
			}
			if err != nil {
				t.Fatal(err)
			}
		},
	},
}

// withPool closes the pool with the store.
type withPool struct {
	*hooksql.PostgresStore
	db *sql.DB
}

func (s *withPool) Close() error { return errors.Join(s.PostgresStore.Close(), s.db.Close()) }

func run(t *testing.T, driverName, address, statement string) {
	t.Helper()
	db, err := sql.Open(driverName, address)
	if err == nil {
		_, err = db.ExecContext(t.Context(), statement)
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestReleasedData restores the databases of all releases, and goes on with this build: claimed events are duplicates, open
// ones are done, and dead ones replay. While no release has the newest step, the test fills a database of this build;
// -freeze keeps it.
func TestReleasedData(t *testing.T) {
	t.Parallel()
	for _, d := range dumps {
		t.Run(d.folder, func(t *testing.T) {
			t.Parallel()
			files, err := filepath.Glob("testdata/released/" + d.folder + "/*")
			if err != nil {
				t.Fatal(err)
			}
			newest := ""
			for _, step := range steps(t) {
				if path.Dir(step) == d.folder {
					newest = strings.TrimSuffix(path.Base(step), ".sql") + d.extension
				}
			}
			kept := filepath.Join("testdata/released", d.folder, newest)
			if !slices.Contains(files, kept) {
				made := filepath.Join(t.TempDir(), newest)
				address := d.empty(t)
				fill(t, func() (opened, error) { return d.open(address) })
				d.dump(t, address, made)
				if *freeze {
					put(t, kept, read(t, made))
				}
				files = append(files, made)
			}
			for _, file := range files {
				t.Run(filepath.Base(file), func(t *testing.T) {
					address := d.empty(t)
					d.restore(t, file, address)
					goOn(t, func() (opened, error) { return d.open(address) })
				})
			}
		})
	}
}

// world is a program on a database, with the events and messages that it has worked on.
type world struct {
	*hookonce.Inbox[*sql.Tx]
	store opened

	mu     sync.Mutex
	worked map[string]int // by the id of an event, or of its message after "message of "
}

func (w *world) count(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.worked[name]++
}

// newWorld opens a database. Handlers and destinations fail for good if broken.
func newWorld(t *testing.T, open func() (opened, error), broken bool) *world {
	t.Helper()
	store, err := open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if _, err := hookmigrate.Up(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	w := &world{store: store, worked: map[string]int{}}
	mux, outbox := &hookonce.Mux[*sql.Tx]{}, hookonce.NewOutbox(store)
	hookonce.Handle(mux, "shop", "*", func(ctx context.Context, tx *sql.Tx, ev *hookonce.Event) error {
		if broken && ev.Type == "dead" {
			return hookonce.Permanent(errors.New("broken"))
		}
		w.count(ev.ID)
		if ev.Type == "sends" {
			return outbox.EnqueueTx(ctx, tx, &hookonce.Message{Destination: "crm", Body: []byte(ev.ID)})
		}
		return nil
	})
	w.Inbox, err = hookonce.New(store, mux, &hookonce.Config{
		Sources: []hookonce.Source{
			{Name: "shop", Provider: provider.None, Event: provider.EventRules{ID: "body:id", Type: "body:type"}, Redelivery: hookonce.RedeliveryAck},
			{Name: "routed", Provider: provider.None, Event: provider.EventRules{ID: "body:id", Type: "body:type"}, Redelivery: hookonce.RedeliveryAck},
		},
		Routes: []hookonce.Route{{Name: "crm", Sources: []string{"routed"}, To: "crm"}},
		Destinations: []hookonce.Destination{{Name: "crm", Sender: hookonce.SenderFunc(func(_ context.Context, m *hookonce.Outgoing) error {
			if broken && strings.Contains(string(m.Body), "dead") {
				return hookonce.Permanent(errors.New("broken"))
			}
			w.count("message of " + string(m.Body))
			return nil
		})}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Drain)
	return w
}

// deliver delivers an event whose id begins with its type, and checks the answer.
func (w *world) deliver(t *testing.T, source, id, want string) {
	t.Helper()
	kind, _, _ := strings.Cut(id, "-")
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/webhooks/"+source, strings.NewReader(bodyOf(id, kind)))
	r.SetPathValue("source", source)
	answer := httptest.NewRecorder()
	w.ServeHTTP(answer, r)
	if !strings.Contains(answer.Body.String(), `"status":"`+want+`"`) {
		t.Errorf("%s of %s: answered %d %s, want %s", id, source, answer.Code, answer.Body, want)
	}
}

func bodyOf(id, kind string) string { return fmt.Sprintf(`{"id":%q,"type":%q}`, id, kind) }

// runUntil runs the program until each event has its state.
func (w *world) runUntil(t *testing.T, states map[string]string) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	for name, want := range states {
		source, id, _ := strings.Cut(name, " ")
		eventually.Succeeds(t, name+" is "+want, func() error {
			detail, err := w.store.Event(t.Context(), source, id)
			if err == nil && detail.State != want {
				err = errors.New(detail.State)
			}
			for i := 0; err == nil && i < len(detail.Messages); i++ { // that its handler has enqueued
				if state := detail.Messages[i].State; state == driver.StatePending || state == driver.StateSending {
					err = errors.New(state)
				}
			}
			return err
		})
	}
	stop()
	if err := eventually.Receive(t, "Run ends", ended); err != nil {
		t.Fatal(err)
	}
}

// fill leaves events that are done, dead and open.
func fill(t *testing.T, open func() (opened, error)) {
	t.Helper()
	w := newWorld(t, open, true)
	for name := range finished {
		source, id, _ := strings.Cut(name, " ")
		w.deliver(t, source, id, "ok")
	}
	w.runUntil(t, finished)
	for name := range pending {
		source, id, _ := strings.Cut(name, " ")
		w.deliver(t, source, id, "ok")
	}
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
}

// finished and pending are the events by source and id, with the states that fill and goOn leave.
var finished, pending = map[string]string{
	"shop done-1": driver.StateDone, "shop sends-1": driver.StateDone, "shop dead-1": driver.StateDead,
	"routed done-2": driver.StateDone, "routed dead-2": driver.StateDead,
}, map[string]string{
	"shop done-3": driver.StateDone, "shop sends-3": driver.StateDone, "routed done-4": driver.StateDone,
}

// goOn delivers all events again, works on the open ones, and replays the dead ones.
func goOn(t *testing.T, open func() (opened, error)) {
	t.Helper()
	w := newWorld(t, open, false)
	again := func() {
		for _, events := range []map[string]string{finished, pending} {
			for name := range events {
				source, id, _ := strings.Cut(name, " ")
				w.deliver(t, source, id, "duplicate")
			}
		}
	}
	again()
	if did, err := w.ReplayDead(t.Context(), &hookonce.DeadLetters{}); err != nil || did.Done != 2 {
		t.Errorf("ReplayDead: %+v and the error %v, want two letters replayed", did, err)
	}
	all := map[string]string{"shop dead-1": driver.StateDone, "routed dead-2": driver.StateDone}
	maps.Copy(all, pending)
	w.runUntil(t, all)
	again()
	want := map[string]int{
		"done-3": 1, "sends-3": 1, "message of sends-3": 1, "message of " + bodyOf("done-4", "done"): 1,
		"dead-1": 1, "message of " + bodyOf("dead-2", "dead"): 1,
	}
	if diff := cmp.Diff(want, w.worked); diff != "" {
		t.Errorf("the work of this build (-want +got):\n%s", diff)
	}
	if err := hookmigrate.Check(t.Context(), w.store); err != nil {
		t.Error(err)
	}
}

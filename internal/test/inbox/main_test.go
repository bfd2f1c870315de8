package inbox_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

func TestMain(m *testing.M) {
	dbtest.Parallel(8) // many wait
	dbtest.Main(m)
}

// library is the database of a user of the library, with a table of effects. The table has no
// unique constraint, so a second effect shows. Tests run on PostgreSQL if they need handlers side by
// side, or a fault of a server. All others run on SQLite, which costs less.
type library[T any] struct {
	db     driver.Driver[T]
	insert func(ctx context.Context, tx T, name string) error
	read   func(t *testing.T) []string                  // the effects, sorted
	exec   func(t *testing.T, text string, args ...any) // on hookonce's own tables; PostgreSQL only
	begin  func(t *testing.T) (tx T)                    // rolled back at the end of the test
}

// onPGX has a pool of ten on every machine. The default depends on the processors.
func onPGX(t testing.TB) *library[pgx.Tx] {
	dsn, schema := dbtest.Ready(t)
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.MaxConns = 10
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	db, err := hookpgx.NewWithOptions(pool, &hookpgx.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	name := pgx.Identifier{schema}.Sanitize()
	exec := func(t testing.TB, text string, args ...any) {
		if _, err := pool.Exec(t.Context(), strings.ReplaceAll(text, "{schema}", name), args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(t, "CREATE TABLE {schema}.effects (name text NOT NULL)")
	return &library[pgx.Tx]{
		db: db,
		insert: func(ctx context.Context, tx pgx.Tx, effect string) error {
			_, err := tx.Exec(ctx, "INSERT INTO "+name+".effects VALUES ($1)", effect)
			return err
		},
		read: func(t *testing.T) []string {
			rows, err := pool.Query(t.Context(), "SELECT name FROM "+name+".effects ORDER BY name COLLATE \"C\"")
			if err != nil {
				t.Fatal(err)
			}
			names, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				t.Fatal(err)
			}
			return names
		},
		exec: func(t *testing.T, text string, args ...any) { exec(t, text, args...) },
		begin: func(t *testing.T) pgx.Tx {
			tx, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { tx.Rollback(context.Background()) })
			if _, err := tx.Exec(t.Context(), "SET LOCAL search_path = "+name); err != nil {
				t.Fatal(err)
			}
			return tx
		},
	}
}

func onSQLite(t testing.TB) *library[*sql.Tx] {
	store := rig.OpenSQLite(t)
	if _, err := store.Writer().ExecContext(t.Context(), "CREATE TABLE effects (name TEXT NOT NULL)"); err != nil {
		t.Fatal(err)
	}
	return &library[*sql.Tx]{
		db: store,
		insert: func(ctx context.Context, tx *sql.Tx, name string) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO effects VALUES (?)", name)
			return err
		},
		read: func(t *testing.T) []string {
			rows, err := store.Reader().QueryContext(t.Context(), "SELECT name FROM effects ORDER BY name")
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			var names []string
			for rows.Next() {
				var name string
				if err := rows.Scan(&name); err != nil {
					t.Fatal(err)
				}
				names = append(names, name)
			}
			if err := rows.Err(); err != nil {
				t.Fatal(err)
			}
			return names
		},
		begin: func(t *testing.T) *sql.Tx {
			tx, err := store.Writer().BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { tx.Rollback() })
			return tx
		},
	}
}

// quickRetry allows three attempts, without a delay.
var quickRetry = hookonce.Retry{Attempts: 3, First: time.Microsecond, Max: time.Microsecond}

// inbox returns an Inbox for the source gh. It is not running.
func inbox[T any](t testing.TB, l *library[T], mux *hookonce.Mux[T], change func(*hookonce.Config)) *hookonce.Inbox[T] {
	t.Helper()
	cfg := &hookonce.Config{
		Sources: []hookonce.Source{{
			Name: "gh", Provider: provider.GitHub, Secrets: hookonce.StaticSecrets(secret), AckTimeout: 30 * time.Second,
		}},
		Retry: quickRetry,
		// The default for SQLite, a second, is too short for a busy machine.
		HandlerTimeout: 30 * time.Second,
		Logger:         slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(cfg)
	}
	in, err := hookonce.New(l.db, mux, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(in.Drain)
	return in
}

// deliverTo delivers an event to a source of the inbox. It must be new.
func deliverTo(t *testing.T, in http.Handler, source, id string) {
	t.Helper()
	// GitHub signs no id, so a claim waits for that of another delivery with the same body.
	if got := deliver(in, delivery(id, fmt.Sprintf(`{"id":%q}`, id), to(source))); got != ok {
		t.Fatalf("delivering %s to %s: %+v, want ok", id, source, got)
	}
}

// deliverAll delivers one new event for each id.
func deliverAll(t *testing.T, in http.Handler, ids ...string) {
	t.Helper()
	for _, id := range ids {
		deliverTo(t, in, "gh", id)
	}
}

// outcome holds the fields of an ended event that tests compare.
type outcome struct {
	State, Note string
	Attempts    int
	Generation  int
	LastError   string // the event's error contains it
}

// ended waits until an event is done, dead or skipped, and returns it.
func ended[T any](t *testing.T, l *library[T], id string) *driver.EventDetail {
	t.Helper()
	var ev *driver.EventDetail
	eventually.True(t, "event "+id+" has ended", func() bool {
		ev = eventState(t, l.db, id)
		return slices.Contains([]string{driver.StateDone, driver.StateDead, driver.StateSkipped}, ev.State)
	})
	return ev
}

// wantOutcome waits until an event has ended, and compares its outcome.
func wantOutcome[T any](t *testing.T, l *library[T], id string, want outcome) {
	t.Helper()
	ev := ended(t, l, id)
	got := outcome{ev.State, ev.Note, ev.Attempts, ev.Generation, ev.LastError}
	if want.LastError != "" && strings.Contains(got.LastError, want.LastError) {
		got.LastError = want.LastError
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("event %s (-want +got):\n%s", id, diff)
	}
}

var done = outcome{State: driver.StateDone, Attempts: 1}

// wantDone waits until events are done at their first attempt.
func wantDone[T any](t *testing.T, l *library[T], ids ...string) {
	t.Helper()
	for _, id := range ids {
		wantOutcome(t, l, id, done)
	}
}

// wantEffects compares all effects, in any order.
func wantEffects[T any](t *testing.T, l *library[T], want ...string) {
	t.Helper()
	slices.Sort(want)
	if diff := cmp.Diff(want, l.read(t), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}

// handling returns a Mux whose handler gets all events of gh.
func handling[T any](handle hookonce.HandlerFunc[T]) *hookonce.Mux[T] {
	mux := &hookonce.Mux[T]{}
	hookonce.Handle(mux, "gh", "*", handle)
	return mux
}

// effectOf returns a handler that inserts the event's id.
func effectOf[T any](l *library[T]) hookonce.HandlerFunc[T] {
	return func(ctx context.Context, tx T, ev *hookonce.Event) error { return l.insert(ctx, tx, ev.ID) }
}

// held is effectOf. For the event id it closes began, and waits for release.
func held[T any](l *library[T], id string) (handle hookonce.HandlerFunc[T], began, release chan struct{}) {
	began, release = make(chan struct{}), make(chan struct{})
	return func(ctx context.Context, tx T, ev *hookonce.Event) error {
		if ev.ID == id {
			close(began)
			<-release
		}
		return l.insert(ctx, tx, ev.ID)
	}, began, release
}

// sent is a Sender that records its messages.
type sent struct {
	mu  sync.Mutex
	all []*hookonce.Outgoing
	got chan struct{}
}

func newSent() *sent { return &sent{got: make(chan struct{}, 1000)} }

func (s *sent) Send(_ context.Context, m *hookonce.Outgoing) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, m)
	s.got <- struct{}{}
	return nil
}

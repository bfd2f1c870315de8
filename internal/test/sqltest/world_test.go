package sqltest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/internal/test/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// The SQLSTATEs that the functions raise.
const (
	notActive     = "25P01"
	stillActive   = "25001"
	invalid       = "22023"
	isNull        = "22004"
	noData        = "P0002"
	lockedRow     = "55P03"
	serialization = "40001"
	noRights      = "42501"
)

// world is a schema on the shared server, with a store on it.
type world struct {
	dsn    string
	pool   *pgxpool.Pool
	store  *hookpgx.Store
	schema string // quoted
}

// open returns a schema that belongs to this test alone, with another name than hookonce.
func open(t testing.TB) *world {
	t.Helper()
	dsn, schema := dbtest.Ready(t)
	return openSchema(t, dsn, schema)
}

// openNew is open with a new schema, without the statistics of other tests.
func openNew(t testing.TB) *world {
	t.Helper()
	dsn, schema := dbtest.Postgres(t)
	w := openSchema(t, dsn, schema)
	if _, err := hookmigrate.Up(t.Context(), w.store); err != nil {
		t.Fatal(err)
	}
	return w
}

func openSchema(t testing.TB, dsn, schema string) *world {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	store, err := hookpgx.NewWithOptions(pool, &hookpgx.Options{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return &world{dsn: dsn, pool: pool, store: store, schema: pgx.Identifier{schema}.Sanitize()}
}

// text replaces the schema hookonce in SQL with the test's schema.
func (w *world) text(sql string) string { return strings.ReplaceAll(sql, "hookonce.", w.schema+".") }

func (w *world) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	if _, err := w.pool.Exec(t.Context(), w.text(sql), args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// get returns the single value that a query selects.
func get[V any](t testing.TB, w *world, sql string, args ...any) (v V) {
	t.Helper()
	if err := w.pool.QueryRow(t.Context(), w.text(sql), args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// put claims events of a source, and makes them due in the given order, the last one a second ago.
func (w *world) put(t testing.TB, source string, ids ...string) {
	t.Helper()
	var claims []driver.Claim
	for _, id := range ids {
		claims = append(claims, newClaim(source, id, "body of "+id))
	}
	if err := claim(t.Context(), w.store, claims...); err != nil {
		t.Fatalf("claiming: %v", err)
	}
	for i, id := range ids {
		w.exec(t, "UPDATE hookonce.event_state SET due_at = now() - $2::int * interval '1 second' WHERE key = $1",
			key(source, id), len(ids)-i)
	}
}

func key(source string, parts ...string) []byte {
	k := driver.EventKey(source, parts...)
	return k[:]
}

// state is the state of an event as a consumer sees it.
type state struct {
	State      string
	Attempts   int
	Generation int
	LastError  string
	Processed  bool
	Failed     bool
}

func (w *world) stateOf(t testing.TB, source, id string) (s state) {
	t.Helper()
	err := w.pool.QueryRow(t.Context(), w.text(`SELECT state, attempts, generation, last_error, processed_at IS NOT NULL, failed_at IS NOT NULL
		FROM hookonce.events WHERE source = $1 AND event_id = $2`), source, id,
	).Scan(&s.State, &s.Attempts, &s.Generation, &s.LastError, &s.Processed, &s.Failed)
	if err != nil {
		t.Fatalf("event %q: %v", id, err)
	}
	return s
}

func (w *world) wantState(t testing.TB, id string, want state) {
	t.Helper()
	if diff := cmp.Diff(want, w.stateOf(t, "shop", id)); diff != "" {
		t.Errorf("event %q (-want +got):\n%s", id, diff)
	}
}

// session is a connection of its own, in or out of a transaction.
type session struct {
	*pgx.Conn
	w        *world
	warnings []string
}

func (w *world) connect(t testing.TB) *session {
	t.Helper()
	config, err := pgx.ParseConfig(w.dsn)
	if err != nil {
		t.Fatal(err)
	}
	// Nothing here should wait; a wait for a lock fails the test instead of hanging it.
	config.RuntimeParams["lock_timeout"] = "20s"
	s := &session{w: w}
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { s.warnings = append(s.warnings, n.Message) }
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) }) // the connection may be broken
	s.Conn = conn
	return s
}

func (s *session) run(t testing.TB, sql string, args ...any) {
	t.Helper()
	if _, err := s.Exec(t.Context(), s.w.text(sql), args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// fails runs a statement that must be refused, and returns the server's error.
func (s *session) fails(t testing.TB, code, sql string, args ...any) *pgconn.PgError {
	t.Helper()
	_, err := s.Exec(t.Context(), s.w.text(sql), args...)
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != code {
		t.Fatalf("%s: %v, want SQLSTATE %s", sql, err, code)
	}
	return refused
}

// take takes events of the source shop, and returns their ids.
func (s *session) take(t testing.TB, n int) []string {
	t.Helper()
	var ids []string
	for _, ev := range s.taken(t, "shop", n) {
		ids = append(ids, ev.EventID)
	}
	return ids
}

func (s *session) wantTake(t testing.TB, n int, want ...string) {
	t.Helper()
	if got := s.take(t, n); !slices.Equal(got, want) {
		t.Errorf("take(%d): got %q, want %q", n, got, want)
	}
}

// takenEvent is a row of take.
type takenEvent struct {
	Source         string
	EventID        string
	Type           string
	Generation     int
	Attempt        int
	IdempotencyKey string
	OccurredAt     *time.Time
	ReceivedAt     time.Time
	Headers        string
	Body           []byte
}

func (s *session) taken(t testing.TB, source string, n int) []takenEvent {
	t.Helper()
	rows, err := s.Query(t.Context(), s.w.text("SELECT * FROM hookonce.take($1, $2)"), source, n)
	if err != nil {
		t.Fatalf("take: %v", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[takenEvent])
	if err != nil {
		t.Fatalf("take: %v", err)
	}
	return all
}

// fail calls the function fail for an event and returns its result. rest holds more arguments, as
// SQL.
func (w *world) fail(t testing.TB, id, rest string) string {
	t.Helper()
	return get[string](t, w, "SELECT hookonce.fail('shop', $1"+rest+")", id)
}

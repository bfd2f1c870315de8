package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// onSmallDisk returns a store in a file that SQLite treats as full at 400 pages, and a function that opens the file again.
func onSmallDisk(t *testing.T) (*hooksql.Store, func() *sql.DB) {
	t.Helper()
	writerDSN, readerDSN, err := hooksql.SQLiteDSN(filepath.Join(t.TempDir(), "hookonce.db"))
	if err != nil {
		t.Fatal(err)
	}
	open := func(dsn string) *sql.DB {
		db, err := sql.Open("sqlite", dsn)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		db.SetMaxOpenConns(1)
		return db
	}
	writerDSN += "&_pragma=max_page_count(400)"
	store := hooksql.NewSQLite(open(writerDSN), open(readerDSN))
	t.Cleanup(func() { store.Close() })
	if _, err := hookmigrate.Up(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	return store, func() *sql.DB { return open(writerDSN) }
}

func TestReadyOnAFullDisk(t *testing.T) {
	t.Parallel()
	store, open := onSmallDisk(t)
	in := newEngine(t, store, nil)
	large := `{"a":"` + strings.Repeat("x", 20_000) + `"}`
	for i, failed := 0, 0; failed < 5; i++ {
		if err := in.Ready(t.Context()); err != nil {
			t.Fatalf("not ready after %d failed claims: %v", failed, err)
		}
		switch got := deliver(in, delivery(fmt.Sprint(i), large)); {
		case got.Code == http.StatusServiceUnavailable:
			failed++
		case got.Code != http.StatusOK || failed > 0 || i == 1000:
			t.Fatalf("delivery %d is answered %d after %d failures", i, got.Code, failed)
		}
	}
	if err := in.Ready(t.Context()); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("Ready: got the error %v, want %v", err, driver.ErrUnavailable)
	}
	// Without a delivery, as behind a load balancer.
	if _, err := open().ExecContext(t.Context(), `DELETE FROM hookonce_event; DELETE FROM hookonce_body_seen`); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the engine is ready", func() bool { return in.Ready(t.Context()) == nil })
	if got := deliver(in, delivery("after", large)); got.Code != http.StatusOK {
		t.Errorf("a delivery is answered %d, want 200", got.Code)
	}
}

// probeCounter counts the tests of a claim, and fails them while told to.
type probeCounter struct {
	driver.Store
	probes atomic.Int64
	broken atomic.Bool
	server atomic.Value // its Server; nil: that of the store
	lacks  atomic.Bool
}

func (s *probeCounter) Server(ctx context.Context) (string, error) {
	if server, ok := s.server.Load().(string); ok {
		return server, nil
	}
	return s.Store.Server(ctx)
}

func (s *probeCounter) Prove(ctx context.Context) ([]string, error) {
	s.probes.Add(1)
	if s.broken.Load() {
		return nil, driver.ErrUnavailable
	}
	if s.lacks.Load() {
		return nil, &driver.ServerError{Found: "it lacks SKIP LOCKED"}
	}
	return s.Store.Prove(ctx)
}

func (s *probeCounter) Claim(ctx context.Context, p *driver.ClaimParams) ([]driver.ClaimResult, error) {
	if s.broken.Load() {
		return nil, driver.ErrUnavailable
	}
	return s.Store.Claim(ctx, p)
}

// Only failures in a row count, and a success ends it. Faults of single events do not count.
func TestReadyAfterFailedClaims(t *testing.T) {
	t.Parallel()
	store := &probeCounter{Store: &rig.FaultStore{Store: rig.OpenSQLite(t), Before: rig.FailFor(driver.ErrBadRow, "bad")}}
	in := newEngine(t, store, nil)
	fail := func(n int, id string) {
		t.Helper()
		for range n {
			if got := deliver(in, delivery(id, "{}")); got.Code != http.StatusServiceUnavailable {
				t.Fatalf("answered %d, want 503", got.Code)
			}
		}
	}
	ready := func(after string) {
		t.Helper()
		if err := in.Ready(t.Context()); err != nil {
			t.Errorf("not ready after %s: %v", after, err)
		}
	}
	succeed := func(id string) {
		t.Helper()
		if got := deliver(in, delivery(id, "{}")); got.Code != http.StatusOK {
			t.Fatalf("answered %d, want 200", got.Code)
		}
		ready("a claim that succeeded")
	}
	fail(9, "bad")
	ready("refused events")
	for i := range 3 {
		store.broken.Store(true)
		fail(4, "fails")
		store.broken.Store(false)
		succeed(fmt.Sprint(i))
	}
	if n := store.probes.Load(); n != 1 {
		t.Errorf("%d tests of the database, want one, at first", n)
	}
	store.broken.Store(true)
	fail(9, "fails")
	if in.Ready(t.Context()) == nil {
		t.Error("ready after 9 failed claims")
	}
	store.broken.Store(false)
	succeed("last")
}

// TestReadyWhileEveryRowIsRefused has a trigger of the database's owner that refuses all events.
func TestReadyWhileEveryRowIsRefused(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	in := newEngine(t, store, nil)
	if err := in.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	execute := func(sql string) {
		t.Helper()
		if _, err := store.Writer().ExecContext(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	execute("CREATE TRIGGER refuse BEFORE INSERT ON hookonce_event BEGIN SELECT RAISE(ABORT, 'not any'); END")
	for range 5 {
		if got := deliver(in, delivery("e", "{}")); got.Code != http.StatusServiceUnavailable {
			t.Fatalf("answered %d, want 503", got.Code)
		}
	}
	eventually.True(t, "the engine is not ready", func() bool { return errors.Is(in.Ready(t.Context()), driver.ErrBadRow) })
	if since, _ := in.Operator().Outage(); since.IsZero() {
		t.Error("no outage is shown")
	}
	execute("DROP TRIGGER refuse")
	eventually.True(t, "the engine is ready", func() bool { return in.Ready(t.Context()) == nil })
	if since, _ := in.Operator().Outage(); !since.IsZero() {
		t.Error("the outage is still shown")
	}
}

// A new engine on a full disk is never ready: a rollout would replace every one that still works.
func TestReadyNeedsAClaim(t *testing.T) {
	t.Parallel()
	store, _ := onSmallDisk(t)
	if err := newEngine(t, store, nil).Ready(t.Context()); err != nil {
		t.Errorf("with room: %v", err)
	}
	for i := 0; ; i++ {
		c := driver.Claim{Key: driver.EventKey("a", fmt.Sprint(i)), Source: "a", EventID: fmt.Sprint(i), Headers: []byte("{}"), Body: make([]byte, 20_000)}
		if _, err := store.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{c}}); err != nil {
			break
		}
	}
	if err := newEngine(t, store, nil).Ready(t.Context()); !errors.Is(err, driver.ErrFull) {
		t.Errorf("with a full disk: got the error %v, want %v", err, driver.ErrFull)
	}
}

// Each server proves itself once. One that lacks something gets no deliveries, and Run does not start on it.
func TestServerProvesItself(t *testing.T) {
	t.Parallel()
	store := &probeCounter{Store: rig.OpenSQLite(t)}
	store.server.Store("first")
	in := newEngine(t, store, nil)
	for range 3 {
		if err := in.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := store.probes.Load(); n != 1 {
		t.Errorf("the first server was tested %d times, want once", n)
	}
	store.lacks.Store(true)
	store.server.Store("second")
	var lack *driver.ServerError
	eventually.True(t, "the second server is refused", func() bool { return errors.As(in.Ready(t.Context()), &lack) })
	if got := deliver(in, delivery("one", "{}")); got.Code != http.StatusServiceUnavailable {
		t.Errorf("a delivery is answered %d, want 503", got.Code)
	}
	if err := newEngine(t, store, nil).Run(t.Context()); !errors.As(err, &lack) {
		t.Errorf("Run: got the error %v, want the lack", err)
	}
	// The first server again, which has proved itself before.
	store.lacks.Store(false)
	store.server.Store("first")
	eventually.True(t, "the server is ready", func() bool { return in.Ready(t.Context()) == nil })
	if got := deliver(in, delivery("one", "{}")); got.Code != http.StatusOK {
		t.Errorf("a delivery is answered %d, want 200", got.Code)
	}
}

// hangingStore holds the tests of a claim until release is closed.
type hangingStore struct {
	probeCounter
	probing, release chan struct{}
}

func (s *hangingStore) Prove(ctx context.Context) ([]string, error) {
	s.probes.Add(1)
	s.probing <- struct{}{}
	select {
	case <-s.release:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A caller of Ready gives up while the database is asked. That is no answer for the other callers.
func TestReadyForAnImpatientCaller(t *testing.T) {
	t.Parallel()
	store := &hangingStore{probing: make(chan struct{}, 2), release: make(chan struct{})}
	store.Store = rig.OpenSQLite(t)
	in := newEngine(t, store, nil)
	store.broken.Store(true)
	for i := range 5 {
		deliver(in, delivery(fmt.Sprint("fails ", i), "{}"))
	}
	ready := func(ctx context.Context) <-chan error {
		result := make(chan error, 1)
		go func() { result <- in.Ready(ctx) }()
		return result
	}
	gone := errors.New("the prober hung up")
	ctx, hangUp := context.WithCancelCause(t.Context())
	impatient := ready(ctx)
	<-store.probing
	patient := ready(t.Context())
	hangUp(gone)
	if err := <-impatient; !errors.Is(err, gone) {
		t.Errorf("Ready of the caller that gave up: got the error %v, want %v", err, gone)
	}
	close(store.release)
	if err := <-patient; err != nil {
		t.Errorf("Ready of another caller at that time: %v", err)
	}
	if err := in.Ready(t.Context()); err != nil {
		t.Errorf("Ready of a later caller: %v", err)
	}
}

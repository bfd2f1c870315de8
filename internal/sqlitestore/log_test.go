package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
)

// withLog returns a store with a pool of readers and a limit of max bytes for its log, and the path
// of the log.
func withLog(t *testing.T, max int64) (store *Store, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "hookonce.db")
	reader := openWith(t, "sqlite", path)
	reader.SetMaxOpenConns(4)
	store = New(openWith(t, "sqlite", path), reader, hookmigrate.SQLite())
	store.log.max = max
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	if _, err := store.Apply(t.Context()); err != nil {
		t.Fatal(err)
	}
	return store, path + "-wal"
}

// reading is a listing that goes on until end is closed.
type reading struct {
	began, end, ended chan struct{}
}

func startReading(t *testing.T, s *Store) *reading {
	r := &reading{began: make(chan struct{}), end: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		err := s.snapshot(t.Context(), "read", func(ctx context.Context, tx *sql.Tx) error {
			// The first statement begins the snapshot.
			var n int
			err := tx.QueryRowContext(ctx, `SELECT count(*) FROM hookonce_event`).Scan(&n)
			close(r.began)
			<-r.end
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}()
	return r
}

func (r *reading) stop() {
	close(r.end)
	<-r.ended
}

// isShut returns a channel that is closed when the gate is shut.
func (g *gate) isShut(ctx context.Context) <-chan struct{} {
	shut := make(chan struct{})
	go func() {
		for ctx.Err() == nil {
			g.mu.Lock()
			is := g.open != nil
			g.mu.Unlock()
			if is {
				close(shut)
				return
			}
			sleep(ctx, time.Millisecond)
		}
	}()
	return shut
}

// TestLogStaysSmallWhileReadersOverlap writes while there is always a reader, unless the store
// holds the next one back.
func TestLogStaysSmallWhileReadersOverlap(t *testing.T) {
	t.Parallel()
	const (
		rounds = 40
		body   = 200_000
		limit  = 1 << 20
		// The log exceeds the limit by one commit, and by the writes until the present reader has
		// ended: here one more.
		bound = limit + 3*body
	)
	for _, c := range []struct {
		name   string
		max    int64
		within bool
	}{
		{"cut", limit, true},
		{"not cut", math.MaxInt64, false}, // proves that the first case would grow
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			store, log := withLog(t, c.max)
			current := startReading(t, store)
			<-current.began
			var largest int64
			for i := range rounds {
				claimed := newClaim(fmt.Sprint("evt_", i))
				claimed.Body = []byte(strings.Repeat("x", body))
				if _, err := store.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{claimed}}); err != nil {
					t.Fatal(err)
				}
				info, err := os.Stat(log)
				if err != nil {
					t.Fatal(err)
				}
				largest = max(largest, info.Size())
				if info.Size() > c.max {
					<-store.readers.isShut(t.Context())
				}
				next := startReading(t, store)
				if info.Size() <= c.max {
					<-next.began // before the previous one ends
				}
				current.stop()
				<-next.began
				current = next
			}
			if b, err := store.Backlog(t.Context(), &driver.BacklogParams{}); err != nil || !c.within && b.LogBytes != largest {
				t.Errorf("Backlog: %+v and the error %v, want a log of %d bytes", b, err, largest)
			}
			current.stop()
			if within := largest <= bound; within != c.within {
				t.Errorf("the log grew to %d bytes; within the bound of %d: %v, want %v", largest, bound, within, c.within)
			}
			if got := countEvents(t, store); got != rounds {
				t.Errorf("there are %d events, want %d", got, rounds)
			}
		})
	}
}

func countEvents(t *testing.T, s *Store) (n int) {
	t.Helper()
	if err := s.reader.QueryRowContext(t.Context(), `SELECT count(*) FROM hookonce_event`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestCuttingGivesUpForOtherReaders has a reader that does not pass the gate, like one of another
// process. Cutting gives up, and neither claims nor readers wait for it.
func TestCuttingGivesUpForOtherReaders(t *testing.T) {
	t.Parallel()
	store, log := withLog(t, math.MaxInt64)
	if err := claim(t, store, "evt_1"); err != nil {
		t.Fatal(err)
	}
	other, err := store.reader.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Rollback()
	var n int
	if err := other.QueryRowContext(t.Context(), `SELECT count(*) FROM hookonce_event`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	if err := claim(t, store, "evt_2"); err != nil {
		t.Fatal(err)
	}
	if store.cutLog(t.Context()) {
		t.Error("the log was cut under a reader")
	}
	if err := claim(t, store, "evt_3"); err != nil {
		t.Errorf("claim: %v", err)
	}
	wantEvents(t, store, "evt_1", "evt_2", "evt_3")
	if err := other.QueryRowContext(t.Context(), `SELECT count(*) FROM hookonce_event`).Scan(&n); err != nil || n != 1 {
		t.Errorf("the other reader sees %d events and the error %v, want the one of its snapshot", n, err)
	}
	if err := other.Rollback(); err != nil {
		t.Fatal(err)
	}
	if !store.cutLog(t.Context()) {
		t.Error("the log was not cut")
	}
	if info, err := os.Stat(log); err != nil || info.Size() != 0 {
		t.Errorf("the log is %v with the error %v, want it empty", info, err)
	}
	wantEvents(t, store, "evt_1", "evt_2", "evt_3")
}

// TestLogPauseIgnoresTheWallClock has a log that could not be cut. The time of the next try must
// not depend on a clock that may be set back by an hour.
func TestLogPauseIgnoresTheWallClock(t *testing.T) {
	t.Parallel()
	store, _ := withLog(t, 0)
	other := startReading(t, store)
	<-other.began
	if err := claim(t, store, "evt_1"); err != nil {
		t.Fatal(err)
	}
	<-store.readers.isShut(t.Context())
	store.close() // cutting gives up waiting for the reader
	store.detached.Wait()
	other.stop()
	failed := *store.log.failed.Load()
	if failed == failed.Round(0) { // Round(0) drops the monotonic clock
		t.Errorf("%v has the wall clock only", failed)
	}
	for _, c := range []struct {
		name string
		at   time.Time
		want bool
	}{
		{"just now", time.Now().Add(time.Hour), true}, // however slow this machine is
		{"a while ago", time.Now().Add(-cutPause), false},
	} {
		store.log.failed.Store(&c.at)
		if got := store.log.pauses(); got != c.want {
			t.Errorf("failed %s: pauses: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestCuttingEndsWithTheStore closes a store that waits for a reader to end.
func TestCuttingEndsWithTheStore(t *testing.T) {
	t.Parallel()
	store, _ := withLog(t, 0)
	reader := startReading(t, store)
	<-reader.began
	if err := claim(t, store, "evt_1"); err != nil {
		t.Fatal(err)
	}
	<-store.readers.isShut(t.Context())
	held := startReading(t, store)
	closed := make(chan error, 1)
	go func() { closed <- store.Close() }()
	// Readers that were held back get in, without waiting for the first one.
	<-held.began
	if err := <-closed; err != nil {
		t.Error(err)
	}
	held.stop()
	reader.stop()
}

func TestGateGivesUpWithTheContext(t *testing.T) {
	t.Parallel()
	var g gate
	if err := g.enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	empty, open := g.shut()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.enter(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("enter: got the error %v, want %v", err, context.Canceled)
	}
	select {
	case <-empty:
		t.Error("the gate is empty with one inside")
	default:
	}
	g.leave()
	<-empty
	open()
	if err := g.enter(t.Context()); err != nil {
		t.Errorf("enter: %v", err)
	}
	g.leave()
	empty, open = g.shut()
	<-empty
	open()
}

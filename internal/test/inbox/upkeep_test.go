package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/internal/test/rig"
)

func TestPruneLogsItsCounts(t *testing.T) {
	t.Parallel()
	log := &rig.Log{}
	store := rig.OpenSQLite(t)
	in := newEngine(t, store, func(c *hookonce.Config) {
		c.QuarantineRows = 2
		c.Logger = log.Logger()
	})
	for i := range 5 {
		r := delivery(fmt.Sprint(i), fmt.Sprintf(`{"n":%d}`, i))
		r.Header.Del("X-GitHub-Delivery") // verified, but without an id
		if got := deliver(in, r); got.Code != 400 {
			t.Fatalf("delivery: %+v, want 400", got)
		}
	}
	deliver(in, delivery("kept", "{}"))
	if _, err := in.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	log.WantOne(t, "msg=pruned events=0 bodies=0 quarantined=3")
	page, err := store.Quarantined(t.Context(), &driver.QuarantineFilter{Source: "gh"})
	if err != nil || len(page.Requests) != 2 {
		t.Errorf("%d requests in the quarantine, error %v, want the 2 newest", len(page.Requests), err)
	}
	if _, err := in.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	log.WantOne(t, "msg=pruned") // the second call pruned nothing and logs nothing
}

// openWithSQL returns a new SQLite store, and a function that runs SQL in its file without the store.
func openWithSQL(t *testing.T) (store driver.Store, exec func(query string)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "hookonce.db")
	opened, err := hooksql.OpenSQLite("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := opened.Close(); err != nil {
			t.Errorf("closing the store: %v", err)
		}
	})
	if _, err := hookmigrate.Up(t.Context(), opened); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(20000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return opened, func(query string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
}

// Run warns of a trigger that drops rows. A delivery whose row it drops is no duplicate, and succeeds
// once the trigger is gone.
func TestForeignTriggers(t *testing.T) {
	t.Parallel()
	log := &rig.Log{}
	store, exec := openWithSQL(t)
	exec(`CREATE TRIGGER audit BEFORE INSERT ON hookonce_event BEGIN SELECT RAISE(IGNORE); END`)
	in := newEngine(t, store, func(c *hookonce.Config) { c.Logger = log.Logger() })
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = in.Run(ctx) }) // the log tells its errors
	rig.WaitFor(t, func() bool { return strings.Contains(strings.Join(log.Lines(), ""), "trigger audit on hookonce_event") })
	stop()
	wg.Wait()
	log.WantOne(t, "foreign triggers or rules on hookonce's tables")
	if got := deliver(in, delivery("1", "{}")); got.Code != 503 {
		t.Errorf("while the trigger drops events: answer %+v, want 503", got)
	}
	exec(`DROP TRIGGER audit`)
	if got := deliver(in, delivery("1", "{}")); got != ok {
		t.Errorf("without the trigger: answer %+v, want 200 ok", got)
	}
}

// windowStore calls registering in front of each RegisterWindows and counts the calls of Prune.
type windowStore struct {
	driver.Store
	registering func(p *driver.PruneParams) error
	prunes      atomic.Int64
}

func (s *windowStore) RegisterWindows(ctx context.Context, p *driver.PruneParams) error {
	if err := s.registering(p); err != nil {
		return err
	}
	return s.Store.RegisterWindows(ctx, p)
}

func (s *windowStore) Prune(ctx context.Context, p *driver.PruneParams) (*driver.PruneResult, error) {
	s.prunes.Add(1)
	return s.Store.Prune(ctx, p)
}

// Two processes share a database. One has a short window for all its sources. It must not prune
// the other's events, whether or not it knows their source.
func TestPruningFollowsTheLongestWindow(t *testing.T) {
	t.Parallel()
	for name, known := range map[string]bool{"a known source": true, "an unknown source": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := rig.OpenSQLite(t)
			long := newEngine(t, store, nil)
			if _, err := long.Prune(t.Context()); err != nil { // it registers, as Run does
				t.Fatal(err)
			}
			short := newEngine(t, store, func(c *hookonce.Config) {
				c.DedupeWindow, c.Retention = time.Millisecond, time.Millisecond
				own := c.Sources[0]
				own.Name = "own"
				c.Sources = append(c.Sources, own)
				if !known {
					c.Sources = c.Sources[1:]
				}
			})
			if got := deliver(long, delivery("1", "{}")); got != ok {
				t.Fatalf("delivery: %+v, want %+v", got, ok)
			}
			r := delivery("2", "{}")
			r.URL.Path = "/webhooks/own"
			if got := deliver(short, r); got != ok {
				t.Fatalf("delivery to the other process: %+v, want %+v", got, ok)
			}
			// Its own event is younger, so the other is past the short window by then too.
			rig.WaitFor(t, func() bool {
				result, err := short.Prune(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return result.Events > 0
			})
			if _, err := store.Event(t.Context(), "own", "2"); !errors.Is(err, driver.ErrNotFound) {
				t.Errorf("the event of the short window is there, error %v; want %v", err, driver.ErrNotFound)
			}
			if got := deliver(short, delivery("1", "{}")); known && got != duplicate {
				t.Errorf("delivery again: %+v, want %+v", got, duplicate)
			}
			if ev := eventState(t, store, "1"); ev.BodyPruned {
				t.Error("the body was pruned by a process with a shorter retention")
			}
		})
	}
}

// A process registers its windows when Run begins and after each Reload. A source that a Reload
// removed keeps its windows.
func TestWindowsAreRegistered(t *testing.T) {
	t.Parallel()
	registered := make(chan *driver.PruneParams, 10)
	store := &windowStore{Store: rig.OpenSQLite(t), registering: func(p *driver.PruneParams) error {
		registered <- p
		return nil
	}}
	in := newEngine(t, store, func(c *hookonce.Config) { c.Sources[0].DedupeWindow = 90 * 24 * time.Hour })
	run(t, in)
	if p := <-registered; p.Sources["gh"].DedupeWindow != 90*24*time.Hour || p.DedupeWindow != hookonce.DefaultDedupeWindow {
		t.Errorf("Run registered %+v", p)
	}
	cfg := settings("")
	cfg.Sources[0].Name = "other"
	reload(t, in, cfg)
	if p := <-registered; len(p.Sources) != 1 || p.Sources["other"] != (driver.SourceWindows{}) {
		t.Errorf("Reload registered %+v", p)
	}
	now, err := store.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	claim := driver.Claim{Key: driver.EventKey("gh", "old"), Source: "gh", EventID: "old"}
	if _, err := store.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{claim}, Now: now.Add(-60 * 24 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventState(t, store, "old") // fails if it is gone
}

// A process that cannot register its windows does not prune.
func TestNoPruningUnregistered(t *testing.T) {
	t.Parallel()
	store := &windowStore{Store: rig.OpenSQLite(t), registering: func(*driver.PruneParams) error { return driver.ErrUnavailable }}
	in := newEngine(t, store, nil)
	if result, err := in.Prune(t.Context()); result != nil || !errors.Is(err, driver.ErrUnavailable) || store.prunes.Load() > 0 {
		t.Errorf("Prune returned %+v and the error %v after %d calls of the store; want %v and none",
			result, err, store.prunes.Load(), driver.ErrUnavailable)
	}
}

// A gateway has no handlers, and may not even know the source. It deals with the run of a handler
// whose process was killed, by the schedule of that process.
func TestGatewaysFindInterruptedRuns(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	claims := []driver.Claim{{Key: driver.EventKey("shop", "1"), Source: "shop", EventID: "1", Work: driver.WorkQueued}}
	then := time.Now().Add(-time.Hour)
	if _, err := store.Claim(t.Context(), &driver.ClaimParams{Claims: claims, Now: then}); err != nil {
		t.Fatal(err)
	}
	killed, err := store.Take(t.Context(), &driver.TakeParams{
		Source: "shop", Types: []string{"*"}, Limit: 1, HandlerTimeout: time.Second, Retry: driver.Retry{Attempts: 1}, Now: then,
	})
	if err != nil {
		t.Fatal(err)
	}
	killed.Sever()
	run(t, newEngine(t, store, nil))
	rig.WaitFor(t, func() bool {
		ev, err := store.Event(t.Context(), "shop", "1")
		if err != nil {
			t.Fatal(err)
		}
		return ev.State == driver.StateDead && ev.Attempts == 1 && ev.LastError == driver.ErrorRunInterrupted
	})
}

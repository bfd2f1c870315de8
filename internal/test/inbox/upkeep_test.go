package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/defaults"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
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
		if got := deliver(in, delivery("", fmt.Sprintf(`{"n":%d}`, i))); got.Code != 400 { // verified, but without an id
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

// Run warns of a trigger that drops rows. A delivery whose row it drops is no duplicate, and succeeds
// once the trigger is gone.
func TestForeignTriggers(t *testing.T) {
	t.Parallel()
	store, log := rig.OpenSQLite(t), &rig.Log{}
	exec := func(query string) {
		t.Helper()
		if _, err := store.Writer().ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE TRIGGER audit BEFORE INSERT ON hookonce_event BEGIN SELECT RAISE(IGNORE); END`)
	in := newEngine(t, store, func(c *hookonce.Config) { c.Logger = log.Logger() })
	stop := start(t, in)
	eventually.True(t, "the log names the trigger", func() bool { return strings.Contains(log.Text(), "trigger audit on hookonce_event") })
	stop()
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
	if p := eventually.Receive(t, "Run registers", registered); p.Sources["gh"].DedupeWindow != 90*24*time.Hour+time.Minute || p.DedupeWindow != defaults.DedupeWindow+time.Minute {
		t.Errorf("Run registered %+v", p)
	}
	cfg := settings("")
	cfg.Sources[0].Name = "other"
	reload(t, in, cfg)
	if p := eventually.Receive(t, "Reload registers", registered); len(p.Sources) != 1 || p.Sources["other"] != (driver.SourceWindows{}) {
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
// whose process was killed, by the schedule of that process, and shows it in the live feed.
func TestGatewaysFindInterruptedRuns(t *testing.T) {
	t.Parallel()
	store := &feedStore{Driver: rig.OpenSQLite(t)}
	store.watched(t, newEngine(t, store, nil))
	claims := []driver.Claim{{
		Key: driver.EventKey("shop", "1"), Source: "shop", EventID: "1", Headers: []byte("{}"), Work: driver.WorkQueued,
	}}
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
	wantFeed(t, store, "event 1 dead "+driver.ErrorRunInterrupted)
	ev, err := store.Event(t.Context(), "shop", "1")
	if err != nil || ev.State != driver.StateDead || ev.Attempts != 1 || ev.LastError != driver.ErrorRunInterrupted {
		t.Errorf("the event is %+v, error %v, want it dead", ev, err)
	}
}

// A request that outlives its identity can take effect twice, so New warns of it.
func TestToleranceBeyondTheWindow(t *testing.T) {
	t.Parallel()
	for tolerance, warns := range map[time.Duration]bool{time.Hour: false, time.Hour + time.Second: true} {
		log := &strings.Builder{}
		newEngine(t, rig.OpenSQLite(t), func(c *hookonce.Config) {
			c.Logger = slog.New(slog.NewTextHandler(log, nil))
			c.DedupeWindow, c.Retention = time.Hour, time.Hour
			c.Sources[0] = hookonce.Source{Name: "std", Provider: provider.StandardWebhooks, Secrets: hookonce.StaticSecrets(secret), Tolerance: tolerance}
		})
		if got := strings.Contains(log.String(), "is longer than its dedupe window"); got != warns {
			t.Errorf("with a tolerance of %v, it warns: %v, want %v; it logs:\n%s", tolerance, got, warns, log)
		}
	}
}

package inbox_test

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

// weakStore is a real store whose durability settings the test sets.
type weakStore struct {
	driver.Store
	weak atomic.Pointer[[]driver.Weakness]
}

func (s *weakStore) set(settings ...string) {
	var all []driver.Weakness
	for _, name := range settings {
		all = append(all, driver.Weakness{Setting: name, Value: "off", Effect: "A power cut loses commits.", Remedy: "Set it to on."})
	}
	s.weak.Store(&all)
}

func (s *weakStore) Weaknesses(context.Context) ([]driver.Weakness, error) {
	return *s.weak.Load(), nil
}

// wantUnsafe fails unless err is an UnsafeError about exactly these settings.
func wantUnsafe(t *testing.T, what string, err error, settings ...string) {
	t.Helper()
	unsafe, ok := errors.AsType[*hookonce.UnsafeError](err)
	if !ok || len(unsafe.Weaknesses) != len(settings) {
		t.Errorf("%s: got the error %v, want an UnsafeError about %q", what, err, settings)
		return
	}
	for i, name := range settings {
		if unsafe.Weaknesses[i].Setting != name || !strings.Contains(err.Error(), name+" is ") {
			t.Errorf("%s: got the error %v, want %q in it", what, err, name)
		}
	}
}

func TestWeakDatabaseIsRefused(t *testing.T) {
	t.Parallel()
	store := &weakStore{Store: rig.OpenSQLite(t)}
	log := &rig.Log{}
	list, url := newList(t, 1)
	in := newEngine(t, store, func(c *hookonce.Config) {
		reconcilable(url)(c)
		c.Sources = append(c.Sources, hookonce.Source{Name: "gh", Provider: provider.GitHub, Secrets: hookonce.StaticSecrets(secret)})
		c.AllowUnsafe, c.Logger = []string{"journal_mode"}, log.Logger()
	})
	store.set("fsync", "journal_mode", "synchronous")
	_, err := in.Reconcile(t.Context(), "stripe", time.Hour)
	wantUnsafe(t, "Reconcile before Run", err, "fsync", "synchronous")
	if _, err := store.Event(t.Context(), "stripe", list.events[0].ID); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("Reconcile claimed on a weak database, or error %v", err)
	}
	wantUnsafe(t, "Run", in.Run(t.Context()), "fsync", "synchronous")
	wantUnsafe(t, "Ready", in.Ready(t.Context()), "fsync", "synchronous")
	w := answered(in, delivery("1", "{}"))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("a delivery: status %d, Retry-After %q, want 503 and a time", w.Code, w.Header().Get("Retry-After"))
	}
	log.WantOne(t, "the settings allow it")
	store.set("journal_mode")
	if err := in.Operator().CheckDurability(t.Context()); err != nil {
		t.Error(err)
	}
	if got := answered(in, delivery("1", "{}")); got.Code != http.StatusOK {
		t.Errorf("a delivery after the settings were mended: status %d", got.Code)
	}
	if err := in.Ready(t.Context()); err != nil {
		t.Errorf("Ready after the settings were mended: %v", err)
	}
	runEnded(t, in)

	store.set("fsync")
	wantUnsafe(t, "CheckDurability", in.Operator().CheckDurability(t.Context()), "fsync")
	if got := answered(in, delivery("2", "{}")); got.Code != http.StatusServiceUnavailable {
		t.Errorf("a delivery after a running server was weakened: status %d, want 503", got.Code)
	}
}

// TestWeakSQLite works on pools of the caller's own.
func TestWeakSQLite(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hookonce.db")
	db, err := sql.Open("sqlite", "file:"+path+"?"+url.Values{
		"_txlock": {"immediate"}, "_pragma": {"journal_mode(WAL)", "synchronous(NORMAL)"},
	}.Encode())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	store := hooksql.NewSQLite(db, db)
	t.Cleanup(func() { store.Close() })
	if _, err := hookmigrate.Up(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	mux := handling(func(context.Context, *sql.Tx, *hookonce.Event) error { return nil })
	for name, change := range map[string]func(*hookonce.Config){"queued": func(*hookonce.Config) {}, "inline": inline} {
		l := &library[*sql.Tx]{db: store}
		in := inbox(t, l, mux, change)
		if got := answered(in, delivery(name, "{}")); got.Code != http.StatusServiceUnavailable {
			t.Errorf("%s: status %d before Run, want 503", name, got.Code)
		}
		wantUnsafe(t, name+": Run", in.Run(t.Context()), "synchronous")
		allowed := inbox(t, l, mux, func(c *hookonce.Config) {
			change(c)
			c.AllowUnsafe = []string{"synchronous"}
		})
		if got := answered(allowed, delivery(name, "{}")); got.Code != http.StatusOK {
			t.Errorf("%s: status %d where the setting is allowed, want 200", name, got.Code)
		}
	}
}

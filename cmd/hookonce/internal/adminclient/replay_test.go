package adminclient_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/cmd/hookonce/internal/adminclient"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/provider"
)

// newStore returns a new SQLite database.
func newStore(t *testing.T) driver.Store {
	t.Helper()
	store, err := hooksql.OpenSQLite("sqlite", filepath.Join(t.TempDir(), "test.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := hookmigrate.Up(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	return store
}

// newAPI returns the admin API on store, for the source lab.
func newAPI(t *testing.T, store driver.Store) *adminclient.Client {
	t.Helper()
	engine, err := hookonce.NewEngine(store, &hookonce.Config{
		Sources:      []hookonce.Source{{Name: "lab", Provider: "none", Event: provider.EventRules{ID: "body:id"}}},
		Destinations: []hookonce.Destination{{Name: "app", URL: "http://127.0.0.1:1/", AllowPrivate: true}},
		Routes:       []hookonce.Route{{Name: "all", To: "app"}},
		Logger:       slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	api, err := hookadmin.New(&hookadmin.Config{
		Store: store, Engine: engine, Ready: engine.Ready, Loopback: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return adminclient.InProcess(api)
}

// claim stores the event a of lab, without a message.
func claim(t *testing.T, store driver.Store) {
	t.Helper()
	now, err := store.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := driver.Claim{Key: driver.EventKey("lab", "a"), Source: "lab", EventID: "a", Headers: []byte("{}"), Body: []byte(`{"id":"a"}`)}
	if _, err := store.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{c}, Now: now}); err != nil {
		t.Fatal(err)
	}
}

// lossy is a store whose first replays fail or lose their confirmation.
type lossy struct {
	driver.Store
	failures, calls int
	err             error
}

func (s *lossy) Replay(ctx context.Context, p *driver.ReplayParams) (*driver.Replayed, error) {
	s.calls++
	fails := s.calls <= s.failures
	if fails && errors.Is(s.err, driver.ErrSerialization) {
		return nil, s.err // rolled back
	}
	replayed, err := s.Store.Replay(ctx, p)
	if err == nil && fails {
		return nil, s.err
	}
	return replayed, err
}

// A replay with an unknown commit is retried, and happens once.
func TestReplaySafelyRetries(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, tt := range []struct {
		name            string
		failures, calls int
		err             error
		fails           bool
	}{
		{"confirmed", 0, 1, nil, false},
		{"unknown once", 1, 2, driver.ErrCommitUnknown, false},
		{"rolled back once", 1, 2, driver.ErrSerialization, false},
		{"always unknown", 10, 3, driver.ErrCommitUnknown, true},
		{"another error", 1, 1, broken, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store := &lossy{Store: newStore(t), failures: tt.failures, err: tt.err}
			claim(t, store)
			repeated := errors.Is(tt.err, driver.ErrCommitUnknown)
			replayed, err := newAPI(t, store).ReplaySafely(t.Context(), "lab", "a", "r", &hookadmin.ReplayRequest{SameID: true})
			if (err != nil) != tt.fails || store.calls != tt.calls {
				t.Errorf("called %d times, error %v; want %d and an error %t", store.calls, err, tt.calls, tt.fails)
			}
			if errors.Is(err, driver.ErrCommitUnknown) != (tt.fails && repeated) {
				t.Errorf("the error is %v", err)
			}
			if err == nil && (replayed.Repeated != repeated || replayed.Generation != 1 || replayed.Messages != 1) {
				t.Errorf("%+v", replayed)
			}
			detail, err := store.Event(t.Context(), "lab", "a")
			if err != nil || detail.Generation != 1 || len(detail.History) != 1 || len(detail.Messages) != 1 {
				t.Errorf("event %+v, %v", detail, err)
			}
		})
	}
}

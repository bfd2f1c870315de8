package app

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// The dashboard shows the warnings of the current settings. It shows a warning once if the status
// of a source says the same.
func TestDashboardShowsWarningsOfTheSettings(t *testing.T) {
	t.Parallel()
	const source = "sources: {pay: {provider: stripe, secrets: [SECRET], dedupe_window: 1h}, lab: {provider: none, event: {id: 'body:id'}}}"
	with := func(secret string) *config.Settings { return settings(t, strings.Replace(source, "SECRET", secret, 1)) }
	next := with("0123456789abcdef")
	g, err := newGateway(t.Context(), newStore(t), &Options{
		Settings: with("short"), Logger: slog.New(slog.DiscardHandler), Reload: func() (*config.Settings, error) { return next, nil },
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.public.Close(); g.admin.Close() })
	show := func() string {
		w := httptest.NewRecorder()
		g.admin.server.Handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "http://127.0.0.1/", nil))
		if w.Code != 200 {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
		return w.Body.String()
	}
	for round, shortSecrets := range []int{1, 0} {
		page := show()
		for part, want := range map[string]int{
			"the secret has less than 16 bytes": shortSecrets, "is shorter than": 1, `<strong class="kind">Unsigned`: 1, "anyone can send": 0,
		} {
			if n := strings.Count(page, part); n != want {
				t.Errorf("round %d: %q is there %d times, want %d:\n%s", round, part, n, want, page)
			}
		}
		g.apply(g.read())
	}
}

// A large write-ahead log of SQLite is a warning, on the dashboard and in doctor.
func TestLargeLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "hookonce.db")
	g := &gateway{options: &Options{Settings: settings(t, "database: sqlite:"+path)}}
	g.showWarnings(g.options.Settings)
	for size, many := range map[int64]int{1e6: 0, 1.1e9: 1} {
		if err := os.WriteFile(path+"-wal", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path+"-wal", size); err != nil { // a file with a hole takes no room
			t.Fatal(err)
		}
		shown := slices.DeleteFunc(slices.Clone(g.allWarnings()), func(text string) bool { return !strings.Contains(text, "log has 1.1 GB") })
		check := warnOfLog(Check{Status: StatusOK}, path)
		if len(shown) != many || len(check.Seen) != many {
			t.Errorf("with %d bytes: warnings %q, doctor has seen %q; want %d each", size, shown, check.Seen, many)
		}
	}
}

// A reload that waits for a file, as on a disk that has gone, holds up neither the end nor a second reload's settings.
func TestReloadThatWaitsHoldsUpNoEnd(t *testing.T) {
	t.Parallel()
	s := labSettings(t)
	hangups, reading, file := make(chan os.Signal, 1), make(chan struct{}, 2), make(chan struct{})
	defer close(file)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, &Options{Settings: s, Logger: slog.New(slog.DiscardHandler), Hangups: hangups, Reload: func() (*config.Settings, error) {
			reading <- struct{}{}
			<-file
			return s, nil
		}})
	}()
	hangups <- syscall.SIGHUP
	eventually.Receive(t, "the reload reads", reading)
	hangups <- syscall.SIGHUP
	cancel()
	if err := eventually.Receive(t, "Serve returns", ended); err != nil || len(reading) > 0 {
		t.Errorf("ended with %v, and began %d readings beside the first one", err, len(reading))
	}
}

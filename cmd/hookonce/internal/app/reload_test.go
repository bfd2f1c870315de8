package app

import (
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/config"
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
		g.reload()
	}
}

package hookonce_test

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
)

// engineOf returns an engine with cfg. It is not running.
func engineOf(t testing.TB, store driver.Store, cfg *hookonce.Config) *hookonce.Engine {
	t.Helper()
	for i := range cfg.Sources {
		cfg.Sources[i].AckTimeout = 30 * time.Second // the machine may be slow
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	in, err := hookonce.NewEngine(store, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(in.Drain)
	return in
}

// settingsOf returns the settings of one source.
func settingsOf(source hookonce.Source) *hookonce.Config {
	source.AckTimeout = cmp.Or(source.AckTimeout, 30*time.Second) // the machine may be busy
	return &hookonce.Config{Sources: []hookonce.Source{source}}
}

// answerTo returns how in answers a delivery: "ok", "duplicate", or the code of a refusal.
func answerTo(in *hookonce.Engine, r *http.Request) string {
	w := httptest.NewRecorder()
	in.ServeHTTP(w, r)
	var body struct{ Status string }
	if w.Code != http.StatusOK || json.Unmarshal(w.Body.Bytes(), &body) != nil {
		return strconv.Itoa(w.Code)
	}
	return body.Status
}

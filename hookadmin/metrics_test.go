package hookadmin_test

import (
	"net/http"
	"testing"

	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// /metrics needs the token, and does not exist in a program without metrics.
func TestMetrics(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef"
	withToken := func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
	store := rig.OpenSQLite(t)
	a := newAPI(t, func(cfg *hookadmin.Config) {
		cfg.Store, cfg.Token = store, token
	})
	if got := a.do(t, http.MethodGet, "/metrics", nil); got.status != http.StatusUnauthorized {
		t.Errorf("without the token: %d %s, want 401", got.status, got.body)
	}
	if got := a.do(t, http.MethodGet, "/metrics", withToken); got.status != http.StatusOK || string(got.body) != "up 1\n" {
		t.Errorf("with the token: %d %q, want 200 and the metrics", got.status, got.body)
	}
	without := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store, cfg.Metrics = store, nil })
	if got := without.do(t, http.MethodGet, "/metrics", nil); got.status != http.StatusNotFound {
		t.Errorf("without metrics: %d %s, want 404", got.status, got.body)
	}
}

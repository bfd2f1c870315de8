package hookadmin_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/test/rig"
)

func TestProfiles(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	a := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store = store })
	for _, path := range []string{"profile?seconds=1", "allocs", "block", "goroutine", "heap", "mutex", "threadcreate"} {
		resp := a.get(t, "/debug/pprof/"+path)
		if resp.status != http.StatusOK || resp.header.Get("Content-Type") != "application/octet-stream" {
			t.Errorf("%s: %d %s", path, resp.status, resp.header.Get("Content-Type"))
			continue
		}
		unzipped, err := gzip.NewReader(bytes.NewReader(resp.body))
		if err == nil {
			_, err = io.Copy(io.Discard, unzipped)
		}
		if err != nil {
			t.Errorf("%s is not a profile: %v", path, err)
		}
	}
	if resp := a.get(t, "/debug/pprof/trace?seconds=1"); resp.status != http.StatusOK || !bytes.HasPrefix(resp.body, []byte("go 1.")) {
		t.Errorf("trace: %d %.20q", resp.status, resp.body)
	}
	if resp := a.get(t, "/debug/pprof/goroutine?debug=1"); !strings.HasPrefix(resp.header.Get("Content-Type"), "text/plain") || !bytes.Contains(resp.body, []byte("TestProfiles")) {
		t.Errorf("goroutine as text: %s %.200q", resp.header.Get("Content-Type"), resp.body)
	}
	for path, status := range map[string]int{
		"profile?seconds=0": 400, "profile?seconds=51": 400, "trace?seconds=1e3": 400, "heap?debug=3": 400, "heap?debug=x": 400,
		"cmdline": 404, "symbol": 404, "none": 404, // the command line may hold secrets
	} {
		wantProblem(t, a.get(t, "/debug/pprof/"+path), status)
	}
}

func TestProfilesAreGuarded(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	a := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store, cfg.Token = store, "a-token-of-the-operator" })
	wantProblem(t, a.do(t, http.MethodGet, "/debug/pprof/heap", func(r *http.Request) { r.Header.Del("Authorization") }), http.StatusUnauthorized)
}

// Importing this package must not publish profiles.
func TestNoProfilesOnTheDefaultMux(t *testing.T) {
	t.Parallel()
	r, err := http.NewRequest(http.MethodGet, "http://localhost/debug/pprof/heap", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if _, pattern := http.DefaultServeMux.Handler(r); pattern != "" {
		t.Errorf("http.DefaultServeMux serves %s", pattern)
	}
}

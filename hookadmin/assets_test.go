package hookadmin_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// The files of others are the pinned ones that .ci/assets brings, and each has its licence beside it.
func TestPinnedAssets(t *testing.T) {
	t.Parallel()
	a := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store = rig.OpenSQLite(t) })
	raw, err := os.ReadFile("assets.sum")
	if err != nil {
		t.Fatal(err)
	}
	pinned := make(map[string]bool)
	for line := range strings.Lines(string(raw)) {
		want, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		pinned[name] = true
		resp := a.get(t, "/static/"+name)
		if sum := sha256.Sum256(resp.body); resp.status != 200 || hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s: status %d, checksum %x, want %s; run .ci/assets", name, resp.status, sum, want)
		}
	}
	ours := map[string]bool{"app.js": true, "charts.js": true, "icon.svg": true, "pages.css": true, "style.css": true}
	entries, err := os.ReadDir("static")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if pinned[name] == ours[name] {
			t.Errorf("static/%s is neither ours nor in assets.sum", name)
		}
		if library, _, _ := strings.Cut(name, "."); !ours[name] && !pinned[library+".LICENSE"] {
			t.Errorf("static/%s has no licence beside it", name)
		}
	}
}

package hookadmin_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/group"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

// A real browser shows the warning in red: the policy of the page allows the style sheet.
func TestDashboardInABrowser(t *testing.T) {
	group.Need(t, "browser")
	t.Parallel()
	store := rig.OpenSQLite(t)
	engine := newEngine(t, store, &hookonce.Config{Sources: []hookonce.Source{{
		Name: "pay", Provider: provider.Stripe, Secrets: hookonce.StaticSecrets("a-secret-of-16-bytes-or-more"), DedupeWindow: time.Hour,
	}}})
	a := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store, cfg.Engine = store, engine })
	server := httptest.NewServer(a.handler)
	t.Cleanup(server.Close)

	const want = "is shorter than the retry period of Stripe"
	if dom := browse(t, server.URL+"/", "--dump-dom"); !strings.Contains(string(dom), want) {
		t.Errorf("the page lacks %q:\n%s", want, dom)
	}
	file := filepath.Join(t.TempDir(), "page.png")
	browse(t, server.URL+"/sources", "--screenshot="+file, "--window-size=1200,600")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	// The colour --grave of the style sheet, light or dark.
	if !hasColor(shown, color.RGBA{0xb3, 0x26, 0x1e, 0xff}) && !hasColor(shown, color.RGBA{0xff, 0x93, 0x8a, 0xff}) {
		t.Error("the page has no red")
	}
}

// browse runs Chromium without a window and returns its output.
func browse(t *testing.T, address string, flags ...string) []byte {
	t.Helper()
	var browser string
	dbtest.Need(t, "browser", func() (err error) {
		if browser, err = exec.LookPath("chromium"); err != nil {
			err = fmt.Errorf("%w: install Chromium (on Debian: apt-get install chromium)", err)
		}
		return err
	}, "chromium")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser, append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--user-data-dir=" + t.TempDir(),
	}, append(flags, address)...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.WaitDelay = 10 * time.Second // child processes may hold the output open
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", browser, err, &stderr)
	}
	return out
}

func hasColor(shown image.Image, want color.RGBA) bool {
	for y := shown.Bounds().Min.Y; y < shown.Bounds().Max.Y; y++ {
		for x := shown.Bounds().Min.X; x < shown.Bounds().Max.X; x++ {
			if color.RGBAModel.Convert(shown.At(x, y)) == want {
				return true
			}
		}
	}
	return false
}

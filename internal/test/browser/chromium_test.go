package browser

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
)

// The version of axe-core, which npm brings, and the checksum of its file.
const (
	axeVersion = "4.14.1"
	axeSum     = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
)

// axe is the source of axe-core. It is kept outside the checkout.
var axe = sync.OnceValues(func() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	file := filepath.Join(cache, "hookonce-tools", "axe-core-"+axeVersion+".js")
	raw, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		if raw, err = fetchAxe(); err == nil {
			err = errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, raw, 0o644))
		}
	}
	if err != nil {
		return "", err
	}
	if sum := sha256.Sum256(raw); hex.EncodeToString(sum[:]) != axeSum {
		return "", fmt.Errorf("%s has the checksum %x, want %s: remove it", file, sum, axeSum)
	}
	return string(raw), nil
})

// fetchAxe asks npm for the package, and returns its one file.
func fetchAxe() ([]byte, error) {
	dir, err := os.MkdirTemp("", "axe-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if out, err := exec.Command("npm", "pack", "--silent", "--pack-destination", dir, "axe-core@"+axeVersion).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("npm pack: %w: install npm\n%s", err, out)
	}
	packed, err := os.Open(filepath.Join(dir, "axe-core-"+axeVersion+".tgz"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = packed.Close() }()
	unzipped, err := gzip.NewReader(packed)
	if err != nil {
		return nil, err
	}
	for files := tar.NewReader(unzipped); ; {
		header, err := files.Next()
		if err != nil {
			return nil, fmt.Errorf("looking for axe.min.js: %w", err)
		}
		if header.Name == "package/axe.min.js" {
			return io.ReadAll(files)
		}
	}
}

// chromium starts a browser without a window. It ends with the test.
func chromium(t *testing.T) context.Context {
	t.Helper()
	dbtest.Need(t, "browser", func() error {
		if _, err := exec.LookPath("chromium"); err != nil {
			return fmt.Errorf("%w: install Chromium (on Debian: apt-get install chromium)", err)
		}
		return nil
	}, "chromium")
	options := append([]chromedp.ExecAllocatorOption{}, chromedp.DefaultExecAllocatorOptions[:]...)
	options = append(options, chromedp.ExecPath("chromium"), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.WSURLReadTimeout(2*time.Minute))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("starting Chromium: %v", err)
	}
	return ctx
}

// look is a way to see a page.
type look struct {
	name   string
	width  int64
	dark   bool
	script bool
}

// tab is a tab of the browser with one look. It notes the messages of the console.
type tab struct {
	context.Context
	look look

	mu    sync.Mutex
	noise []string
}

func openTab(t *testing.T, browser context.Context, l look) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	v := &tab{Context: ctx, look: l}
	if err := chromedp.Listen(ctx, v.hear); err != nil {
		t.Fatal(err)
	}
	colours := "light"
	if l.dark {
		colours = "dark"
	}
	ask(t, v, log.Enable, cdp.Empty{})
	ask(t, v, runtime.Enable, cdp.Empty{})
	ask(t, v, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: l.width, Height: 900, DeviceScaleFactor: 1, Mobile: l.width < 600,
	})
	ask(t, v, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: colours}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
	v.runScripts(t, l.script)
	return v
}

// ask runs a command of the browser's protocol.
func ask[P, R any](t *testing.T, v *tab, command cdp.Command[P, R], params P) {
	t.Helper()
	if _, err := chromedp.Call(v, command, params); err != nil {
		t.Fatalf("%s: %s: %v", v.look.name, command.Method, err)
	}
}

// hear notes errors of scripts, and violations of the page's policy.
func (v *tab) hear(event any) {
	var line string
	switch event := event.(type) {
	case *runtime.EventExceptionThrown:
		line = event.ExceptionDetails.Text
		if thrown := event.ExceptionDetails.Exception; thrown != nil {
			line += " " + thrown.Description
		}
	case *runtime.EventConsoleAPICalled:
		if event.Type == "error" || event.Type == "warning" {
			line = "console." + string(event.Type)
			for _, arg := range event.Args {
				line += " " + arg.Description + fmt.Sprint(arg.Value)
			}
		}
	case *log.EventEntryAdded:
		if event.Entry.Level == log.EntryLevelError || event.Entry.Level == log.EntryLevelWarning {
			line = event.Entry.Text + " " + event.Entry.URL
		}
	}
	if line != "" {
		v.mu.Lock()
		v.noise = append(v.noise, line)
		v.mu.Unlock()
	}
}

// takeNoise returns the messages of the console since the last call.
func (v *tab) takeNoise() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	noise := v.noise
	v.noise = nil
	return noise
}

// do runs steps, for at most a minute.
func (v *tab) do(t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(v, time.Minute)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		t.Fatalf("%s: %v", v.look.name, err)
	}
}

// eval returns the value of an expression, or of the promise that it is.
func eval[T any](t *testing.T, v *tab, expression string) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(v, time.Minute)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatalf("%s: evaluating %.100s: %v", v.look.name, expression, err)
	}
	return value
}

// await waits in the page until an expression of JavaScript is true: it looks after each change. A page
// that leads elsewhere meanwhile is an error.
func (v *tab) await(t *testing.T, expression string) {
	t.Helper()
	eval[bool](t, v, `new Promise((done) => {
		const look = () => { if (`+expression+`) done(true); };
		new MutationObserver(look).observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
		look();
	})`)
}

// runScripts lets scripts run in the pages that are opened from now on, or not.
func (v *tab) runScripts(t *testing.T, run bool) {
	t.Helper()
	ask(t, v, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !run})
}

// violations returns the faults of the page that axe-core finds. axe-core needs timers, which scripts of a
// page without scripts do not get; the page's own were left out when it was loaded.
func (v *tab) violations(t *testing.T) []string {
	t.Helper()
	source, err := axe()
	if err != nil {
		t.Fatal(err)
	}
	if !v.look.script {
		v.runScripts(t, true)
		defer v.runScripts(t, false)
	}
	const run = `axe.run(document, {
		runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'], rules: {'target-size': {enabled: true}},
	}).then((found) => found.violations.flatMap((v) => v.nodes.map((n) => v.id + ' ' + n.target.join(' ') + ': ' + n.failureSummary)))`
	eval[int](t, v, source+"; 0")
	return eval[[]string](t, v, run)
}

// screenshot writes the whole page to the folder of screenshots, if there is one.
func (v *tab) screenshot(t *testing.T, page string) {
	t.Helper()
	folder := os.Getenv("HOOKONCE_SCREENSHOTS")
	if folder == "" {
		return
	}
	var raw []byte
	eventually.True(t, "the page is pictured", func() bool {
		var err error
		raw, err = chromedp.Run(v, chromedp.FullScreenshot(100)) // fails while the page reloads
		return err == nil
	})
	name := strings.Join([]string{page, v.look.name}, "-") + ".png"
	if err := os.WriteFile(filepath.Join(folder, name), raw, 0o644); err != nil {
		t.Error(err)
	}
}

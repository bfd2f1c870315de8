package browser

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
	"github.com/hookonce/hookonce/internal/test/program"
)

// settings have every state that the pages show: a source that works, one with a short window, one
// that is unsigned, one that nothing was sent to; a destination that works, one that fails, and one
// that refuses messages until it is repaired.
const settings = `database: sqlite:hookonce.db
sources:
  stripe:
    provider: stripe
    secrets: ["${STRIPE_WEBHOOK_SECRET}"]
  github:
    provider: github
    secrets: ["${GITHUB_WEBHOOK_SECRET}"]
  shop:
    provider: shopify
    secrets: ["${SHOP_SECRET}"]
    dedupe_window: 1h
  lab:
    provider: none
    event: {id: "body:id", type: "body:type"}
destinations:
  billing:
    url: %[1]s/ok
  ledger:
    url: %[1]s/fails
    retry: {attempts: 1}
  archive:
    url: %[1]s/archive
    retry: {attempts: 1}
routes:
  - name: billing
    sources: [stripe, lab]
    types: ["invoice.paid"]
    to: billing
  - name: ledger
    types: ["invoice.voided"]
    to: ledger
  - name: archive
    types: ["report.made"]
    to: archive
`

const (
	stripeSecret = "whsec_for_the_browser_test"
	githubSecret = "a-secret-of-github-16-bytes"
	shopSecret   = "a-secret-of-shopify-16-bytes"
)

// gateway is a running "hookonce serve" on SQLite.
type gateway struct {
	dir, program  string
	env           []string
	public, admin string // URLs
	archive       archive
}

// archive is a destination that refuses each message, which keeps its circuit closed, until repaired is set.
type archive struct {
	repaired          atomic.Bool
	refused, archived sync.Map // by message id
}

func (a *archive) take(w http.ResponseWriter, r *http.Request) {
	if id := r.Header.Get("Webhook-Id"); a.repaired.Load() {
		a.archived.Store(id, true)
	} else {
		a.refused.Store(id, true)
		http.Error(w, `{"error":"the archive has no such shelf"}`, http.StatusUnprocessableEntity)
	}
}

func count(m *sync.Map) (n int) {
	m.Range(func(any, any) bool { n++; return true })
	return n
}

func TestMain(m *testing.M) {
	group.Only("browser")
	dbtest.Main(m)
}

func TestGroup(t *testing.T) { group.Need(t, "browser") }

// startGateway starts a gateway whose figures of the last hours are made up, and sends events to it.
func startGateway(t *testing.T) *gateway {
	t.Helper()
	g := &gateway{dir: t.TempDir(), program: program.Hookonce(t), env: []string{
		"STRIPE_WEBHOOK_SECRET=" + stripeSecret, "GITHUB_WEBHOOK_SECRET=" + githubSecret, "SHOP_SECRET=" + shopSecret,
	}}
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		switch r.URL.Path {
		case "/archive":
			g.archive.take(w, r)
		case "/fails":
			http.Error(w, `{"error":"the ledger <b>is closed</b> until Monday"}`, http.StatusInternalServerError)
		}
	}))
	t.Cleanup(sink.Close)
	if err := os.WriteFile(filepath.Join(g.dir, "hookonce.yaml"), fmt.Appendf(nil, settings, sink.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	g.makeHistory(t)
	g.serve(t)
	g.sendEvents(t)
	return g
}

// command prepares a run of the program.
func (g *gateway) command(args ...string) *exec.Cmd {
	cmd := exec.Command(g.program, args...)
	cmd.Dir = g.dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + g.dir, "NO_COLOR=1"}, g.env...)
	return cmd
}

func (g *gateway) serve(t *testing.T) {
	t.Helper()
	p := program.Start(t, g.command("serve", "--config", "hookonce.yaml", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"))
	t.Cleanup(func() { p.Stop(t) })
	public, admin := p.Addresses(t)
	g.public, g.admin = "http://"+public, "http://"+admin
	p.WaitReady(t, admin)
}

// get returns the body of an answer of the admin listener; "" unless it is 200.
func (g *gateway) get(t *testing.T, path string) string {
	t.Helper()
	resp, err := http.Get(g.admin + path)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return ""
	}
	return string(body)
}

// send runs "hookonce send".
func (g *gateway) send(t *testing.T, source, provider string, args ...string) {
	t.Helper()
	cmd := g.command(append([]string{"send", g.public + "/webhooks/" + source, "--provider", provider}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("hookonce send to %s: %v\n%s", source, err, out)
	}
}

// eventID is the id of an event that is dead.
const eventID = "evt_browser"

func (g *gateway) sendEvents(t *testing.T) {
	t.Helper()
	stripe := []string{"--secret", stripeSecret}
	g.send(t, "stripe", "stripe", append(stripe, "--type", "invoice.paid", "--times", "40", "--duplicate", "2", "--concurrency", "8", "--shuffle")...)
	g.send(t, "stripe", "stripe", append(stripe, "--type", "invoice.voided", "--id", eventID, "--duplicate", "1")...)
	g.send(t, "stripe", "stripe", append(stripe, "--type", "invoice.voided", "--times", "6")...)
	g.send(t, "stripe", "stripe", append(stripe, "--corrupt", "--times", "3")...)
	g.send(t, "github", "github", "--secret", "a-secret-that-is-another-one", "--corrupt", "--times", "4")
	for _, body := range []string{`{"id":"<script>alert(1)</script>","type":"a\u202eb"}`, `{"type":"without an id"}`} {
		resp, err := http.Post(g.public+"/webhooks/lab", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	g.sendMalformed(t)
	eventually.True(t, "the letter, the refused request and the figures are listed", func() bool {
		letters := g.get(t, "/api/v1/dead-letters")
		return strings.Contains(letters, eventID) && strings.Contains(g.get(t, "/api/v1/series?of=deliveries&source=github"), "refused") &&
			strings.Contains(g.get(t, "/api/v1/refused"), "github")
	})
}

// sendMalformed sends a signed request of Stripe whose id is not where Stripe has it.
func (g *gateway) sendMalformed(t *testing.T) {
	t.Helper()
	body, now := `{"object":{"id":"evt_lost","uuid":"7f3a"}}`, strconv.FormatInt(time.Now().Unix(), 10)
	mac := hmac.New(sha256.New, []byte(stripeSecret))
	mac.Write([]byte(now + "." + body))
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.public+"/webhooks/stripe", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Stripe-Signature", "t="+now+",v1="+hex.EncodeToString(mac.Sum(nil)))
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Fatalf("a request without an id is answered %s", resp.Status)
	}
}

// makeHistory adds the figures of an hour before now, so that charts have a shape.
func (g *gateway) makeHistory(t *testing.T) {
	t.Helper()
	store, err := hooksql.OpenSQLite("sqlite", filepath.Join(g.dir, "hookonce.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	if _, err := hookmigrate.Up(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	var all []driver.Figure
	now := time.Now()
	for i := 1; i < 60; i++ {
		at := now.Add(-time.Duration(i) * time.Minute)
		wave := 60 + int64(50*math.Sin(float64(i)/9))
		all = append(all,
			driver.Figure{Of: driver.FigureDeliveries, At: at, Name: "stripe", Label: "ok", N: wave, Buckets: spread(wave, 3)},
			driver.Figure{Of: driver.FigureDeliveries, At: at, Name: "stripe", Label: "duplicate", N: wave / 2, Buckets: spread(wave/2, 2)},
			driver.Figure{Of: driver.FigureAttempts, At: at, Name: "billing", Label: "sent", N: wave, Buckets: spread(wave, 4)},
			driver.Figure{Of: driver.FigureDuplicates, At: at, Name: "stripe", N: wave / 2, Buckets: spread(wave/2, 3)},
			driver.Figure{Of: driver.FigureBacklog, At: at, Name: "billing", Label: driver.BacklogMessages, N: wave / 3},
			driver.Figure{Of: driver.FigureBacklog, At: at, Name: "billing", Label: driver.BacklogMessagesAge, N: wave / 5},
		)
		if i == 30 { // a flood of refusals, which must not flatten the rest of the chart
			all = append(all, driver.Figure{Of: driver.FigureDeliveries, At: at, Name: "stripe", Label: "refused", N: 50_000})
		}
		if i%7 == 0 {
			all = append(all,
				driver.Figure{Of: driver.FigureDeliveries, At: at, Name: "stripe", Label: "refused", N: 12},
				driver.Figure{Of: driver.FigureRefusals, At: at, Name: "stripe", Label: "signature_wrong", N: 12},
				driver.Figure{Of: driver.FigureAttempts, At: at, Name: "billing", Label: "retry", N: 9, Buckets: spread(9, 9)})
		}
	}
	if err := store.AddFigures(t.Context(), &driver.AddFiguresParams{Figures: all}); err != nil {
		t.Fatal(err)
	}
}

// spread puts n into buckets around one of them.
func spread(n int64, around int) (buckets [driver.FigureBuckets]int64) {
	buckets[around] = n / 2
	buckets[around+1] = n / 4
	buckets[around-1] = n - n/2 - n/4
	return buckets
}

package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
	"github.com/hookonce/hookonce/internal/test/program"
)

// startGatewayOn starts a gateway on a PostgreSQL server, with a dead letter, a refused and a quarantined request.
func startGatewayOn(t *testing.T, server *dbtest.Server) *gateway {
	t.Helper()
	g := &gateway{dir: t.TempDir(), program: program.Hookonce(t), env: []string{
		"STRIPE_WEBHOOK_SECRET=" + stripeSecret, "GITHUB_WEBHOOK_SECRET=" + githubSecret, "SHOP_SECRET=" + shopSecret,
	}}
	closed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) }))
	t.Cleanup(closed.Close)
	onServer := strings.Replace(fmt.Sprintf(settings, closed.URL), "sqlite:hookonce.db", server.DSN(), 1)
	if err := os.WriteFile(filepath.Join(g.dir, "hookonce.yaml"), []byte(onServer), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := g.command("migrate", "up", "--config", "hookonce.yaml").CombinedOutput(); err != nil {
		t.Fatalf("migrating: %v\n%s", err, out)
	}
	g.serve(t)
	g.send(t, "stripe", "stripe", "--secret", stripeSecret, "--type", "invoice.voided", "--id", eventID)
	g.send(t, "stripe", "stripe", "--secret", stripeSecret, "--type", "invoice.paid", "--id", "evt_unopened")
	g.send(t, "stripe", "stripe", "--secret", stripeSecret, "--corrupt")
	g.sendMalformed(t)
	eventually.True(t, "the letter and the refused request are listed", func() bool {
		return strings.Contains(g.get(t, "/api/v1/dead-letters"), eventID) && strings.Contains(g.get(t, "/api/v1/refused"), "stripe")
	})
	return g
}

// While PostgreSQL is stopped, each page stands and shows its last rows with their age. The page that is open
// when the server is back finds its rows by itself.
func TestPagesWithoutTheDatabase(t *testing.T) {
	group.NeedLong(t)
	t.Parallel()
	server := dbtest.StartServer(t, nil)
	g := startGatewayOn(t, server)
	paths := []string{"/", "/events", "/dead-letters", "/refused", "/quarantine", "/jobs", "/sources", "/destinations", "/events/stripe/" + eventID}
	for _, path := range paths {
		if g.get(t, path) == "" {
			t.Fatalf("%s is not answered", path)
		}
	}
	server.Shutdown(t)
	eventually.True(t, "the page tells of the refused connection", func() bool { return strings.Contains(g.get(t, "/events"), "the connection was refused") })
	browser := chromium(t)
	var v *tab
	for _, l := range []look{{"away-dark-360", 360, true, false}, {"away-light-1280", 1280, false, true}} {
		v = openTab(t, browser, l)
		for _, path := range paths {
			v.do(t, chromedp.Navigate(g.admin+path))
			name := "away-" + strings.ReplaceAll(strings.Trim(path, "/"), "/", "-")
			checkPage(t, v, name, "The database cannot be reached: the connection was refused.")
			if path != "/jobs" && !eval[bool](t, v, `document.querySelector('.stale time[datetime], .notice time[datetime]') !== null`) {
				t.Errorf("%s: %s shows no age", l.name, path)
			}
		}
	}
	v.do(t, chromedp.Navigate(g.admin+"/dead-letters"), chromedp.WaitVisible(`[data-id="`+eventID+`"]`))
	if eval[bool](t, v, `document.querySelector('main button[name="action"]') !== null`) {
		t.Error("the page offers actions without the database")
	}
	event := openTab(t, browser, look{"away-event", 360, true, true})
	event.do(t, chromedp.Navigate(g.admin+"/events/stripe/evt_unopened"))
	if said := eval[string](t, event, `document.getElementById('main').textContent`); !strings.Contains(said, "the connection was refused. Try again") {
		t.Errorf("an event that was not opened before says %s", said)
	}
	event.screenshot(t, "event")
	for _, fault := range event.violations(t) {
		t.Errorf("an event that was not opened before: %s", fault)
	}
	server.Restart(t)
	event.await(t, `document.title === 'Event · hookonce' && document.getElementById('body') !== null`)
	eventually.True(t, "the page has its buttons again", func() bool {
		there, err := chromedp.Run(v, chromedp.Evaluate[bool](`document.querySelector('main button[name="action"]') !== null && !document.querySelector('.stale')`))
		return err == nil && there // fails while the page reloads
	})
}

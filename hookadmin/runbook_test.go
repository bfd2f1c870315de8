package hookadmin_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

// Pages link to the entry of the runbook about the trouble that they show, and to none without trouble.
func TestRunbookLinks(t *testing.T) {
	t.Parallel()
	const docs = "https://docs.example/v1/"
	store := rig.OpenSQLite(t)
	engine := newEngine(t, store, &hookonce.Config{
		Sources: []hookonce.Source{
			{Name: "lab", Provider: provider.None, Event: provider.EventRules{ID: "body:id"}},
			{Name: "calm", Provider: provider.GitHub, Secrets: hookonce.StaticSecrets("a-secret-of-16-bytes")},
		},
		Destinations: []hookonce.Destination{{Name: "billing", URL: "https://billing.example.com/hooks"}, {Name: "idle", URL: "https://idle.example.com"}},
		Routes:       []hookonce.Route{{Name: "billing", Types: []string{"invoice.*"}, To: "billing"}},
	})
	var unready, reload error
	g := &gateway{newAPI(t, func(cfg *hookadmin.Config) {
		cfg.Store, cfg.Engine, cfg.Docs, cfg.Token = store, engine, docs+"README.md", token
		cfg.ReloadFailed = func() (time.Time, error) { return noon, reload }
		cfg.Ready = func(context.Context) error { return unready }
	}), store, engine}
	cookie := g.signIn(t, token)
	page := func(path string) string { return string(g.do(t, "GET", path, withCookie(cookie)).body) }
	none := func(path string) {
		t.Helper()
		if shown := page(path); strings.Contains(shown, "runbook.md") {
			t.Errorf("%s has no trouble, and links to the runbook:\n%s", path, text(shown))
		}
	}
	want := func(path, anchor string) {
		t.Helper()
		if shown := page(path); !strings.Contains(shown, `href="`+docs+"runbook.md#"+anchor+`"`) {
			t.Errorf("%s does not link to the entry %s:\n%s", path, anchor, text(shown))
		}
	}
	for _, path := range []string{"/", "/events", "/dead-letters", "/refused", "/quarantine", "/sources/calm", "/destinations/idle", "/search", "/jobs"} {
		none(path)
	}
	g.enqueue(t, "evt_waits")
	want("/events/lab/evt_waits", "events-stay-running")
	want("/events/lab/evt_waits", "events-went-to-the-wrong-destination")
	g.settle(t, driver.MessageDead)
	want("/events/lab/evt_waits", "there-are-dead-letters")
	want("/dead-letters", "there-are-dead-letters")
	claim(t, store, event{source: "lab", id: "evt_nowhere", typ: "t", body: "{}", at: noon})
	want("/events?state=pending", "events-stay-pending")
	want("/events?note=no+route", "events-end-as-done-with-the-note-no-route")
	want("/search?q=evt_none", "an-event-is-missing")
	for i, reason := range []string{"signature_wrong", "unknown_source", "too_large", "rate", "handshake", "unavailable"} {
		g.addRefused(t, driver.RefusedRequest{
			ErrorID: fmt.Sprint("e", i), At: time.Now(), Source: "lab", Reason: reason, Status: 401, Method: "POST", Remote: "203.0.113.9", Headers: []byte(`{}`),
		})
		want("/refused?reason="+reason, []string{
			"a-sender-reports-401", "a-sender-reports-404", "a-sender-reports-413-415-or-431", "a-sender-reports-429",
			"a-set-up-request-of-a-provider-is-refused-with-403", "senders-report-503-or-readyz-fails",
		}[i])
	}
	for _, of := range []driver.Figure{
		{Of: driver.FigureRefusals, Label: "signature_wrong", N: 12}, {Of: driver.FigureDeliveries, Label: "refused", N: 12},
	} {
		of.At, of.Name = time.Now(), "calm"
		g.addFigures(t, of)
	}
	want("/", "a-sender-reports-401")
	want("/sources/calm", "a-sender-reports-401")
	reload = errors.New("the settings cannot be used:\nx.yaml:1:1: a\nx.yaml:2:1: b")
	want("/", "a-reload-has-no-effect")
	wantText(t, text(page("/")), "Reload failed The settings were not reloaded at 2026-01-31 12:00:00 UTC; the old ones stay in force: "+
		"the settings cannot be used: x.yaml:1:1: a; x.yaml:2:1: b. Runbook: A reload has no effect . Fix it, and reload again.")
	reload = nil
	if strings.Contains(page("/"), "Reload failed") {
		t.Error("a reload that succeeded leaves the warning")
	}
	unready = driver.ErrFull
	want("/jobs", "senders-report-503-or-readyz-fails")
	refused := string(g.submit(t, "/login", url.Values{"token": {"wrong-wrong-wrong-wrong"}}, nil).body)
	if !strings.Contains(refused, docs+"runbook.md#logins-to-the-dashboard-fail-or-the-api-answers-429") {
		t.Errorf("a refused login does not link to the runbook:\n%s", text(refused))
	}
}

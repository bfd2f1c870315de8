package hookadmin_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	engine := newEngine(t, store, &hookonce.Config{
		Sources: []hookonce.Source{
			{Name: "lab", Provider: provider.None, Event: provider.EventRules{ID: "body:id"}, OnDead: "crm", Consume: hookonce.ConsumeSQL},
			{Name: "github", Provider: provider.GitHub, Secrets: hookonce.StaticSecrets("a-secret-of-16-bytes-or-more"), ReplayGuard: true},
			{Name: "stripe", Provider: provider.Stripe, Secrets: hookonce.StaticSecrets("a-secret-of-16-bytes-or-more")},
		},
		Destinations: []hookonce.Destination{
			{Name: "crm", URL: "https://crm.example.com:8443/hooks/s3cret?key=s3cret", Secret: "s3cret-of-16-bytes-or-more"},
			{Name: "billing", URL: "http://billing.example.com", Rate: hookonce.Rate{Count: 100, Per: time.Second}},
			{Name: "mail", Sender: hookonce.SenderFunc(func(context.Context, *hookonce.Outgoing) error { return nil })},
		},
		Routes: []hookonce.Route{
			{Name: "r2", Sources: []string{"github"}, To: "crm", Where: func(*hookonce.Event) (bool, error) { return true, nil }},
			{Name: "r1", Types: []string{"invoice.*"}, To: "billing"},
		},
		Retention: time.Hour,
	})
	a := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store, cfg.Engine = store, engine })
	lab := map[string]any{
		"name": "lab", "provider": "none", "scheme": "", "unsigned": true, "consume": "sql", "redelivery": "reopen", "malformed": "reject",
		"replay_guard": false, "max_body": "1048576", "ack_timeout_seconds": 3.0, "dedupe_window_seconds": 2592000.0,
		"retention_seconds": 3600.0, "provider_retries_seconds": 0.0, "routes": []any{"r1"}, "on_dead": "crm",
		"learned_secrets": 0.0, "learned_at": nil, "armed_until": nil, "reconcile": nil,
		"address": "/webhooks/lab", "health": "watch", "why": "Requests are not verified.", "deliveries": "0", "last_delivery_at": nil,
	}
	const silent = "No deliveries in the last 24 hours."
	github := map[string]any{
		"name": "github", "provider": "github", "unsigned": false, "consume": "routes", "replay_guard": true,
		"max_body": fmt.Sprint(25 << 20), "ack_timeout_seconds": 3.0, "routes": []any{"r2", "r1"}, "on_dead": "",
		"address": "/webhooks/github", "health": "silent", "why": silent,
	}
	stripe := map[string]any{
		"name": "stripe", "provider": "stripe", "unsigned": false, "consume": "routes", "provider_retries_seconds": 259200.0, "on_dead": "",
		"address": "/webhooks/stripe", "health": "silent", "why": silent,
	}
	for key, value := range lab {
		for _, other := range []map[string]any{github, stripe} {
			if _, differs := other[key]; !differs {
				other[key] = value
			}
		}
	}
	retry := map[string]any{"attempts": 20.0, "first_seconds": 10.0, "max_seconds": 43200.0}
	circuit := map[string]any{"open": false, "failures": 0.0, "since": nil, "next_probe": nil}
	destination := func(name, address string, signed bool, rate any) any {
		return map[string]any{
			"name": name, "configured": true, "pending": "0", "sending": "0", "dead": "0", "held_lines": "0", "more": []any{}, "oldest_due_at": nil, "circuit": circuit, "last_failure": nil,
			"paused": false, "paused_at": nil,
			"settings": map[string]any{
				"address": address, "sender": address == "", "signed": signed, "timeout_seconds": 15.0, "retry": retry, "concurrency": 16.0, "rate": rate, "on_dead": "",
			},
		}
	}
	for path, want := range map[string]map[string]any{
		"/api/v1/sources": {"sources": []any{github, lab, stripe}},
		"/api/v1/routes": {"routes": []any{
			map[string]any{"name": "r2", "sources": []any{"github"}, "types": []any{}, "conditional": true, "destination": "crm"},
			map[string]any{"name": "r1", "sources": []any{}, "types": []any{"invoice.*"}, "conditional": false, "destination": "billing"},
		}},
		"/api/v1/destinations": {"destinations": []any{
			destination("billing", "http://billing.example.com", false, map[string]any{"count": 100.0, "per_seconds": 1.0}),
			destination("crm", "https://crm.example.com:8443/hooks/…", true, nil),
			destination("mail", "", false, nil),
		}},
	} {
		resp := a.get(t, path)
		if diff := cmp.Diff(want, readJSON[map[string]any](t, resp)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
		if strings.Contains(string(resp.body), "s3cret") {
			t.Errorf("%s shows a secret", path)
		}
		wantDetail(t, a.get(t, path+"?source=github"), http.StatusBadRequest, "no parameters")
	}
}

func TestStatsAndDestinationsWithMessages(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	want := map[string]any{
		"events_pending": "0", "oldest_pending_at": nil, "messages_pending": "0", "messages_sending": "0", "oldest_due_at": nil,
		"dead_letters": "0", "quarantined": "0", "more": []any{}, "paused_destinations": []any{},
	}
	if diff := cmp.Diff(want, readJSON[map[string]any](t, g.get(t, "/api/v1/stats"))); diff != "" {
		t.Errorf("an empty store (-want +got):\n%s", diff)
	}
	g.enqueue(t, "d1", "d2")
	g.settle(t, driver.MessageDead)
	g.enqueue(t, "s1")
	g.lease(t)
	g.enqueue(t, "p1", "p2", "p3")
	key := driver.EventKey("lab", "gone")
	gone := driver.Claim{
		Key: key, Source: "lab", EventID: "gone", Headers: []byte("{}"), Work: driver.WorkQueued,
		Messages: []driver.NewMessage{{ID: driver.MessageID(key, 0, "old"), Route: "old", Destination: "removed"}},
	}
	_, err := g.store.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{gone}, Now: noon.Add(-time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	g.quarantine(t, "lab", "x", noon)
	g = newGatewayOn(t, g.store) // without the counts of a moment ago

	want = map[string]any{
		"events_pending": "1", "oldest_pending_at": "2026-01-31T11:00:00.000000Z", "messages_pending": "4", "messages_sending": "1",
		"oldest_due_at": "2026-01-31T11:00:00.000000Z", "dead_letters": "2", "quarantined": "1", "more": []any{}, "paused_destinations": []any{},
	}
	if diff := cmp.Diff(want, readJSON[map[string]any](t, g.get(t, "/api/v1/stats"))); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
	all := readJSON[struct{ Destinations []map[string]any }](t, g.get(t, "/api/v1/destinations")).Destinations
	for _, d := range all {
		if d["configured"] == true {
			delete(d, "settings")
			delete(d, "circuit")
			failure := d["last_failure"].(map[string]any)
			if page := g.page(t, "/destinations/billing", 200); !strings.Contains(text(page), "d1 invoice.paid 1 410 answered 410") {
				t.Errorf("the page of the destination lacks its failure: %s", text(page))
			}
			delete(failure, "at")
			delete(failure, "message_id")
		}
	}
	wantAll := []map[string]any{
		{
			"name": "billing", "configured": true, "pending": "3", "sending": "1", "dead": "2", "held_lines": "0", "more": []any{},
			"oldest_due_at": "2026-01-31T12:00:00.000000Z", "paused": false, "paused_at": nil,
			"last_failure": map[string]any{
				"source": "lab", "event_id": "d1", "type": "invoice.paid", "attempt": 1.0, "status_code": 410.0, "error": "answered 410",
			},
		},
		{
			"name": "removed", "configured": false, "pending": "1", "sending": "0", "dead": "0", "held_lines": "0", "more": []any{},
			"oldest_due_at": "2026-01-31T11:00:00.000000Z", "settings": nil, "circuit": nil,
			"paused": false, "paused_at": nil, "last_failure": nil,
		},
	}
	if diff := cmp.Diff(wantAll, all); diff != "" {
		t.Errorf("destinations (-want +got):\n%s", diff)
	}
}

// uncounted is a store that cannot count.
type uncounted struct{ driver.Store }

func (uncounted) Stats(context.Context) (*driver.Stats, error) { return nil, driver.ErrUnavailable }

// The API shows a circuit even if nothing can be counted, as when the database is down.
func TestAnOpenCircuitIsShown(t *testing.T) {
	t.Parallel()
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }))
	t.Cleanup(broken.Close)
	store := rig.OpenSQLite(t)
	engine := newEngine(t, store, &hookonce.Config{
		Destinations: []hookonce.Destination{{
			Name: "billing", URL: broken.URL, AllowPrivate: true,
			Retry: hookonce.Retry{Attempts: 1000, First: time.Minute, Max: time.Minute},
		}},
	})
	g := &gateway{api: newAPI(t, func(cfg *hookadmin.Config) { cfg.Store, cfg.Engine = uncounted{store}, engine }), store: store}
	wantProblem(t, g.get(t, "/api/v1/stats"), http.StatusServiceUnavailable)
	var ids []string
	for i := range 12 {
		ids = append(ids, fmt.Sprint(i))
	}
	g.enqueue(t, ids...)
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- engine.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	}()
	eventually.True(t, "the circuit opens", func() bool {
		d := readJSON[circuits](t, g.get(t, "/api/v1/destinations")).Destinations[0]
		c := d.Circuit
		if c.Open {
			if c.Failures < 10 || c.Since == nil || c.NextProbe == nil || !c.NextProbe.After(*c.Since) {
				t.Errorf("circuit %+v", c)
			}
			if d.Pending != nil || d.Sending != nil || d.Dead != nil || !strings.Contains(g.log.String(), "listed without their counts") {
				t.Errorf("without counts: %+v\n%s", d, g.log)
			}
		}
		return c.Open
	})
	eventually.True(t, "the overview warns, with the last error", func() bool { // attempts are stored after the circuit knows them
		got := warnings(g.page(t, "/", 200))
		return len(got) == 1 && circuitWarning.MatchString(got[0])
	})
}

var circuitWarning = regexp.MustCompile(`^! Circuit open The destination billing failed .* The last error: answered 500.* \(\d+ of lab, .* UTC\)\. ` +
	`Once it is repaired, this retries at once: hookonce destinations retry billing Copy$`)

type circuits struct {
	Destinations []struct {
		Pending, Sending, Dead *string
		Circuit                struct {
			Open      bool
			Failures  int
			Since     *time.Time
			NextProbe *time.Time `json:"next_probe"`
		}
	}
}

// The page of a source says how to set its sender up: one that hands its secret over, and one without a name.
func TestSetUpOfASender(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	engine := newEngine(t, store, &hookonce.Config{Sources: everySource()})
	a := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store, cfg.Engine = store, engine })
	if got := text(a.page(t, "/sources/todo", 200)); !strings.Contains(got, "Let the source take the secret that Asana sends") ||
		!strings.Contains(got, "hookonce sources arm todo") || strings.Contains(got, "Copy the signing secret") {
		t.Errorf("a sender that hands its secret over: %s", got)
	}
	if got := text(a.page(t, "/sources/lab", 200)); !strings.Contains(got, "Set up at the sender") || strings.Contains(got, "signed as") {
		t.Errorf("an unsigned sender: %s", got)
	}
	if got := text(a.page(t, "/sources/default", 200)); !strings.Contains(got, "Copy the signing secret of Stripe") {
		t.Errorf("a sender with a secret to copy: %s", got)
	}
}

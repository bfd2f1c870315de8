package hookadmin_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

// Pages and the API tell of events that never arrived, of a list that cannot be read, and of events by reconcile.
func TestReconcileIsShown(t *testing.T) {
	store := rig.OpenSQLite(t)
	engine := newEngine(t, store, &hookonce.Config{
		Sources: []hookonce.Source{{
			Name: "pay", Provider: provider.Stripe, Secrets: hookonce.StaticSecrets("a-secret-of-16-bytes-or-more"),
			Reconcile: &hookonce.Reconcile{Key: "rk_live_s3cret", Every: time.Hour},
		}},
		Destinations: []hookonce.Destination{{Name: "billing", URL: "http://billing.example.com"}},
		Routes:       []hookonce.Route{{Name: "all", To: "billing"}},
	})
	a := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store, cfg.Engine = store, engine })
	source := func() map[string]any {
		t.Helper()
		page := readJSON[map[string]any](t, a.get(t, "/api/v1/sources"))
		return page["sources"].([]any)[0].(map[string]any)["reconcile"].(map[string]any)
	}
	if got := source(); got["every_seconds"] != 3600.0 || got["next_at"] != nil || got["running"] != false {
		t.Errorf("before the first look: %v", got)
	}
	if page := a.page(t, "/sources/pay", http.StatusOK); !strings.Contains(page, "not read yet") {
		t.Error("the page of the source does not say that the list was not read yet")
	}

	look, err := store.TakeReconcile(t.Context(), &driver.TakeReconcileParams{Source: "pay", Lease: time.Minute, Every: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if got := source(); got["running"] != true {
		t.Errorf("during a look: %v", got)
	}
	first, last := time.Date(2026, 1, 30, 8, 0, 0, 0, time.UTC), time.Date(2026, 1, 31, 9, 30, 0, 0, time.UTC)
	step := &driver.ReconcileStep{Source: "pay", Fence: look.Fence, Lease: time.Minute, Missed: 1200, FirstMissing: first, LastMissing: last}
	step.End = &driver.ReconcileEnd{Next: time.Hour, Error: "the API refuses the key", Unreadable: 3}
	if held, err := store.StepReconcile(t.Context(), step); err != nil || !held {
		t.Fatal(held, err)
	}
	got := source()
	if got["missed"] != "1200" || got["error"] != "the API refuses the key" || got["unreadable"] != "3" || got["running"] != false ||
		got["first_missing"] != "2026-01-30T08:00:00.000000Z" || got["last_missing"] != "2026-01-31T09:30:00.000000Z" {
		t.Errorf("after a look: %v", got)
	}
	const missing = "1,200 events never arrived by webhook. The first happened at 2026-01-30 08:00:00 UTC, the last at 2026-01-31 09:30:00 UTC."
	for target, texts := range map[string][]string{
		"/":            {"Webhook broken", missing, "hookonce reconcile pay --since 3d --plan", "List not read", "the API refuses the key"},
		"/sources":     {missing},
		"/sources/pay": {missing, "next read at", "last read at", "the API refuses the key"},
	} {
		page := a.page(t, target, http.StatusOK)
		for _, text := range texts {
			if !strings.Contains(page, text) {
				t.Errorf("page %s lacks %q", target, text)
			}
		}
		if strings.Contains(page, "s3cret") {
			t.Errorf("page %s shows the key", target)
		}
	}

	ev := event{source: "pay", id: "evt_1", typ: "invoice.paid", body: "{}", at: time.Now()}
	c := ev.claim()
	c.Remote = driver.RemoteReconcile
	if _, err := store.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{c}}); err != nil {
		t.Fatal(err)
	}
	detail := readJSON[map[string]any](t, a.get(t, "/api/v1/events/pay/evt_1"))
	recent := detail["deliveries"].(map[string]any)["recent"].([]any)[0].(map[string]any)
	if detail["by"] != "reconcile" || recent["by"] != "reconcile" {
		t.Errorf("the event is by %v, and its first line by %v", detail["by"], recent["by"])
	}
	listed := readJSON[map[string]any](t, a.get(t, "/api/v1/events"))["events"].([]any)[0].(map[string]any)
	if page := a.page(t, "/events", http.StatusOK); listed["by"] != "reconcile" || !strings.Contains(page, "by reconcile") {
		t.Errorf("the event is listed by %v, or its row does not say so", listed["by"])
	}
	if page := a.page(t, "/events/pay/evt_1", http.StatusOK); !strings.Contains(page, "found in the provider&#39;s list") || !strings.Contains(page, "no delivery") {
		t.Error("the page of the event does not say that it came by reconcile")
	}
}

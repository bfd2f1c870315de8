package hookadmin_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookmigrate"
	"github.com/hookonce/hookonce/hookpgx"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
	"github.com/hookonce/hookonce/internal/test/rig"
)

// postgresStores open a store of each client on a server.
var postgresStores = map[string]func(t *testing.T, dsn string) (driver.Store, driver.Migrator){
	"pgx": func(t *testing.T, dsn string) (driver.Store, driver.Migrator) {
		config, err := pgxpool.ParseConfig(dsn)
		if err != nil {
			t.Fatal(err)
		}
		store, err := hookpgx.Open(config, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		return store, store
	},
	"sql": func(t *testing.T, dsn string) (driver.Store, driver.Migrator) {
		store, err := hooksql.OpenPostgres("pgx", dsn)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		return store, store
	},
}

// A canary stands in every body, header and error text.
const canary = "canary-of-a-body"

// fillListings gives each listing a row.
func (g *gateway) fillListings(t *testing.T) {
	t.Helper()
	claim(t, g.store, event{source: "lab", id: "evt_kept", typ: "invoice.paid", body: `{"secret":"` + canary + `"}`, routes: []string{"billing"}})
	for _, m := range g.lease(t) {
		if _, err := g.store.Complete(t.Context(), &driver.CompleteParams{Completions: []driver.Completion{{
			ID: m.ID, Token: m.Token, Outcome: driver.MessageDead, StatusCode: 500, Error: "answered 500: " + canary,
		}}}); err != nil {
			t.Fatal(err)
		}
	}
	g.addRefused(t, driver.RefusedRequest{
		ErrorID: "err_kept", At: time.Now(), Source: "lab", Reason: "method", Status: 405, Method: "PUT",
		Headers: []byte(`{"X-Kept":["` + canary + `"]}`), Body: []byte(canary), BodySize: int64(len(canary)),
	})
	g.quarantine(t, "lab", canary, time.Now())
	if resp := g.post(t, "/api/v1/jobs", `{"action":"replay","filter":{"destination":"billing"}}`); resp.status != http.StatusCreated {
		t.Fatalf("planning a job: %d %s", resp.status, resp.body)
	}
	wantText(t, g.page(t, "/jobs?state=failed", 200), "No jobs.")
}

// listings are the pages of listings, with a text of the row of fillListings.
var listings = map[string]string{
	"/events": "evt_kept", "/dead-letters": "evt_kept", "/refused": "err_kept", "/quarantine": "no id", "/jobs": "Replay of dead letters",
}

// While the server is stopped, each listing shows its last rows with their age, without the texts that may be
// redacted by then and without actions. The overview warns, and answers say that the connection was refused.
func TestStoppedDatabase(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	for name, open := range postgresStores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "sql" {
				group.NeedLong(t)
			}
			server := dbtest.StartServer(t, nil)
			store, schema := open(t, server.DSN())
			if _, err := hookmigrate.Up(t.Context(), schema); err != nil {
				t.Fatal(err)
			}
			g := newGatewayOn(t, store)
			g.fillListings(t)
			for path, row := range listings {
				if page := g.page(t, path, 200); !strings.Contains(page, row) || strings.Contains(page, "These are the first rows") {
					t.Errorf("%s: %s", path, text(page))
				}
			}
			g.page(t, "/", 200)
			if page := g.page(t, "/events/lab/evt_kept?body=raw", 200); !strings.Contains(page, canary) || !strings.Contains(page, "Copy id") {
				t.Errorf("the event: %s", text(page))
			}
			claim(t, g.store, event{source: "lab", id: "evt_unseen", typ: "t", body: "{}"})
			server.Shutdown(t)
			const refused = "The database cannot be reached: the connection was refused."
			eventually.True(t, "the page is shown again", func() bool { // the first calls meet connections that were cut
				return strings.Contains(string(g.get(t, "/api/v1/events").body), refused)
			})
			g.checkAway(t, refused)

			server.Restart(t)
			eventually.True(t, "the events are listed again", func() bool { return g.get(t, "/api/v1/events").status == 200 })
			for path := range listings {
				if page := g.page(t, path, 200); strings.Contains(page, refused) {
					t.Errorf("%s with the database again: %s", path, text(page))
				}
			}
			if page := g.page(t, "/events/lab/evt_kept", 200); !strings.Contains(page, canary) || !strings.Contains(page, "act/replay") || strings.Contains(page, refused) {
				t.Errorf("the event again: %s", text(page))
			}
			if page := g.page(t, "/dead-letters", 200); !strings.Contains(page, canary) || !strings.Contains(page, "Replay selected") {
				t.Errorf("the dead letters again: %s", text(page))
			}
		})
	}
}

// checkAway checks the pages while the database is away for the given reason.
func (g *gateway) checkAway(t *testing.T, why string) {
	t.Helper()
	for path, row := range listings {
		page := g.page(t, path, 200)
		wantText(t, page, row, why+" These are the first rows as they were ")
		if strings.Contains(page, canary) || strings.Contains(page, `name="action"`) || !strings.Contains(page, `data-every="10"`) {
			t.Errorf("%s has a kept text, an action, or does not try again: %s", path, page)
		}
		if other := g.page(t, path+"?limit=7", 503); !strings.Contains(text(other), why+" So there are no rows.") || !strings.Contains(other, "the last rows without filters") {
			t.Errorf("%s with a parameter: %s", path, text(other))
		}
	}
	wantText(t, g.page(t, "/jobs?state=failed", 200), why+" There was no row ")
	if again := g.page(t, "/events?refresh=10", 200); !strings.Contains(again, `http-equiv="refresh" content="10"`) || !strings.Contains(again, "evt_kept") {
		t.Errorf("a page that reloads: %s", text(again))
	}
	overview := g.page(t, "/", 200)
	wantText(t, overview, why+" Grey figures were read ", "evt_kept")
	if strings.Contains(overview, canary) {
		t.Error("the overview keeps an error text")
	}
	g.checkEventAway(t, why)
	wantText(t, g.page(t, "/search?q=evt_kept", 503), why+" So there are no hits.")
	wantDetail(t, g.post(t, "/api/v1/events/lab/evt_kept/replay", "{}"), 503, why)
}

// checkEventAway checks the pages of events while the database is away: one that was shown before, and another one.
func (g *gateway) checkEventAway(t *testing.T, why string) {
	t.Helper()
	for _, path := range []string{"/events/lab/evt_kept", "/events/lab/evt_kept?body=hex", "/event?source=lab&id=evt_kept"} {
		page := g.page(t, path, 200)
		wantText(t, page, why+" This is the event as it was ", ", without body, headers and error texts. Try again", "dead", "invoice.paid", "attempt 1 failed for good: 500", "billing")
		if strings.Contains(page, canary) || strings.Contains(page, "/act/") || strings.Contains(page, `id="body"`) || !strings.Contains(page, `data-every="10"`) {
			t.Errorf("%s has a kept text, an action, or does not try again: %s", path, page)
		}
	}
	for path, status := range map[string]int{"/events/lab/evt_unseen": 503, "/event/body?source=lab&id=evt_kept": 503, "/jobs/j": 503, "/events/lab/evt_kept?x=1": 400} {
		page := g.page(t, path, status)
		if again := strings.Contains(page, `<a href="">Try again</a>`) && strings.Contains(page, `data-every="10"`); again != (status == 503) {
			t.Errorf("%s tries again: %t: %s", path, again, page)
		}
		if status == 503 {
			wantText(t, page, why, "Reload every 10 seconds", "they may still have their last content")
		}
	}
}

// A database that does not answer is told from one that refuses.
func TestFrozenDatabase(t *testing.T) {
	group.Need(t, "servers")
	t.Parallel()
	server := dbtest.StartServer(t, nil)
	store, schema := postgresStores["pgx"](t, server.DSN())
	if _, err := hookmigrate.Up(t.Context(), schema); err != nil {
		t.Fatal(err)
	}
	g := newGatewayOn(t, store)
	g.fillListings(t)
	g.page(t, "/events", 200)
	server.Stop(t)
	defer server.Cont(t)
	for path, want := range map[string]string{
		"/events": "The database did not answer in time. These are the first rows", "/refused": "The database did not answer in time. So there are no rows.",
	} {
		resp := g.do(t, http.MethodGet, path, func(r *http.Request) {
			ctx, cancel := context.WithTimeout(r.Context(), 500*time.Millisecond) // the handler's own is longer
			t.Cleanup(cancel)
			*r = *r.WithContext(ctx)
		})
		wantText(t, string(resp.body), want)
	}
}

// The pages that are kept are bounded, and the newest stay.
func TestKeptPagesAreBounded(t *testing.T) {
	t.Parallel()
	store := &leaving{Store: rig.OpenSQLite(t)}
	g := newGatewayOn(t, store)
	for i := range 60 {
		claim(t, store, event{source: "lab", id: fmt.Sprintf("evt_%02d", i), typ: "t", body: "{}", at: noon.Add(time.Duration(i) * time.Second)})
	}
	g.page(t, "/events?limit=200", 200)
	for i := range 64 {
		g.page(t, fmt.Sprintf("/events?type=t%d", i), 200)
	}
	g.page(t, "/events?limit=60", 200)
	for i := range 65 {
		claim(t, store, event{source: "lab", id: fmt.Sprintf("opened_%02d", i), typ: "t", body: "{}", at: noon})
		g.page(t, fmt.Sprintf("/events/lab/opened_%02d", i), 200)
	}
	store.away.Store(true)
	g.page(t, "/events/lab/opened_00", 503)
	g.page(t, "/events/lab/opened_01", 200)
	g.page(t, "/events/lab/opened_64", 200)
	g.page(t, "/events?limit=200", 503)
	g.page(t, "/events?type=t0", 503)
	g.page(t, "/events?type=t63", 200)
	page := g.page(t, "/events?limit=60", 200)
	if n := strings.Count(page, "<tr role=\"row\" data-row="); n != 50 || !strings.Contains(page, "evt_59") {
		t.Errorf("%d rows are kept, want the first 50", n)
	}
	if strings.Contains(page, "data-older") {
		t.Error("the page leads to older rows, which cannot be read")
	}
}

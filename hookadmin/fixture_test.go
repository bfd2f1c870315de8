package hookadmin_test

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

// gateway is an API on a store, with an engine that sends events of the source "lab" to the
// destination "billing" by the route "billing". The engine does not run, so no message is sent by
// itself.
type gateway struct {
	*api
	store  driver.Store
	engine *hookonce.Engine
}

func newGateway(t *testing.T) *gateway {
	t.Helper()
	return newGatewayOn(t, rig.OpenSQLite(t))
}

func newGatewayOn(t *testing.T, store driver.Store) *gateway {
	t.Helper()
	engine := newEngine(t, store, &hookonce.Config{
		Sources:      []hookonce.Source{{Name: "lab", Provider: provider.None, Event: provider.EventRules{ID: "body:id"}}},
		Destinations: []hookonce.Destination{{Name: "billing", URL: "https://billing.example.com/hooks/s3cret"}},
		Routes:       []hookonce.Route{{Name: "billing", Types: []string{"invoice.*"}, To: "billing"}},
	})
	return &gateway{newAPI(t, func(cfg *hookadmin.Config) { cfg.Store, cfg.Engine = store, engine }), store, engine}
}

// enqueue claims events of the source "lab" with one open message each, and returns the message ids.
func (g *gateway) enqueue(t *testing.T, ids ...string) []string {
	t.Helper()
	var messages []string
	p := &driver.ClaimParams{Now: noon}
	for _, id := range ids {
		c := event{source: "lab", id: id, typ: "invoice.paid", body: "{}", routes: []string{"billing"}}.claim()
		p.Claims = append(p.Claims, c)
		messages = append(messages, c.Messages[0].ID)
	}
	slices.SortFunc(p.Claims, func(a, b driver.Claim) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	if _, err := g.store.Claim(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return messages
}

// lease leases all due messages.
func (g *gateway) lease(t *testing.T) []driver.Message {
	t.Helper()
	leased, err := g.store.Lease(t.Context(), &driver.LeaseParams{
		Destination: "billing", Limit: 1000, For: time.Hour, MaxAttempts: 5,
	})
	if err != nil {
		t.Fatal(err)
	}
	return leased.Messages
}

// settle completes all due messages with the outcome.
func (g *gateway) settle(t *testing.T, outcome driver.MessageOutcome) {
	t.Helper()
	p := new(driver.CompleteParams)
	for _, m := range g.lease(t) {
		c := driver.Completion{ID: m.ID, Token: m.Token, Outcome: outcome, StatusCode: 200, RetryIn: time.Hour}
		if outcome != driver.MessageSent {
			c.StatusCode, c.Error = 410, "answered 410"
		}
		p.Completions = append(p.Completions, c)
	}
	held, err := g.store.Complete(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	for i, ok := range held {
		if !ok {
			t.Fatalf("the lease of %s was lost", p.Completions[i].ID)
		}
	}
}

// prune removes the bodies of finished events.
func (g *gateway) prune(t *testing.T) {
	t.Helper()
	now := time.Now().Add(2 * time.Hour) // nothing can be undone any more
	_, err := g.store.Prune(t.Context(), &driver.PruneParams{DedupeWindow: now.Sub(noon) + 48*time.Hour, Retention: time.Hour, Now: now})
	if err != nil {
		t.Fatal(err)
	}
}

// post sends body as JSON, with header lines of the form "Name: value".
func (a *api) post(t *testing.T, target, body string, header ...string) *answer {
	t.Helper()
	return a.send(t, http.MethodPost, target, body, func(r *http.Request) {
		r.Header.Set("Content-Type", "application/json")
		for _, line := range header {
			name, value, _ := strings.Cut(line, ": ")
			r.Header.Set(name, value)
		}
	})
}

// shown returns the event as the API shows it.
func (a *api) shown(t *testing.T, id string) map[string]any {
	t.Helper()
	return readJSON[map[string]any](t, a.get(t, "/api/v1/events/lab/"+encodeAll(id)))
}

// wantState checks the state of an event.
func (a *api) wantState(t *testing.T, id, state string) {
	t.Helper()
	if got := a.shown(t, id)["state"]; got != state {
		t.Errorf("event %s is %v, want %s", id, got, state)
	}
}

// actions returns the history of an event.
func (a *api) actions(t *testing.T, id string) []string {
	t.Helper()
	actions := []string{}
	for _, entry := range a.shown(t, id)["history"].([]any) {
		actions = append(actions, entry.(map[string]any)["action"].(string))
	}
	return actions
}

// column returns the texts under key in a listing, sorted.
func (a *api) column(t *testing.T, target, listing, key string) []string {
	t.Helper()
	texts := []string{}
	for _, row := range readJSON[map[string]any](t, a.get(t, target))[listing].([]any) {
		texts = append(texts, row.(map[string]any)[key].(string))
	}
	slices.Sort(texts)
	return texts
}

// wantDetail checks a refusal, and that its detail contains want.
func wantDetail(t *testing.T, resp *answer, status int, want string) {
	t.Helper()
	if p := wantProblem(t, resp, status); !strings.Contains(p.Detail, want) {
		t.Errorf("detail %q, want %q in it", p.Detail, want)
	}
}

// know makes the store know sources that are not in the settings, as another process with them does.
func know(t *testing.T, store driver.Store, sources ...string) {
	t.Helper()
	p := &driver.PruneParams{DedupeWindow: time.Hour, Retention: time.Hour, Sources: map[string]driver.SourceWindows{}}
	for _, source := range sources {
		p.Sources[source] = driver.SourceWindows{DedupeWindow: time.Hour, Retention: time.Hour}
	}
	if err := store.RegisterWindows(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

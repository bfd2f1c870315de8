package hookadmin_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/hooksql"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

// letterPage stores three dead letters, one of them an event without messages, and opens their page.
func newLetters(t *testing.T) (*gateway, *browser) {
	t.Helper()
	g := newGateway(t)
	g.enqueue(t, "d1", "d2")
	g.settle(t, driver.MessageDead)
	key := driver.EventKey("lab", "d3")
	_, err := g.store.CountInlineFailure(t.Context(), &driver.InlineFailure{
		Claim: driver.Claim{Key: key, Source: "lab", EventID: "d3", Type: "t", Headers: []byte("{}"), Body: []byte("{}"), Work: driver.WorkQueued},
		Error: "panic: no", Dead: true, Limit: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	return g, newBrowser(g.api)
}

func TestDeadLettersPage(t *testing.T) {
	t.Parallel()
	g, _ := newLetters(t)
	page := g.show(t, "/dead-letters", 200)
	wantText(t, page, "answered 410", "panic: no", "billing", "d1", "d2", "d3")
	if diff := cmp.Diff([]string{"d3"}, idsOn(g.show(t, "/dead-letters?type=t", 200))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := strings.Count(g.show(t, "/dead-letters?select=page", 200), " checked></td>"); n != 3 {
		t.Errorf("%d of 3 rows are ticked", n)
	}
	wantText(t, g.show(t, "/dead-letters?state=done", 400), `state: "done" is not a state here`)
	wantText(t, g.show(t, "/dead-letters?q=nothing&type=t", 200), "There are some without q.")
	wantText(t, newGateway(t).show(t, "/dead-letters", 200), "No dead letters.")
}

// Groups come before the letters, the largest first, each with a link to its letters.
func TestGroupsOfDeadLetters(t *testing.T) {
	t.Parallel()
	g, _ := newLetters(t)
	page := g.show(t, "/dead-letters", 200)
	wantText(t, page, "Kind of error", "2 answered 410 billing", "1 panic: no events of lab")
	only := linksOn(t, page, "/dead-letters", "answered 410")
	if len(only) != 1 || only[0] != "/dead-letters?destination=billing&signature=answered+410" {
		t.Fatalf("the group links to %q", only)
	}
	if diff := cmp.Diff([]string{"d1", "d2"}, sorted(idsOn(g.show(t, only[0], 200)))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if strings.Contains(text(g.show(t, "/dead-letters?type=t", 200)), "Kind of error") {
		t.Error("groups are shown beside a filter that does not select them")
	}
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}

// A replay of ticked rows shows its plan first, and acts once it is confirmed.
func TestReplayOfTickedLetters(t *testing.T) {
	t.Parallel()
	g, b := newLetters(t)
	at := "/dead-letters?type=invoice.paid"
	to, values := formOn(t, b.open(t, at), at, "/act/letters")
	values.Set("action", "replay")
	for _, id := range []string{"d1", "d2"} {
		values.Add("letter", "m/"+driver.MessageID(driver.EventKey("lab", id), 0, "billing"))
	}
	resp := b.send(t, http.MethodPost, to, values.Encode(), nil)
	if resp.status != 200 {
		t.Fatalf("status %d: %s", resp.status, resp.body)
	}
	wantText(t, string(resp.body), "2 dead letters will be due again")
	g.wantState(t, "d1", driver.StateDead)

	to, values = formOn(t, string(resp.body), to, "/act/letters")
	page := b.follow(t, to, b.send(t, http.MethodPost, to, values.Encode(), nil))
	wantText(t, page, "2 dead letters replayed.", "No dead letters match")
	if !strings.Contains(page, "invoice.paid") {
		t.Error("the filter is gone")
	}
	g.wantState(t, "d1", driver.StateRunning)
	wantText(t, b.follow(t, to, b.send(t, http.MethodPost, to, values.Encode(), nil)), "2 dead letters replayed.")
}

func TestDiscardOfTickedLetters(t *testing.T) {
	t.Parallel()
	g, b := newLetters(t)
	page := b.submit(t, "/dead-letters", "/act/letters", "action", "discard", "letter", "e/lab/d3", "letter", "m/"+driver.MessageID(driver.EventKey("lab", "d1"), 0, "billing"))
	wantText(t, page, "2 dead letters discarded")
	if diff := cmp.Diff([]string{"d2"}, idsOn(page)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	g.wantState(t, "d3", driver.StateSkipped)
}

func TestLettersThatTheDatabaseRefuses(t *testing.T) {
	t.Parallel()
	g, b := newLetters(t)
	if _, err := g.store.(*hooksql.Store).Writer().ExecContext(t.Context(), `CREATE TRIGGER refuse BEFORE UPDATE ON hookonce_event_state
		BEGIN SELECT RAISE(ABORT, 'not this one'); END`); err != nil {
		t.Fatal(err)
	}
	page := b.submit(t, "/dead-letters", "/act/letters", "action", "discard", "letter", "e/lab/d3", "letter", "m/"+driver.MessageID(driver.EventKey("lab", "d1"), 0, "billing"))
	wantText(t, page, "1 dead letter discarded. 1 refused, the last: event \"d3\" of source \"lab\": the database refused the row.")
}

func TestWrongSelections(t *testing.T) {
	t.Parallel()
	g, b := newLetters(t)
	to, values := formOn(t, b.open(t, "/dead-letters"), "/dead-letters", "/act/letters")
	many := make([]string, driver.MaxLimit+1)
	for i := range many {
		many[i] = "m/" + strings.Repeat("x", i+1)
	}
	for _, tt := range []struct {
		letters []string
		want    string
	}{
		{nil, "no dead letter was selected"},
		{[]string{"x"}, "does not name a dead letter"},
		{[]string{"m/"}, "does not name a dead letter"},
		{[]string{"e/lab"}, "does not name a dead letter"},
		{[]string{"e/%zz/x"}, "does not name a dead letter"},
		{[]string{"m/a", "m/a"}, "appears twice"},
		{many, "more than 200"},
	} {
		form := url.Values{"token": values["token"], "key": values["key"], "action": {"discard"}, "letter": tt.letters}
		wantText(t, b.follow(t, to, b.send(t, http.MethodPost, to, form.Encode(), nil)), tt.want)
	}
	values.Add("letter", "e/lab/d3")
	values.Set("action", "explode")
	wantProblemPage(t, b.send(t, http.MethodPost, to, values.Encode(), nil), 400)
	g.wantState(t, "d3", driver.StateDead)
}

func TestRefusedPage(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	wantText(t, g.show(t, "/refused", 200), "No refused requests.")
	now := time.Now()
	for i, id := range []string{"a", "b", "c"} {
		g.addRefused(t, driver.RefusedRequest{
			ErrorID: id, At: now.Add(time.Duration(i) * time.Second), Source: "lab", Reason: "signature_wrong", Status: 401, Method: "POST",
			Remote: "203.0.113.9", Gateway: "gw-1", Headers: []byte(`{"X-Sig":["<64 bytes>"]}`), Body: []byte(`{"a":"ü`[:7]), BodySize: 9000,
		})
	}
	page := g.show(t, "/refused", 200)
	wantText(t, page, "signature_wrong", "203.0.113.9", "gw-1", "<64 bytes>", `{"a":"`, "the rest was not kept")
	if strings.Contains(page, "Wrong secret?") {
		t.Error("a wrong secret is suspected without figures")
	}
	g.addFigures(t, driver.Figure{Of: driver.FigureRefusals, At: now, Name: "lab", Label: "signature_wrong", N: 3})
	wantText(t, g.show(t, "/refused", 200), "Wrong secret? The source lab refused 3 requests")
	g.addFigures(t, driver.Figure{Of: driver.FigureDeliveries, At: now, Name: "lab", Label: "duplicate", N: 1})
	if strings.Contains(g.show(t, "/refused", 200), "Wrong secret?") {
		t.Error("a wrong secret is suspected although a signature was right")
	}
	wantText(t, g.show(t, "/refused?reason=nonsense", 400), `reason: "nonsense" is unknown`)
	wantText(t, g.show(t, "/refused?id=urn:hookonce:error:b", 200), "b")
	wantText(t, g.show(t, "/refused?reason=rate&source=lab", 200), "There are some without reason.")
}

// The location in the catalog comes first, with its value or without one. An unconfirmed one is called so.
func TestQuarantineSuggestsTheDocumentedLocation(t *testing.T) {
	t.Parallel()
	store, wrong := rig.OpenSQLite(t), provider.EventRules{ID: "body:wrong"}
	secret := hookonce.StaticSecrets("whsec_of_this_test_alone")
	engine := newEngine(t, store, &hookonce.Config{Sources: []hookonce.Source{
		{Name: "stripe", Provider: provider.Stripe, Secrets: secret, Event: wrong},
		{Name: "github", Provider: provider.GitHub, Secrets: secret},
		{Name: "hinted", Provider: provider.Tebex, Secrets: secret, Event: wrong},
	}})
	g := &gateway{newAPI(t, func(cfg *hookadmin.Config) { cfg.Store, cfg.Engine = store, engine }), store, engine}
	const body = `{"id":"evt_9","data":{"uuid":"u-1"}}`
	for source, want := range map[string][]string{
		"stripe": {"Where Stripe has the event id", "body:id = evt_9", "Other names that look like an event id", "body:data.uuid = u-1", "Set one as event.id"},
		"github": {"Where GitHub has the event id", "header:X-GitHub-Delivery – not in this request", "body:id = evt_9"},
		"hinted": {"has the event id, not confirmed", "body:id = evt_9"},
		"gone":   {"Names that look like an event id body:id = evt_9"},
	} {
		g.quarantine(t, source, body, noon)
		page := g.show(t, "/quarantine?source="+source, 200)
		wantText(t, page, want...)
		if n := strings.Count(text(page), "body:id = "); n != 1 {
			t.Errorf("%s: body:id is suggested %d times", source, n)
		}
	}
}

func TestQuarantinePage(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	wantText(t, g.show(t, "/quarantine", 200), "The quarantine is empty.")
	g.quarantine(t, "lab", `{"order":{"id":"o-7","lines":[{"id":1}]},"meta":{"a":{"uuid":12345678901234567890}}}`, noon)
	g.quarantine(t, "lab", "text", noon.Add(time.Hour))
	page := g.show(t, "/quarantine", 200)
	wantText(t, page, "no id", "body:order.id = o-7", "body:meta.a.uuid = 12345678901234567890", "No place in the request looks like an event id.", "×1")
	wantText(t, g.show(t, "/quarantine?source=none", 200), "Nothing of this source is in the quarantine.")
	wantText(t, g.show(t, "/quarantine?limit=100", 400), "limit: ")

	b := newBrowser(g.api)
	to, values := formOn(t, b.open(t, "/quarantine"), "/quarantine", "/act/quarantine")
	wantText(t, b.follow(t, to, b.send(t, http.MethodPost, to, values.Encode(), nil)), "The request stays in the quarantine:")
	g.quarantine(t, "lab", `{"id":"now-it-works"}`, noon.Add(2*time.Hour))
	wantText(t, b.submit(t, "/quarantine", "/act/quarantine"), "Read again: 1 event new")
	values.Set("id", "0123")
	wantText(t, b.follow(t, to, b.send(t, http.MethodPost, to, values.Encode(), nil)), "There is no such quarantined request any more.")
}

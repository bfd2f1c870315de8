package hookadmin_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// claimInLine claims events such as o1, of the versions from one to another, each with a message of that version of one object.
func (g *gateway) claimInLine(t *testing.T, from, to int) {
	t.Helper()
	p := &driver.ClaimParams{Now: noon}
	for v := from; v <= to; v++ {
		c := event{source: "lab", id: fmt.Sprint("o", v), typ: "invoice.paid", body: "{}", routes: []string{"billing"}}.claim()
		c.Messages[0].Order = &driver.Order{Hold: true, Line: driver.ObjectVersion{
			Object: driver.ObjectKey("lab", "billing", "o"), Source: "lab", Version: []byte{byte(v >> 8), byte(v)}, Shown: fmt.Sprint(v),
		}}
		p.Claims = append(p.Claims, c)
	}
	slices.SortFunc(p.Claims, func(a, b driver.Claim) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	if _, err := g.store.Claim(t.Context(), p); err != nil {
		t.Fatal(err)
	}
}

// admit leases all due messages, and returns the outcome of those that are let go.
func (g *gateway) admit(t *testing.T, outcome driver.MessageOutcome) *driver.CompleteParams {
	t.Helper()
	p, c := &driver.AdmitParams{}, &driver.CompleteParams{}
	for _, m := range g.lease(t) {
		p.Messages = append(p.Messages, driver.OrderedMessage{MessageLease: driver.MessageLease{ID: m.ID, Token: m.Token}})
	}
	admitted, err := g.store.Admit(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range p.Messages {
		if admitted[i].Verdict == driver.Admitted {
			line := admitted[i].Line
			line.Source = "lab"
			c.Completions = append(c.Completions, driver.Completion{ID: m.ID, Token: m.Token, Outcome: outcome, StatusCode: 410, Line: &line})
		}
	}
	return c
}

// endFirst ends the one message that is let go.
func (g *gateway) endFirst(t *testing.T, outcome driver.MessageOutcome) {
	t.Helper()
	if held, err := g.store.Complete(t.Context(), g.admit(t, outcome)); err != nil || len(held) != 1 || !held[0] {
		t.Fatalf("Complete: %v, %v, want one message that is held", held, err)
	}
}

// An event below a version that was sent is replayed only if the request allows it.
func TestReplayOfAPassedVersion(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.claimInLine(t, 1, 2)
	g.endFirst(t, driver.MessageSent)
	g.endFirst(t, driver.MessageSent)
	for _, mode := range []string{"same_id", "as_new"} {
		p := wantProblem(t, g.post(t, "/api/v1/events/lab/o1/replay", `{"`+mode+`":true}`), 422)
		if p.Reason != "passed" || !strings.Contains(p.Detail, "higher version") {
			t.Errorf("the replay with %s is refused by %+v, want the reason passed", mode, p)
		}
	}
	g.wantState(t, "o1", "done")
	if resp := g.post(t, "/api/v1/events/lab/o1/replay", `{"same_id":true,"stale":true}`); resp.status != 200 {
		t.Errorf("a replay that may be stale is answered %d: %s", resp.status, resp.body)
	}
	g.endFirst(t, driver.MessageSent)
}

// A dead letter that holds its line is shown with the number of messages behind it, by the page and the API.
func TestLineBehindADeadLetter(t *testing.T) {
	t.Parallel()
	for waiting, says := range map[int]string{
		0:                 "",
		1:                 "1 message waits behind it, in the order of its object.",
		2:                 "2 messages wait behind it, in the order of their object.",
		driver.MaxWaiting: "1,000 messages or more wait behind it, in the order of their object.",
	} {
		t.Run(fmt.Sprint(waiting), func(t *testing.T) {
			t.Parallel()
			g := newGateway(t)
			b := newBrowser(g.api)
			g.claimInLine(t, 1, 1)
			g.endFirst(t, driver.MessageDead)
			if waiting > 0 {
				g.claimInLine(t, 2, waiting+1)
			}
			if let := g.admit(t, driver.MessageSent).Completions; len(let) > 0 {
				t.Fatalf("%d messages are let go behind a dead letter that holds", len(let))
			}
			page := b.open(t, "/events/lab/o1")
			if says == "" && strings.Contains(text(page), "behind it") {
				t.Error("the page says that messages wait, and none does")
			}
			wantText(t, page, says)
			wantText(t, b.open(t, "/destinations/billing"), "Objects held 1 Their order waits at a dead letter.")
			if waiting == 0 {
				return
			}
			if m := g.shown(t, "o2")["messages"].([]any)[0].(map[string]any); m["in_line"] != true || m["due_at"] != nil {
				t.Errorf("the message that waits is shown as %v", m)
			}
			wantText(t, b.open(t, "/events/lab/o2"), "Waits for its turn: messages about its object come before it. A dead letter may hold them.")
			wantText(t, b.submit(t, "/events/lab/o1", "/act/discard"), "1 dead letter discarded")
			if m := g.shown(t, "o2")["messages"].([]any)[0].(map[string]any); m["in_line"] != false {
				t.Errorf("the follower is shown as %v, want it due", m)
			}
		})
	}
}

// A dead event of an ordered handler is shown with the number of events behind it.
func TestEventsBehindADeadEvent(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	var claims []driver.Claim
	for v := 1; v <= 3; v++ {
		c := event{source: "lab", id: fmt.Sprint("h", v), typ: "invoice.paid", body: "{}"}.claim()
		c.Work = driver.WorkQueued
		c.Order = &driver.Order{Hold: true, Line: driver.ObjectVersion{
			Object: driver.ObjectKey("lab", "\n", "o"), Source: "lab", Version: []byte{byte(v)}, Shown: fmt.Sprint(v),
		}}
		claims = append(claims, c)
	}
	slices.SortFunc(claims, func(a, b driver.Claim) int { return bytes.Compare(a.Key[:], b.Key[:]) })
	if _, err := g.store.Claim(t.Context(), &driver.ClaimParams{Claims: claims}); err != nil {
		t.Fatal(err)
	}
	page := func() string { return text(newBrowser(g.api).open(t, "/events/lab/h1")) }
	if strings.Contains(page(), "behind it") {
		t.Error("the page of a pending event says that others wait behind it")
	}
	reserved, err := g.store.Reserve(t.Context(), &driver.ReserveParams{Source: "lab", Types: []string{"*"}, Limit: 10, For: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for i := range reserved {
		if e := &reserved[i]; e.EventID == "h1" {
			if err := g.store.RecordReserved(t.Context(), &driver.FinishParams{Results: []driver.WorkResult{{
				Key: e.Key, Outcome: driver.WorkFailed, Error: "no", ReservedUntil: e.DueAt, Line: &claims[slices.IndexFunc(claims, func(c driver.Claim) bool { return c.Key == e.Key })].Order.Line,
			}}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := page(); !strings.Contains(got, "2 events wait behind it, in the order of their object.") {
		t.Errorf("the page of the dead event does not say that two wait behind it:\n%s", got)
	}
}

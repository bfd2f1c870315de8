package hookadmin_test

import (
	"strings"
	"testing"

	"github.com/hookonce/hookonce/driver"
)

// The dialog tells the effect of a replay now: for messages of the last generation, for a handler, and for an
// event without a route.
func TestReplayDialog(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	b := newBrowser(g.api)
	g.enqueue(t, "routed")
	g.settle(t, driver.MessageSent)
	for range 2 { // three generations, with a message each
		b.submit(t, "/events/lab/routed", "/act/replay", "mode", "as_new")
		g.settle(t, driver.MessageSent)
	}
	wantText(t, b.open(t, "/events/lab/routed"),
		"As new: 1 message is sent to billing. Destinations do the work again.",
		"Same ids: 1 message is sent to billing. Destinations that dedupe may skip messages that they have.")

	claim(t, g.store, event{source: "lab", id: "unrouted", typ: "invoice.paid", body: "{}", at: noon})
	page := b.open(t, "/events/lab/unrouted")
	wantText(t, page, "No route matched the event.", "Same ids: 1 message is sent to billing.")
	if strings.Contains(text(page), "may skip") {
		t.Error("a destination that never got the event is said to skip it")
	}

	claims := []driver.Claim{event{source: "lab", id: "handled", typ: "push", body: "{}"}.claim()}
	claims[0].Work = driver.WorkDone
	if _, err := g.store.Claim(t.Context(), &driver.ClaimParams{Now: noon, Claims: claims}); err != nil {
		t.Fatal(err)
	}
	page = b.open(t, "/events/lab/handled")
	wantText(t, page, "As new: The handler or SQL consumer runs again.", "Same ids: The handler or SQL consumer runs again. IdempotencyKey stays.")
	if strings.Contains(text(page), "is sent") {
		t.Error("the event of a handler is said to send a message")
	}
}

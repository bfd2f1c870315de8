package scale

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/internal/test/eventually"
)

// The tests of this file break the promise itself, and check must find that. No kill and no restart breaks it, so
// without them nobody would know whether check looks.

// One gateway of three has a schema of its own. It claims events again that the others have, and its own events are
// missing there. A webhook-id comes from the event, so the destination sees the same id again.
func TestGatewayOnAnotherSchema(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.gateways[2].schema = "apart"
	c.startAll(t, nil)
	l := c.load(t, "stripe", "/first")
	l.waitMore(t, 300)
	l.finish()
	conn, err := pgx.Connect(t.Context(), c.database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	eventually.True(t, "that gateway has sent its messages, too", func() bool {
		return number(t, conn, "SELECT count(*) FROM apart.message WHERE state IN (0, 1)") == 0
	})
	n, faults := c.check(t, l)
	mustBeBroken(t, faults, "was acknowledged, but is not in the database")
	mustBeBroken(t, faults, "was answered ok twice")
	if n.again == 0 {
		t.Error("no event that was claimed twice came to the destination again")
	}
}

// The balancer leads some deliveries to another source of the same sender. An event's id holds for its source only, so
// the event is claimed for both, and the destination does the work of both.
func TestDeliveriesOfTwoSources(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	c.configure(t, strings.Replace(gatewaySettings, "sources:\n", "sources:\n  other: {provider: stripe, secrets: [\"${SECRET}\"]}\n", 1))
	c.startAll(t, replaced("    default_backend gateways\n",
		"    http-request set-path /webhooks/other if { path /webhooks/stripe } { rand(2) eq 0 }\n    default_backend gateways\n"))
	l := c.load(t, "stripe", "/first")
	l.waitMore(t, 300)
	_, faults := c.check(t, l)
	mustBeBroken(t, faults, "is in the database 2 times")
	mustBeBroken(t, faults, "was answered ok twice")
	mustBeBroken(t, faults, "came to /first under 2 webhook-ids")
}

package scale

import (
	"strings"
	"testing"
)

// changedSettings have one more source and one more route with its destination, so that two gateways differ until both have read them.
var changedSettings = strings.NewReplacer(
	"sources:\n", "sources:\n  late: {provider: stripe, secrets: [\"${SECRET}\"]}\n",
	"destinations:\n", "destinations:\n  more: {url: \"${SINK}/more\", timeout: 2s, retry: {attempts: 50, first: 50ms, max: 500ms}}\n",
	"routes:\n", "routes:\n  - {name: more, to: more}\n",
).Replace(gatewaySettings)

// All gateways are told to read changed settings, one after another. Every event is sent to the routes of the gateway
// that claimed it, and from the last reload on to all new ones. No gateway calls a source unknown.
func TestReloadOfAll(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.startAll(t, nil)
	var loads []*load
	for i := range amount(t, 1, 20) {
		if i > 0 { // messages to the destination that vanishes are kept until it is back
			c.configure(t, gatewaySettings)
			for _, g := range c.gateways {
				g.reload(t)
			}
		}
		loads = append(loads, c.reloadUnderLoad(t, c.gateways)...)
		for _, l := range loads {
			l.finish()
		}
	}
	n, faults := c.check(t, loads...)
	mustBeKept(t, faults)
	mustBeUnnoticed(t, n)
}

// reloadUnderLoad changes the settings of gateways. It returns a load on the old source, and one on the new one.
func (c *cluster) reloadUnderLoad(t testing.TB, gateways []*gateway) []*load {
	t.Helper()
	l := c.load(t, "stripe", "/first")
	l.waitMore(t, 100)
	c.configure(t, changedSettings)
	for _, g := range gateways {
		g.reload(t)
		l.waitMore(t, 50)
	}
	l.expect("/first", "/more")
	late := c.load(t, "late", "/first", "/more")
	l.waitMore(t, 200)
	late.waitMore(t, 200)
	return []*load{l, late}
}

// One gateway that was not told loses nothing, but knows neither the new route nor the new source.
func TestReloadThatSkipsOne(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.startAll(t, nil)
	loads := c.reloadUnderLoad(t, c.gateways[:2])
	_, faults := c.check(t, loads...)
	mustBeBroken(t, faults, "never came to /more")
	mustBeBroken(t, faults, "There is no such source")
}

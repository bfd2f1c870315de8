package scale

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/internal/problem"
	"github.com/hookonce/hookonce/internal/test/dbtest"
)

// cutOff lets a gateway of the cluster reach the database through a proxy only.
func (c *cluster) cutOff(t testing.TB, g *gateway) *dbtest.Proxy {
	t.Helper()
	u, err := url.Parse(c.database)
	if err != nil {
		t.Fatal(err)
	}
	proxy := dbtest.StartProxy(t, u.Host)
	g.database = proxy.DSN(t, c.database)
	return proxy
}

// One gateway loses its way to the database. The balancer takes it out, because /readyz turns off, and no delivery
// fails for a sender that retries once. It comes back by itself.
func TestGatewayWithoutDatabase(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	g := c.gateways[0]
	proxy := c.cutOff(t, g)
	c.startAll(t, nil)
	l := c.load(t, "stripe", "/first")
	for range amount(t, 1, 20) {
		l.waitMore(t, 100)
		proxy.Refuse()
		g.Eventually(t, "the balancer has taken it out", func() bool { return !c.inRotation(t, g) })
		l.waitMore(t, 300)
		proxy.Serve()
		g.Eventually(t, "it is used again", func() bool { return g.readiness() == http.StatusOK && c.inRotation(t, g) })
	}
	l.waitMore(t, 100)
	_, faults := c.check(t, l)
	mustBeKept(t, faults)
}

// A balancer that asks /healthz goes on giving deliveries to such a gateway.
func TestHealthzIsNotReadiness(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	proxy := c.cutOff(t, c.gateways[0])
	c.startAll(t, replaced("/readyz\n", "/healthz\n"))
	l := c.load(t, "stripe", "/first")
	proxy.Refuse()
	l.wait(t, "a delivery fails twice", func(n counts) bool { return n.failed > 0 })
	proxy.Serve()
	_, faults := c.check(t, l)
	mustBeBroken(t, faults, "failed twice")
}

// Without a ready gateway the balancer answers senders itself, as a gateway that cannot claim would: 503 with
// Retry-After and a problem. The answer that HAProxy has by default is neither.
func TestNoGatewayIsReady(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(string) string{"with the answer": nil, "without": without("http-error")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 2)
			c.startAll(t, edit)
			for _, g := range c.gateways {
				g.Kill()
				c.balancer.Eventually(t, "the balancer has taken it out", func() bool { return !c.inRotation(t, g) })
			}
			resp, err := http.Post("http://"+c.address+"/webhooks/stripe", "application/json", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			var answer problem.Problem
			err = json.NewDecoder(resp.Body).Decode(&answer)
			ok := err == nil && resp.Header.Get("Retry-After") == "5" && resp.Header.Get("Content-Type") == problem.ContentType &&
				answer.Status == http.StatusServiceUnavailable && answer.Title == http.StatusText(answer.Status)
			if resp.StatusCode != http.StatusServiceUnavailable || ok != (edit == nil) {
				t.Errorf("%d with %v, problem %+v, error %v", resp.StatusCode, resp.Header, answer, err)
			}
			c.start(t, c.gateways[0], thisBuild(t))
			c.balancer.Eventually(t, "it is used again", func() bool { return c.inRotation(t, c.gateways[0]) })
			l := c.load(t, "stripe", "/first")
			l.waitMore(t, 20)
			_, faults := c.check(t, l)
			mustBeKept(t, faults)
		})
	}
}

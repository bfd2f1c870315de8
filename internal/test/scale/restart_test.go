package scale

import (
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/report"
)

// amount returns short, or in the long form of the tests full.
func amount(t testing.TB, short, full int) int {
	t.Helper()
	if report.Scale(t) {
		return full
	}
	return short
}

// replaceAll replaces each gateway by a new process of a build, one after another, as an orchestrator does.
func (c *cluster) replaceAll(t testing.TB, program string) {
	t.Helper()
	for _, g := range c.gateways {
		g.Stop(t)
		c.start(t, g, program)
	}
}

// Gateways are restarted one after another. No sender notices: not even a first attempt fails, and nothing is sent
// twice.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.startAll(t, nil)
	l := c.load(t, "stripe", "/first")
	l.waitMore(t, 200)
	for range amount(t, 1, 10) {
		c.replaceAll(t, thisBuild(t))
	}
	l.waitMore(t, 200)
	n, faults := c.check(t, l)
	mustBeKept(t, faults)
	mustBeUnnoticed(t, n)
}

func mustBeUnnoticed(t testing.TB, n counts) {
	t.Helper()
	if n.retried > 0 || n.again > 0 {
		t.Errorf("%d first attempts failed, and %d messages were sent again, want none", n.retried, n.again)
	}
}

// shutdown_delay alone keeps the promise, behind a balancer that never repeats a request, as a Service of Kubernetes.
// Without the delay such senders notice.
func TestRollingRestartWithoutRetries(t *testing.T) {
	t.Parallel()
	for name, delay := range map[string]string{"with a delay": "5s", "without": "0s"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 3)
			c.configure(t, strings.Replace(gatewaySettings, "shutdown_delay: 5s", "shutdown_delay: "+delay, 1))
			c.startAll(t, plainBalancer)
			l := c.load(t, "stripe", "/first")
			l.waitMore(t, 100)
			if delay != "0s" {
				c.replaceAll(t, thisBuild(t))
				n, faults := c.check(t, l)
				mustBeKept(t, faults)
				mustBeUnnoticed(t, n)
				return
			}
			c.gateways[0].Stop(t)
			l.wait(t, "a first attempt fails", func(n counts) bool { return n.retried > 0 })
		})
	}
}

// plainBalancer is an edit: no request is given to a second gateway.
func plainBalancer(config string) string {
	return strings.Replace(without("retry-on", "option redispatch")(config), "retries 2", "retries 0", 1)
}

// Gateways are replaced by those of another build with the same schema, one after another.
func TestRollingUpgrade(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.startAll(t, nil)
	l := c.load(t, "stripe", "/first")
	l.waitMore(t, 100)
	for i := range amount(t, 1, 10) {
		c.replaceAll(t, []string{nextBuild(t), thisBuild(t)}[i%2])
	}
	l.waitMore(t, 100)
	if a, b := version(t, thisBuild(t)), version(t, nextBuild(t)); a == b {
		t.Errorf("both builds are %q", a)
	}
	n, faults := c.check(t, l)
	mustBeKept(t, faults)
	mustBeUnnoticed(t, n)
}

func version(t testing.TB, program string) string {
	t.Helper()
	out, err := exec.Command(program, "version").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// Random gateways are killed at random moments. No delivery fails for a sender that retries once.
func TestGatewaysKilled(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.startAll(t, nil)
	l := c.load(t, "stripe", "/first")
	for range amount(t, 8, 200) {
		l.waitMore(t, 20+rand.IntN(100))
		g := c.gateways[rand.IntN(len(c.gateways))]
		g.Kill()
		<-time.After(time.Duration(rand.IntN(1000)) * time.Millisecond) // an orchestrator takes its time
		c.start(t, g, thisBuild(t))
		g.Eventually(t, "the balancer uses "+g.name, func() bool { return c.inRotation(t, g) })
	}
	_, faults := c.check(t, l)
	mustBeKept(t, faults)
}

// Where the balancer never gives a delivery to a second gateway, a sender that retries once is not enough.
func TestGatewaysKilledWithoutRetries(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.startAll(t, func(config string) string {
		return strings.Replace(plainBalancer(config), "inter 1s fastinter 250ms", "inter 1h", 1)
	})
	l := c.load(t, "stripe", "/first")
	l.waitMore(t, 100)
	c.gateways[0].Kill()
	l.wait(t, "a delivery fails twice", func(n counts) bool { return n.failed > 0 })
	_, faults := c.check(t, l)
	mustBeBroken(t, faults, "failed twice")
}

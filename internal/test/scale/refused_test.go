package scale

import (
	"net/http"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/internal/test/dbtest"
)

// mustRefuse fails the test unless a gateway of a build ends with code 1 and a log with these texts, and never
// listens.
func (c *cluster) mustRefuse(t testing.TB, g *gateway, program string, texts []string, env ...string) {
	t.Helper()
	c.spawn(t, g, program, env...)
	<-g.Exited
	if code := g.Cmd.ProcessState.ExitCode(); code != 1 || strings.Contains(g.Log(), "serving") {
		t.Errorf("it ended with code %d, want 1, and a log without \"serving\":\n%s", code, g.Log())
	}
	for _, text := range texts {
		if !strings.Contains(g.Log(), text) {
			t.Errorf("the log does not say %q:\n%s", text, g.Log())
		}
	}
}

// A gateway whose database cannot be used ends with an error that says what to do, and serves nothing before.
func TestWrongDatabase(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	g := c.gateways[0]
	for _, test := range []struct {
		what, change, into string
		texts              []string
	}{
		{"an unknown database", "/scale_", "/none_", []string{"does not exist", "create that database on the server"}},
		{"a wrong password", "hookonce:", "hookonce:x", []string{"password authentication failed", "check user and password"}},
		{"no URL", "postgres:", "mysql:", []string{"hookonce.yaml:2:11: database:", "hookonce config check"}},
	} {
		g.database = strings.Replace(c.database, test.change, test.into, 1)
		t.Log(test.what)
		c.mustRefuse(t, g, thisBuild(t), test.texts)
	}
}

// A server that accepts no writes is not used: a gateway that starts there waits and does not listen. One that runs
// turns not ready, answers 503, and goes on by itself when the server accepts writes again.
func TestReadOnlyServer(t *testing.T) {
	t.Parallel()
	server := dbtest.StartServer(t, nil)
	c := newCluster(t, 2)
	c.database = server.DSN()
	running, late := c.gateways[0], c.gateways[1]
	c.start(t, running, thisBuild(t))
	c.balance(t, nil)
	l := c.load(t, "stripe", "/first")
	l.waitMore(t, 50)

	server.Fence(t)
	running.Eventually(t, "it is not ready", func() bool { return running.readiness() == http.StatusServiceUnavailable })
	c.spawn(t, late, thisBuild(t))
	late.Eventually(t, "it waits", func() bool { return strings.Contains(late.Log(), "is read-only") })
	if strings.Contains(late.Log(), "serving") {
		t.Errorf("it serves on a server that accepts no writes:\n%s", late.Log())
	}
	l.finish()

	server.Unfence(t)
	for _, g := range c.gateways {
		g.Eventually(t, "it is ready", func() bool { return g.readiness() == http.StatusOK && c.inRotation(t, g) })
	}
	again := c.load(t, "stripe", "/first")
	again.waitMore(t, 50)
	// Deliveries failed meanwhile, and that is right: every acknowledged event must be there.
	n, faults := c.check(t, l, again)
	if n.failed == 0 {
		t.Error("no delivery failed while the server accepted no writes")
	}
	for _, f := range faults {
		if !strings.Contains(f, "failed twice") {
			t.Error(f)
		}
	}
}

// A gateway with a newer schema may start beside older ones, which go on. It may not where it must not change the
// schema, and an older one may not start after it.
func TestMixedSchemas(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	c.startAll(t, nil)
	l := c.load(t, "stripe", "/first")
	l.waitMore(t, 50)
	third := c.gateways[2]
	third.Stop(t)
	c.mustRefuse(t, third, newSchema(t), []string{"step 2 (more) has not been applied", "hookonce migrate up"}, "HOOKONCE_MIGRATE=manual")
	c.start(t, third, newSchema(t))
	c.gateways[0].Stop(t)
	c.mustRefuse(t, c.gateways[0], thisBuild(t), []string{"it has step 2, which this program does not know", "hookonce migrate status"})
	c.start(t, c.gateways[0], newSchema(t))
	l.waitMore(t, 100)
	n, faults := c.check(t, l)
	mustBeKept(t, faults)
	mustBeUnnoticed(t, n)
}

package scale

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/program"
	"github.com/hookonce/hookonce/internal/test/race"
)

// cluster is gateways on one database behind HAProxy.
type cluster struct {
	folder   string // with the settings of all gateways
	database string
	settings string
	gateways []*gateway
	balancer *program.Process
	address  string // of the balancer
	socket   string // where the balancer tells of its servers
	sink     *sink
}

// gateway is a place where a gateway runs: its addresses stay the same when another process takes its place.
type gateway struct {
	*program.Process
	name, public, admin string
	database            string // in place of the cluster's, if not empty
	schema              string // of its own, if not empty
	reloads             int    // how often its process was told to read the settings again
}

const (
	secret = "a-secret-of-the-source-0123456789"

	// gatewaySettings are what deploy/haproxy/haproxy.cfg asks for, and the least for a load. The lease of a killed
	// gateway ends a few seconds after the timeout.
	gatewaySettings = `
database: ${DATABASE_URL}
shutdown_delay: 5s
trusted_proxies: [127.0.0.0/8]
sources:
  stripe: {provider: stripe, secrets: ["${SECRET}"]}
destinations:
  app: {url: "${SINK}/first", timeout: 2s, retry: {attempts: 50, first: 50ms, max: 500ms}}
routes:
  - {name: first, to: app}
`
)

// newCluster makes a database and a sink for n gateways, and starts none.
func newCluster(t testing.TB, n int) *cluster {
	t.Helper()
	dsn, _ := dbtest.Postgres(t)
	c := &cluster{folder: newFolder(t), database: newDatabase(t, dsn), sink: newSink(t)}
	c.configure(t, gatewaySettings)
	for i := range n {
		c.gateways = append(c.gateways, &gateway{
			name: fmt.Sprintf("gateway%d", i+1), public: dbtest.FreeAddress(t), admin: dbtest.FreeAddress(t),
		})
	}
	return c
}

// newFolder makes a folder whose path is short enough for a socket in it.
func newFolder(t testing.TB) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "scale-") //nolint:usetesting // t.TempDir has the name of the test in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) }) // leftovers are in the folder for temporary files
	return folder
}

// newDatabase makes a database on a server, which is dropped with the test.
func newDatabase(t testing.TB, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme == "" {
		t.Fatalf("these tests make databases of their own and need the DSN of the server as a URL, not %q", dsn)
	}
	name := strings.ToLower("scale_" + rand32())
	execute(t, dsn, "CREATE DATABASE "+name)
	t.Cleanup(func() { execute(t, dsn, "DROP DATABASE "+name+" WITH (FORCE)") })
	u.Path = "/" + name
	return u.String()
}

func execute(t testing.TB, dsn, statement string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	conn, err := pgx.Connect(ctx, dsn)
	if err == nil {
		_, err = conn.Exec(ctx, statement)
		err = errors.Join(err, conn.Close(ctx))
	}
	if err != nil {
		t.Errorf("%s: %v", statement, err)
	}
}

// configure writes the settings of all gateways.
func (c *cluster) configure(t testing.TB, settings string) {
	t.Helper()
	c.settings = settings
	if err := os.WriteFile(filepath.Join(c.folder, "hookonce.yaml"), []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
}

// spawn starts a process of a build in the gateway's place, and does not wait.
func (c *cluster) spawn(t testing.TB, g *gateway, binary string, env ...string) {
	t.Helper()
	cmd := exec.Command(binary, "serve", "--listen", g.public, "--admin-listen", g.admin, "--log-format", "text")
	cmd.Dir = c.folder
	database := c.database
	if g.database != "" {
		database = g.database
	}
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + c.folder, "TMPDIR=" + os.TempDir(), race.Environment(),
		"DATABASE_URL=" + database, "SECRET=" + secret, "SINK=" + c.sink.server.URL,
	}, env...)
	if g.schema != "" {
		cmd.Env = append(cmd.Env, "HOOKONCE_SCHEMA="+g.schema)
	}
	g.Process, g.reloads = program.Start(t, cmd), 0
}

// start starts a process in the gateway's place, and waits until it is ready.
func (c *cluster) start(t testing.TB, g *gateway, binary string) {
	t.Helper()
	c.spawn(t, g, binary)
	g.Eventually(t, g.name+" is ready", func() bool { return g.readiness() == http.StatusOK })
}

// startAll starts every gateway, and the balancer with its configuration as edit changed it; edit may be nil.
func (c *cluster) startAll(t testing.TB, edit func(string) string) {
	t.Helper()
	for _, g := range c.gateways {
		c.start(t, g, thisBuild(t))
	}
	c.balance(t, edit)
}

// readiness returns the status of /readyz, 0 without an answer.
func (g *gateway) readiness() int { return program.Readiness(g.admin) }

// reload tells the gateway to read its settings again, and waits until it has.
func (g *gateway) reload(t testing.TB) {
	t.Helper()
	g.reloads++
	if err := g.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	g.Eventually(t, g.name+" has read its settings again", func() bool {
		return strings.Count(g.Log(), "settings reloaded") == g.reloads
	})
}

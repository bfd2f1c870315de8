package failover

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
	"github.com/hookonce/hookonce/internal/test/program"
	"github.com/hookonce/hookonce/internal/test/race"
)

func TestMain(m *testing.M) {
	group.Only("cluster")
	dbtest.Main(m)
}

func TestGroup(t *testing.T) { group.Need(t, "cluster") }

// gateway is a running gateway. It is started once and never again.
type gateway struct {
	*process
	name          string // how it reaches the database
	public, admin string
	client        *http.Client

	mu          sync.Mutex
	answered    []time.Time // of answers 200
	unavailable int         // answers 503
	cut         int         // requests without an answer
}

// addGateway starts a gateway on the database of this URL, and waits until it is ready.
func (l *load) addGateway(name, database string) *gateway {
	l.t.Helper()
	binary := program.Hookonce(l.t)
	folder := l.t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "hookonce.yaml"), []byte(settings), 0o600); err != nil {
		l.t.Fatal(err)
	}
	g := &gateway{name: name, client: &http.Client{
		Timeout:   5 * time.Second, // longer than ack_timeout
		Transport: &http.Transport{MaxIdleConnsPerHost: 64},
	}}
	g.process = (&command{
		name: "gateway", space: host(), end: syscall.SIGKILL,
		env:  []string{"DATABASE_URL=" + database, "SINK=" + l.server.URL, "SOURCE_SECRET=" + sourceSecret, race.Environment()},
		args: []string{binary, "serve", "--config", "hookonce.yaml", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"},
	}).start(l.t, folder)
	l.t.Cleanup(func() {
		g.client.CloseIdleConnections()
		g.check(l.t)
	})
	for line, address := range map[*regexp.Regexp]*string{publicLine: &g.public, adminLine: &g.admin} {
		eventually.True(l.t, "the gateway listens", func() bool {
			if m := line.FindStringSubmatch(g.log(1 << 20)); m != nil {
				*address = m[1]
			}
			return *address != ""
		})
	}
	eventually.True(l.t, "the gateway is ready", g.ready)
	l.gateways = append(l.gateways, g)
	return g
}

var (
	publicLine = regexp.MustCompile(`(?m)serving webhooks.*?\b(127\.0\.0\.1:\d+)`)
	adminLine  = regexp.MustCompile(`(?m)serving the admin API.*?\b(127\.0\.0\.1:\d+)`)
)

func (g *gateway) ready() bool { return status("http://"+g.admin+"/readyz") == http.StatusOK }

// check ends the gateway, and looks at its log.
func (g *gateway) check(t testing.TB) {
	if !g.running() {
		t.Errorf("the gateway by %s ended by itself: %s", g.name, g.cmd.ProcessState)
	}
	g.stop(syscall.SIGTERM)
	text := g.log(64 << 20)
	for _, bad := range []string{"DATA RACE", "panic", "canary"} {
		if strings.Contains(text, bad) {
			t.Errorf("the log of the gateway by %s holds %q", g.name, bad)
		}
	}
	if t.Failed() {
		t.Logf("the log of the gateway by %s ends with:\n%s", g.name, g.log(4<<10))
	}
}

func (g *gateway) count(f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f()
}

// successes returns how many 200s there were since then.
func (g *gateway) successes(since time.Time) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := len(g.answered) - 1; i >= 0 && g.answered[i].After(since); i-- {
		n++
	}
	return n
}

// silence returns the longest time without a 200 that began or lasted after since, up to now.
func (g *gateway) silence(since time.Time) (longest time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	last := since
	for _, at := range g.answered {
		if at.Before(since) {
			continue
		}
		longest = max(longest, at.Sub(last))
		last = at
	}
	return max(longest, time.Since(last))
}

// doctor asks hookonce doctor for the promise of the cluster.
func (w *world) doctor(want string) {
	w.t.Helper()
	cmd := exec.Command(program.Hookonce(w.t), "doctor", "--database", w.byHosts())
	cmd.Dir = w.t.TempDir()
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), want) {
		w.t.Errorf("hookonce doctor does not say %q, error %v:\n%s", want, err, out)
	}
}

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/internal/test/dbtest"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
)

// dashboardFile is the dashboard for Grafana.
const dashboardFile = "../../../deploy/grafana/hookonce.json"

// panel is a panel of Grafana's dashboard.
type panel struct {
	Title   string
	Type    string
	Targets []struct{ Expr string }
}

func panels(t testing.TB) []panel {
	t.Helper()
	var dashboard struct{ Panels []panel }
	if err := json.Unmarshal([]byte(read(t, dashboardFile)), &dashboard); err != nil {
		t.Fatal(err)
	}
	return dashboard.Panels
}

// prometheus is a running Prometheus.
type prometheus struct{ address string }

// startPrometheus starts a Prometheus that scrapes a gateway every second and evaluates the rules.
func startPrometheus(t *testing.T, g *gateway) *prometheus {
	t.Helper()
	needPrometheus(t)
	rules, err := filepath.Abs(deployedRules + "alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := fmt.Sprintf(`
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
  - job_name: hookonce
    static_configs: [{targets: [%q]}]
`, rules, g.admin)
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &prometheus{dbtest.FreeAddress(t)}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address="+p.address)
	cmd.Dir = dir
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("log of Prometheus:\n%s", log.String())
		}
	})
	eventually.True(t, "Prometheus is ready", func() bool {
		resp, err := http.Get("http://" + p.address + "/-/ready")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return p
}

// query returns the number of series that an expression has now.
func (p *prometheus) query(expr string) (int, error) {
	resp, err := http.PostForm("http://"+p.address+"/api/v1/query", url.Values{"query": {expr}})
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var answer struct {
		Error string
		Data  struct{ Result []any }
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return 0, err
	}
	if answer.Error != "" {
		return 0, fmt.Errorf("%s: %s", expr, answer.Error)
	}
	return len(answer.Data.Result), nil
}

// grafana replaces the variables of Grafana's queries.
var grafana = strings.NewReplacer("$__rate_interval", "1m", "$__range", "5m")

// Prometheus scrapes a gateway that receives deliveries. Each query of the dashboard returns a
// series, each metric that the rules and the dashboard name exists, and no secret is in the metrics.
func TestPrometheusScrapes(t *testing.T) {
	group.Need(t, "alerts")
	anyStore(t, func(t *testing.T, db *database) {
		w, _ := newTLSWorld(t, db, tlsSettings)
		g := w.start(t)
		p := startPrometheus(t, g)
		target := "https://" + g.public + "/webhooks/github"
		send := func(args ...string) {
			t.Helper()
			args = append([]string{"send", target, "--provider", "github", "--secret", githubSecret}, args...)
			if out := w.run(t, args...); out.code != 0 && args[len(args)-1] != "--corrupt" {
				t.Errorf("hookonce %s: code %d\n%s%s", strings.Join(args, " "), out.code, out.stdout, out.stderr)
			}
		}
		missing := map[string]bool{}
		for _, one := range panels(t) {
			for _, q := range one.Targets {
				missing[q.Expr] = true
			}
		}
		if len(missing) < 20 {
			t.Fatalf("the dashboard has %d queries", len(missing))
		}
		eventually.Succeeds(t, "all queries of the dashboard return series", func() error {
			send("--times", "3", "--duplicate", "1")
			send("--corrupt")
			for expr := range missing {
				n, err := p.query(grafana.Replace(expr))
				if err != nil {
					t.Fatal(err)
				}
				if n > 0 {
					delete(missing, expr)
				}
			}
			for expr := range missing {
				return errors.New("not so: " + expr)
			}
			return nil
		})
		checkNames(t, p)
		checkScrape(t, g)
	})
}

var metricName = regexp.MustCompile(`\bhookonce_[a-z_]+`)

// checkNames fails the test if a rule or a panel names a metric that does not exist.
func checkNames(t *testing.T, p *prometheus) {
	t.Helper()
	names := map[string]bool{}
	for _, name := range metricName.FindAllString(read(t, deployedRules+"alerts.yaml")+read(t, dashboardFile), -1) {
		names[name] = true
	}
	for name := range names {
		if n, err := p.query(name); err != nil || n == 0 {
			t.Errorf("%s has %d series, error %v", name, n, err)
		}
	}
}

// checkScrape reads the metrics as Prometheus does.
func checkScrape(t *testing.T, g *gateway) {
	t.Helper()
	if _, values := g.metrics(t); values[`hookonce_refused_total{reason="signature_wrong",source="github"}`] == "0" {
		t.Errorf("no refusal of github is counted: %v", values)
	}
}

// metrics scrapes the gateway. It returns hookonce's series in their order, and their values. It
// checks that no secret is in the metrics.
func (g *gateway) metrics(t testing.TB) (series []string, values map[string]string) {
	t.Helper()
	resp, err := g.client.Get("http://" + g.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET /metrics: %d, error %v: %s", resp.StatusCode, err, text)
	}
	if found := leaked(string(text)); len(found) > 0 {
		t.Errorf("/metrics has secrets %q", found)
	}
	values = map[string]string{}
	for line := range strings.Lines(string(text)) {
		if at := strings.LastIndexByte(line, ' '); strings.HasPrefix(line, "hookonce_") {
			series = append(series, line[:at])
			values[line[:at]] = strings.TrimSpace(line[at:])
		}
	}
	return series, values
}

// A gateway has the same series from its start on, on every store. Those that count are 0. Only a call of the store is
// a series from its first call on.
func TestMetricsOfANewGateway(t *testing.T) {
	t.Parallel()
	var first []string
	for _, store := range []string{"sqlite", "postgres"} {
		g := newWorld(t, newDatabase(t, store), standardSettings).start(t)
		series, values := g.metrics(t)
		series = slices.DeleteFunc(series, func(name string) bool { return strings.HasPrefix(name, "hookonce_store_seconds") })
		if first == nil {
			first = series
		} else if diff := cmp.Diff(first, series); diff != "" {
			t.Errorf("series (-sqlite +postgres):\n%s", diff)
		}
		for _, name := range series {
			counts := strings.Contains(name, "_total") && !strings.Contains(name, "store_errors") || strings.Contains(name, "ack_seconds_count")
			if counts && values[name] != "0" {
				t.Errorf("%s: %s is %s, want 0", store, name, values[name])
			}
		}
		for name, want := range map[string]string{
			`hookonce_messages_pending{destination="app"}`:        "0",
			`hookonce_dead_letters{destination="app",source=""}`:  "0",
			`hookonce_dead_letters{destination="",source="bare"}`: "0",
			`hookonce_circuit_open{destination="app"}`:            "0",
			`hookonce_config_last_reload_successful`:              "1",
		} {
			if values[name] != want {
				t.Errorf("%s: %s is %q, want %s", store, name, values[name], want)
			}
		}
		if size := values["hookonce_database_bytes"]; size == "0" || size == "" {
			t.Errorf("%s: the database has %q bytes", store, size)
		}
	}
}

package e2e

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/internal/test/dbtest"
)

// The files for Prometheus, and the pages about them.
const (
	deployedRules = "../../../deploy/prometheus/"
	alertsPage    = "../../../docs/observability.md"
)

// needPrometheus makes sure that Prometheus and promtool are installed.
func needPrometheus(t testing.TB) {
	t.Helper()
	dbtest.Need(t, "alerts", func() error {
		for _, program := range []string{"prometheus", "promtool"} {
			if _, err := exec.LookPath(program); err != nil {
				return errors.New(program + " was not found: install Prometheus (apt-get install prometheus)")
			}
		}
		return nil
	}, "prometheus")
}

// promtool reads the rules, and makes every alert fire on invented series.
func TestAlerts(t *testing.T) {
	t.Parallel()
	needPrometheus(t)
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		cmd := exec.CommandContext(t.Context(), "promtool", args...)
		cmd.Dir = deployedRules
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

var (
	alertName = regexp.MustCompile(`(?m)^ +- alert: (\w+)$`)
	alertLink = regexp.MustCompile(`(?m)^ +runbook_url: \S+/docs/observability\.md#(\w+)$`)
	section   = regexp.MustCompile(`(?m)^### (Hookonce\w+)$`)
)

// Every alert has its test and its section, in the same order, and links to it.
func TestEveryAlertHasASection(t *testing.T) {
	t.Parallel()
	rules, tests, page := read(t, deployedRules+"alerts.yaml"), read(t, deployedRules+"alerts_test.yaml"), read(t, alertsPage)
	alerts := found(alertName, rules)
	if len(alerts) == 0 {
		t.Fatal("no alert was found")
	}
	if diff := cmp.Diff(alerts, found(section, page)); diff != "" {
		t.Errorf("sections of docs/observability.md (-alerts +sections):\n%s", diff)
	}
	var links []string
	for _, alert := range alerts {
		links = append(links, strings.ToLower(alert))
		if !strings.Contains(tests, `alertname="`+alert+`"`) {
			t.Errorf("alerts_test.yaml does not expect %s to fire", alert)
		}
	}
	if diff := cmp.Diff(links, found(alertLink, rules)); diff != "" {
		t.Errorf("runbook_url (-want +got):\n%s", diff)
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// found returns the first group of every match.
func found(of *regexp.Regexp, text string) []string {
	var all []string
	for _, m := range of.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

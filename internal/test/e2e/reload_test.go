package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// SIGHUP applies new sources, destinations and routes; wrong settings leave the old ones in force.
func TestReload(t *testing.T) {
	t.Parallel()
	w := newWorld(t, newDatabase(t, "sqlite"), standardSettings)
	g := w.start(t)
	g.expect(t, push("gh-1"), "200 ok")
	w.sink.next(t)

	hangUp := func(settings, line string) {
		t.Helper()
		w.configure(t, settings)
		before := strings.Count(g.Log(), line)
		g.Signal(t, syscall.SIGHUP)
		g.Eventually(t, "the log says: "+line, func() bool {
			return strings.Count(g.Log(), line) > before
		})
	}

	// Unknown keys; an empty file, as ": > hookonce.yaml" leaves it; a file that was cut.
	destinations := strings.Index(standardSettings, "destinations:")
	for i, wrong := range []string{standardSettings + "sauces: {}\n", "", "database: ${DATABASE_URL}\n", standardSettings[destinations:]} {
		hangUp(wrong, "settings not reloaded")
		if _, is := g.metrics(t); is["hookonce_config_last_reload_successful"] != "0" {
			t.Errorf("after wrong settings hookonce_config_last_reload_successful is %q, want 0", is["hookonce_config_last_reload_successful"])
		}
		g.expect(t, push(fmt.Sprint("wrong-", i)), "200 ok")
		if got := w.sink.next(t); got.path != "/hooks" {
			t.Errorf("under the old settings the event went to %s", got.path)
		}
	}

	moved := strings.Replace(standardSettings, "${SINK}/hooks", "${SINK}/moved", 1)
	moved = strings.Replace(moved, "  bare:\n", "  renamed:\n", 1)
	hangUp(moved+"shutdown_delay: 1s\n", "settings reloaded")
	if !strings.Contains(g.Log(), "shutdown_delay") {
		t.Error("the log does not name the setting that needs a restart")
	}
	g.expect(t, push("gh-3"), "200 ok")
	if got := w.sink.next(t); got.path != "/moved" {
		t.Errorf("under the new settings the event went to %s", got.path)
	}
	g.expect(t, newDelivery("bare", `{"id":"b-1"}`), "503")
	if !strings.Contains(g.Log(), "sources vanished by the reload") {
		t.Error("the log does not say that a source vanished")
	}
	g.expect(t, newDelivery("renamed", `{"id":"b-1"}`), "200 ok")
	w.sink.next(t)
}

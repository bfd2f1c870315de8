package hookadmin_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/test/rig"
)

var warningPattern = regexp.MustCompile(`(?s)<li( class="grave")?>\s*<p><strong class="kind">(.*?)</li>`)

// warnings returns the warnings of the overview as text; grave ones begin with "!".
func warnings(page string) []string {
	var all []string
	for _, m := range warningPattern.FindAllStringSubmatch(page, -1) {
		line := text(m[2])
		if m[1] != "" {
			line = "! " + line
		}
		all = append(all, line)
	}
	return all
}

func TestWarningsOfTheOverview(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	const hostile = `<script>alert("1")</script>`
	engine := newEngine(t, store, &hookonce.Config{Sources: everySource()})
	a := newAPI(t, func(cfg *hookadmin.Config) {
		cfg.Store, cfg.Engine = store, engine
		cfg.Warnings = func() []string { return []string{`hookonce.yaml:3:7: "'><img src=x onerror = 'alert(1)'>`} }
	})
	key := driver.EventKey("lab", "gone")
	gone := driver.Claim{
		Key: key, Source: "lab", EventID: "gone", Headers: []byte("{}"),
		Messages: []driver.NewMessage{
			{ID: driver.MessageID(key, 0, "a"), Route: "a", Destination: hostile}, {ID: driver.MessageID(key, 0, "b"), Route: "b", Destination: hostile},
		},
	}
	if _, err := store.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{gone}, Now: noon}); err != nil {
		t.Fatal(err)
	}
	page := a.overview(t)
	want := []string{
		"Unknown destination The destination " + hostile + " is not in the settings, and 2 messages wait for it. " +
			"They are sent when the settings have a destination of that name. hookonce config check Copy",
		"! Short dedupe window The dedupe window of the source short (2 days 23 hours 59 minutes 59 seconds) is shorter than " +
			"the retry period of Stripe (3 days): a late retry takes effect again. Make the dedupe window at least 3 days, or remove the setting. dedupe_window: 3d Copy",
		"! Unsigned Requests to these sources are not verified: lab. Anyone who can reach them can forge events. " +
			"Choose a provider or a scheme that signs, or make sure that only the sender can reach it. hookonce providers Copy",
		`Settings hookonce.yaml:3:7: "'><img src=x onerror = 'alert(1)'> hookonce config check Copy`,
	}
	if diff := cmp.Diff(want, warnings(page)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var listed []string
	for _, w := range readJSON[hookadmin.WarningPage](t, a.get(t, "/api/v1/warnings")).Warnings {
		line := strings.Join(slices.Concat([]string{w.Kind, w.Text}, w.Remedy, []string{w.Command, "Copy"}), " ")
		if w.Grave {
			line = "! " + line
		}
		listed = append(listed, line)
	}
	if diff := cmp.Diff(want, listed); diff != "" {
		t.Errorf("the API lists others than the page (-want +got):\n%s", diff)
	}
	if strings.Contains(page, "<img") || !strings.Contains(page, "&lt;script&gt;") {
		t.Error("text of others is not escaped")
	}
	if calm := newGateway(t); len(warnings(calm.page(t, "/", 200))) != 1 { // about its unsigned source
		t.Errorf("unexpected warnings: %q", warnings(calm.page(t, "/", 200)))
	}
	none := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store = store }).overview(t)
	if got := warnings(none); len(got) != 1 || !strings.HasPrefix(got[0], "Unknown destination") {
		t.Errorf("without sources: %q", got)
	}
}

package hookonce

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/provider"
)

func TestStaleRulesAreChecked(t *testing.T) {
	t.Parallel()
	_, err := newSource(Source{
		Name: "lab", Provider: provider.None, Event: provider.EventRules{ID: "body:id"}, Consume: ConsumeSQL,
		Stale: []StaleRule{{Key: "body:id", Version: "body:v"}, {Key: "", Version: "query:v"}, {Key: "header:Cookie", Version: "item:v"}},
	}, slog.New(slog.DiscardHandler))
	for _, want := range []string{
		`source "lab": stale: it cannot be applied with consume: sql`,
		`source "lab": stale[1].key: the location is empty`,
		`source "lab": stale[1].version: "query:v" looks into the query string`,
		`source "lab": stale[2].key: "header:Cookie" looks into a header that carries a credential`,
		`source "lab": stale[2].version: "item:v" looks into an item`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
}

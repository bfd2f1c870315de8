package provider

import (
	"testing"

	"github.com/hookonce/hookonce/internal/locate"
)

// TestHubSpotWorkflow checks that a source can set the id of a workflow's webhook, which is one
// object, and that the usual arrays are read by the same rules.
func TestHubSpotWorkflow(t *testing.T) {
	t.Parallel()
	spec, err := Lookup(HubSpot)
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{"item:vid": "101", "item:vid + item:properties.stage.value": "101:won"} {
		x, err := CompileRules(EventRules{ID: id}.Or(spec.Event))
		if err != nil {
			t.Fatal(err)
		}
		for _, body := range []string{
			`{"vid":101,"properties":{"stage":{"value":"won"}}}`,
			`[{"vid":101,"properties":{"stage":{"value":"won"}}}]`,
		} {
			events, bad := x.Extract(&locate.Input{Body: []byte(body)})
			if len(events) != 1 || len(bad) != 0 || events[0].ID != want {
				t.Errorf("event.id %s, body %s: got %+v and the malformed %v, want %s", id, body, events, bad, want)
			}
		}
	}
}

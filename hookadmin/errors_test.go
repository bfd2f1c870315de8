package hookadmin_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestErrors(t *testing.T) {
	t.Parallel()
	empty := readJSON[map[string]any](t, newGateway(t).get(t, "/api/v1/errors"))
	if want := (map[string]any{"errors": []any{}, "next": ""}); !cmp.Equal(empty, want) {
		t.Errorf("an empty store lists %v", empty)
	}
	g, _ := newDead(t)
	first := readJSON[map[string]any](t, g.get(t, "/api/v1/errors"))
	group := first["errors"].([]any)[0].(map[string]any)
	if group["first_at"] == nil || group["last_at"] == nil {
		t.Errorf("the group has no times: %v", group)
	}
	delete(group, "first_at")
	delete(group, "last_at")
	want := map[string]any{
		"errors": []any{map[string]any{
			"source": "", "destination": "billing", "signature": "answered 410", "count": "3", "more": false, "last_error": "answered 410",
		}},
		"next": "",
	}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for query, want := range map[string]int{
		"?destination=billing": 1, "?destination=crm": 0, "?source=lab": 0, "?signature=answered+410": 1, "?signature=x": 0, "?since=1h": 1, "?until=1h": 0,
		"?limit=1": 1, "?source=&destination=&signature=&since=&until=&limit=&cursor=": 1,
	} {
		if got := readJSON[map[string]any](t, g.get(t, "/api/v1/errors"+query))["errors"].([]any); len(got) != want {
			t.Errorf("%s lists %v, want %d groups", query, got, want)
		}
	}
	for query, want := range map[string]string{
		"source=a&destination=b": "destination: is not allowed with source",
		"cursor=x":               "cursor: malformed cursor",
		"limit=201":              "limit: ",
		"type=a":                 "unknown parameter",
		"signature=%00":          "signature: holds a control character",
		"since=yesterday":        "since: ",
	} {
		wantDetail(t, g.get(t, "/api/v1/errors?"+query), http.StatusBadRequest, want)
	}
}

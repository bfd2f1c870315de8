package hookadmin_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
)

// messageIDs returns the ids of the listed messages, sorted.
func (a *api) messageIDs(t *testing.T, query string) []string {
	t.Helper()
	return a.column(t, "/api/v1/messages"+query, "messages", "id")
}

func TestMessagesHaveTheirEvent(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	empty := readJSON[map[string]any](t, g.get(t, "/api/v1/messages"))
	if want := (map[string]any{"messages": []any{}, "next": ""}); !cmp.Equal(empty, want) {
		t.Errorf("an empty store lists %v", empty)
	}
	messages := g.enqueue(t, "e1")
	got := readJSON[map[string]any](t, g.get(t, "/api/v1/messages"))
	want := map[string]any{"next": "", "messages": []any{map[string]any{
		"source": "lab", "event_id": "e1", "type": "invoice.paid", "received_at": "2026-01-31T12:00:00.000000Z",
		"id": messages[0], "route": "billing", "destination": "billing", "state": "pending", "note": "", "generation": 0.0,
		"attempts": 0.0, "status_code": nil, "last_error": "", "in_line": false, "due_at": "2026-01-31T12:00:00.000000Z", "leased_until": nil,
		"created_at": "2026-01-31T12:00:00.000000Z", "sent_at": nil, "failed_at": nil,
	}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// One row for each parameter; storetest proves the selections.
func TestMessageFilters(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	dead := g.enqueue(t, "dead")
	g.settle(t, driver.MessageDead)
	pending := g.enqueue(t, "pending")
	for query, want := range map[string][]string{
		"?source=none":                nil,
		"?type=none":                  nil,
		"?destination=crm":            nil,
		"?note=none":                  nil,
		"?state=dead":                 dead,
		"?id=dead":                    dead,
		"?message_id=" + pending[0]:   pending,
		"?q=pending":                  pending,
		"?since=2026-01-31T13:00:00Z": nil,
		"?until=2026-01-31T12:00:00Z": nil,
	} {
		if diff := cmp.Diff(want, g.messageIDs(t, query), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	wantDetail(t, g.get(t, "/api/v1/messages?state=done"), http.StatusBadRequest, `"done" is not a state here`)
	wantDetail(t, g.get(t, "/api/v1/messages?route=billing"), http.StatusBadRequest, `"route": unknown parameter`)
}

func TestPagingOfMessages(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	want := g.enqueue(t, "0", "1", "2")
	g.settle(t, driver.MessageDead)
	slices.Sort(want)
	for path, key := range map[string][2]string{"messages": {"messages", "id"}, "dead-letters": {"dead_letters", "message_id"}} {
		query := "/api/v1/" + path + "?limit=2"
		first := readJSON[map[string]any](t, g.get(t, query))
		got := slices.Concat(g.column(t, query, key[0], key[1]), g.column(t, query+"&cursor="+first["next"].(string), key[0], key[1]))
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
}

func TestRetryOfMessages(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	pruned := g.enqueue(t, "pruned")
	g.settle(t, driver.MessageDead)
	g.post(t, discardDead, `{"all":true}`)
	g.prune(t)
	waiting := g.enqueue(t, "waiting")
	g.settle(t, driver.MessageRetry) // due in an hour
	sent := g.enqueue(t, "sent")
	g.settle(t, driver.MessageSent)
	dead := g.enqueue(t, "dead")
	g.settle(t, driver.MessageDead)
	sending := g.enqueue(t, "sending")
	g.lease(t)

	tests := []struct {
		name, id, body string
		status         int
		detail         string
	}{
		{"waiting", waiting[0], "{}", 200, ""},
		{"waiting, due by now", waiting[0], "", 200, ""},
		{"dead", dead[0], "{}", 200, ""},
		{"being sent", sending[0], "{}", 409, "being sent"},
		{"sent", sent[0], "{}", 409, "replay its event"},
		{"past retention", pruned[0], "{}", 410, "retention"},
		{"unknown", "msg_none", "{}", 404, "no such message"},
		{"hostile", "..%2f%3f", "{}", 404, "no such message"},
		{"no text", "%00", "{}", 400, "id: holds a control character, in the path"},
		{"a key", waiting[0], `{"as_new":true}`, 400, "unknown key"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			resp := g.post(t, "/api/v1/messages/"+tt.id+"/retry", tt.body)
			if tt.status != 200 {
				wantDetail(t, resp, tt.status, tt.detail)
				return
			}
			if got := readJSON[hookadmin.Retried](t, resp); got != (hookadmin.Retried{ID: tt.id, Retried: true}) || resp.status != 200 {
				t.Errorf("answer %d %s", resp.status, resp.body)
			}
		})
	}
	due := []string{}
	for _, m := range g.lease(t) {
		due = append(due, m.ID)
	}
	slices.Sort(due)
	want := []string{waiting[0], dead[0]}
	slices.Sort(want)
	if diff := cmp.Diff(want, due); diff != "" {
		t.Errorf("due (-want +got):\n%s", diff)
	}
	for id, want := range map[string][]string{"waiting": {"retried", "retried"}, "dead": {"replayed"}} {
		if got := g.actions(t, id); !slices.Equal(got, want) {
			t.Errorf("event %s: %v, want %v", id, got, want)
		}
	}
}

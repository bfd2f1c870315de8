package hookadmin_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/test/rig"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// page is the listing as a client reads it.
type page struct {
	Events []map[string]any `json:"events"`
	Next   string           `json:"next"`
}

func (p page) ids() []string {
	ids := []string{}
	for _, ev := range p.Events {
		ids = append(ids, ev["event_id"].(string))
	}
	return ids
}

func TestListingHasTheKeysOfTheContract(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	a := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store = store })

	if got := readJSON[map[string]any](t, a.get(t, "/api/v1/events")); !cmp.Equal(got, map[string]any{"events": []any{}, "next": ""}) {
		t.Errorf("an empty store lists %v", got)
	}
	claim(t, store, event{source: "github", id: "e1", typ: "push", body: "{}", at: noon})
	got := readJSON[map[string]any](t, a.get(t, "/api/v1/events"))
	want := map[string]any{
		"next": "",
		"events": []any{map[string]any{
			"source": "github", "event_id": "e1", "type": "push", "state": "done", "waiting": false, "note": "no route",
			"attempts": 0.0, "generation": 0.0, "duplicates": "0", "received_at": "2026-01-31T12:00:00.000000Z",
			"occurred_at": nil, "processed_at": "2026-01-31T12:00:00.000000Z", "last_error": "", "by": "webhook",
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("listing (-want +got):\n%s", diff)
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	for _, ev := range []event{
		{source: "github", id: "g1", typ: "push", body: `{"who":"ada"}`, at: noon},
		{source: "github", id: "g2", typ: "fork", body: `{"who":"bob"}`, at: noon.Add(time.Hour), routes: []string{"r"}},
		{source: "stripe", id: "s1", typ: "invoice.paid", body: `{"who":"ada"}`, at: noon.Add(2 * time.Hour)},
		{source: "stripe", id: "now", typ: "invoice.paid", body: `{"n":1}`},
	} {
		claim(t, store, ev)
	}
	know(t, store, "stripe")
	a := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store = store })
	tests := []struct { // one for each parameter; storetest proves the selections
		query string
		want  []string
	}{
		{"source=github", []string{"g2", "g1"}},
		{"type=push", []string{"g1"}},
		{"state=running", []string{"g2"}},
		{"note=no+route", []string{"now", "s1", "g1"}},
		{"id=s1", []string{"s1"}},
		{"q=ada", []string{"s1", "g1"}},
		{"since=2026-01-31T14:00:00%2B01:00&until=2026-01-31T14:00:00Z", []string{"g2"}},
		{"since=1h", []string{"now"}},
		{"since=7d", []string{"now"}},
		{"since=36500d", []string{"now", "s1", "g2", "g1"}},
		{"until=1h", []string{"s1", "g2", "g1"}},
		{"source=&type=&state=&note=&id=&q=&since=&until=&limit=&cursor=", []string{"now", "s1", "g2", "g1"}},
		{"limit=200", []string{"now", "s1", "g2", "g1"}},
		{"limit=1", []string{"now"}},
	}
	for _, tt := range tests {
		t.Run(tt.query, func(t *testing.T) {
			resp := a.get(t, "/api/v1/events?"+tt.query)
			if diff := cmp.Diff(tt.want, readJSON[page](t, resp).ids()); diff != "" {
				t.Errorf("status %d (-want +got):\n%s", resp.status, diff)
			}
		})
	}
}

func TestPaging(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	for i := range 3 {
		claim(t, store, event{source: "github", id: fmt.Sprint(i), body: "{}", at: noon.Add(time.Duration(i) * time.Second)})
	}
	a := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store = store })
	first := readJSON[page](t, a.get(t, "/api/v1/events?limit=2"))
	second := readJSON[page](t, a.get(t, "/api/v1/events?limit=2&cursor="+first.Next))
	if diff := cmp.Diff([][]string{{"2", "1"}, {"0"}}, [][]string{first.ids(), second.ids()}); diff != "" || second.Next != "" {
		t.Errorf("after the last page comes %q; the pages (-want +got):\n%s", second.Next, diff)
	}
}

func TestRefusedParameters(t *testing.T) {
	t.Parallel()
	a := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store = rig.OpenSQLite(t) })
	tests := []struct{ query, want string }{
		{"sorce=github", `"sorce": unknown parameter`},
		{"Source=github", `"Source": unknown parameter`},
		{"a%0Ab=1", `"a\nb": unknown parameter`},
		{strings.Repeat("x", 101) + "=1", `"` + strings.Repeat("x", 100) + `": unknown parameter`},
		{"limit=0", "limit: "},
		{"limit=201", "limit: "},
		{"limit=-1", "limit: "},
		{"limit=ten", "limit: "},
		{"limit=5&limit=5", "limit: given more than once"},
		{"source=a&source=b", "source: given more than once"},
		{"state=finished", `state: "finished" is not a state`},
		{"since=yesterday", "since: "},
		{"since=-2h", "since: "},
		{"since=-2d", "since: "},
		{"since=d", "since: "},
		{"since=1.5d", "since: "},
		{"since=36501d", "since: "},
		{"since=2026-01-31", "since: "},
		{"until=1.5", "until: "},
		{"since=1h&until=2h", "until: must be later than since"},
		{"since=2026-01-31T12:00:00Z&until=2026-01-31T12:00:00Z", "until: must be later than since"},
		{"cursor=zzz", "cursor: "},
		{"cursor=" + driver.Cursor{At: noon}.String() + "A", "cursor: "},
		{"q=%00", "q: holds a control character"},
		{"id=a%0Ab", "id: holds a control character"},
		{"type=%ff", "type: is not valid UTF-8"},
		{"q=" + strings.Repeat("x", 2048), "q: longer than 2047 bytes"},
		{"q=%zz", "malformed"},
		{"source=a;type=b", "malformed"},
	}
	for _, tt := range tests {
		name, _, _ := strings.Cut(tt.query, "xxxx")
		t.Run(name, func(t *testing.T) {
			p := wantProblem(t, a.get(t, "/api/v1/events?"+tt.query), http.StatusBadRequest)
			if !strings.Contains(p.Detail, tt.want) {
				t.Errorf("detail %q, want %q in it", p.Detail, tt.want)
			}
		})
	}
	wantProblem(t, a.get(t, "/api/v1/events/github/e1?limit=3"), http.StatusBadRequest)
}

func TestHostileIDsInPaths(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	a := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store = store })
	server := httptest.NewServer(a.handler)
	t.Cleanup(server.Close)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

	for _, id := range []string{
		"a/b", "/", "//", "a//b", "..", ".", "../events", "a/../b", "%2F", "%252F", "%", "a%zz", "?", "a?b=c", "#",
		"a b", "+", "&=;", `"`, `\`, "<script>", "evt:1:2", "é", "日本", "\u202e", "\u2028", "{}", "*", "replay",
		"a/replay", strings.Repeat("/", 255),
	} {
		claim(t, store, event{source: "github", id: id, body: "{}"})
		for _, path := range []string{url.PathEscape(id), encodeAll(id)} {
			if path == "." || path == ".." {
				continue // clients resolve these themselves; encodeAll covers the other spelling
			}
			resp, err := client.Get(server.URL + "/api/v1/events/github/" + path)
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				EventID string `json:"event_id"`
			}
			if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != 200 || got.EventID != id {
				t.Errorf("id %q as %s: status %d, event_id %q", id, path, resp.StatusCode, got.EventID)
			}
		}
	}
	for _, id := range []string{"%00", "%ff", "%0a", "%1b", "%c2%85"} {
		wantDetail(t, a.get(t, "/api/v1/events/github/"+id), http.StatusBadRequest, "event_id: ")
	}
}

// encodeAll percent-encodes every byte.
func encodeAll(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		fmt.Fprintf(&b, "%%%02x", c)
	}
	return b.String()
}

func TestDetail(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	a := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store = store })
	body := "{\"html\":\"<b>&\u2028é\"}"
	claim(t, store, event{source: "stripe", id: "evt_1", typ: "invoice.paid", body: body, at: noon, routes: []string{"billing"}})
	count := &driver.CountDeliveriesParams{
		Counts: []driver.DeliveryCount{{Key: driver.EventKey("stripe", "evt_1"), Duplicates: 2, OtherBodies: 1}},
		Now:    noon.Add(time.Minute),
	}
	if err := store.CountDeliveries(t.Context(), count); err != nil {
		t.Fatal(err)
	}
	sendOnce(t, store, noon.Add(2*time.Minute))

	got := readJSON[map[string]any](t, a.get(t, "/api/v1/events/stripe/evt_1"))
	id := driver.MessageID(driver.EventKey("stripe", "evt_1"), 0, "billing")
	want := map[string]any{
		"source": "stripe", "event_id": "evt_1", "type": "invoice.paid", "state": "running", "waiting": true, "note": "",
		"attempt_count": 1.0, "generation": 0.0, "duplicates": "2", "received_at": "2026-01-31T12:00:00.000000Z",
		"occurred_at": nil, "processed_at": nil, "failed_at": nil, "last_error": "answered 500",
		"headers": map[string]any{"Content-Type": []any{"application/json"}, "X-Two": []any{"a", "b"}},
		"body":    body, "body_base64": nil, "body_pruned": false, "body_sha256": hexSHA256(body),
		"redacted": false, "other_body": nil, "by": "webhook",
		"deliveries": map[string]any{
			"count": "3", "first_at": "2026-01-31T12:00:00.000000Z", "last_at": "2026-01-31T12:01:00.000000Z",
			"other_bodies": "1", "repeat_of": "", "repeats": "0", "first_remote": "", "first_gateway": "",
			"recent": []any{map[string]any{"at": "2026-01-31T12:00:00.000000Z", "by": "webhook", "remote": "", "gateway": "", "same_body": true}},
		},
		"messages": []any{map[string]any{
			"id": id, "route": "billing", "destination": "billing", "state": "pending", "note": "", "generation": 0.0,
			"attempts": 1.0, "status_code": 500.0, "last_error": "answered 500", "in_line": false, "due_at": "2026-01-31T12:03:00.000000Z",
			"leased_until": nil, "created_at": "2026-01-31T12:00:00.000000Z", "sent_at": nil, "failed_at": nil,
		}},
		"attempts": []any{map[string]any{
			"message_id": id, "generation": 0.0, "number": 1.0, "outcome": "retry", "status_code": 500.0,
			"error": "answered 500", "at": "2026-01-31T12:02:00.000000Z", "took_seconds": 0.25, "response": nil, "response_base64": nil, "response_type": "",
		}},
		"history": []any{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("detail (-want +got):\n%s", diff)
	}
}

// sendOnce leases the one due message and records a failed attempt.
func sendOnce(t *testing.T, store driver.Store, at time.Time) {
	t.Helper()
	leased, err := store.Lease(t.Context(), &driver.LeaseParams{
		Destination: "billing", Limit: 1, For: time.Minute, MaxAttempts: 5, Now: at,
	})
	if err != nil || len(leased.Messages) != 1 {
		t.Fatalf("leased %+v: %v", leased, err)
	}
	held, err := store.Complete(t.Context(), &driver.CompleteParams{Now: at, Completions: []driver.Completion{{
		ID: leased.Messages[0].ID, Token: leased.Messages[0].Token, Outcome: driver.MessageRetry, RetryIn: time.Minute,
		StatusCode: 500, Error: "answered 500", Took: 250 * time.Millisecond,
	}}})
	if err != nil || !held[0] {
		t.Fatalf("completed %v: %v", held, err)
	}
}

func TestBodiesOfEveryKind(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	a := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store = store })
	binary := "\xff\xfe\x00ok"
	for id, body := range map[string]string{"empty": "", "nul": "a\x00b", "binary": binary, "surrogate": "\xed\xa0\x80"} {
		claim(t, store, event{source: "lab", id: id, body: body})
		got := readJSON[map[string]any](t, a.get(t, "/api/v1/events/lab/"+id))
		var wantText, wantBase64 any = body, nil
		if id == "binary" || id == "surrogate" {
			wantText, wantBase64 = nil, base64.StdEncoding.EncodeToString([]byte(body))
		}
		if got["body"] != wantText || got["body_base64"] != wantBase64 || got["body_sha256"] != hexSHA256(body) {
			t.Errorf("%s: body %v, body_base64 %v, body_sha256 %v", id, got["body"], got["body_base64"], got["body_sha256"])
		}
	}
}

func TestBodyPastRetention(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	a := newAPI(t, func(cfg *hookadmin.Config) { cfg.Store = store })
	claim(t, store, event{source: "lab", id: "old", body: "{}", at: noon})
	_, err := store.Prune(t.Context(), &driver.PruneParams{
		DedupeWindow: 48 * time.Hour, Retention: time.Hour, Now: noon.Add(2 * time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	got := readJSON[map[string]any](t, a.get(t, "/api/v1/events/lab/old"))
	for _, key := range []string{"body", "body_base64", "headers"} {
		if v, there := got[key]; !there || v != nil {
			t.Errorf("%s is %v, want null", key, v)
		}
	}
	if got["body_pruned"] != true || got["body_sha256"] != hexSHA256("{}") {
		t.Errorf("body_pruned %v, body_sha256 %v", got["body_pruned"], got["body_sha256"])
	}
}

func TestTime(t *testing.T) {
	t.Parallel()
	berlin := time.FixedZone("", 3600)
	for want, in := range map[string]time.Time{
		`null`:                          {},
		`"2026-01-31T12:00:00.000000Z"`: time.Date(2026, 1, 31, 13, 0, 0, 0, berlin),
		`"2026-01-31T12:00:00.123456Z"`: time.Date(2026, 1, 31, 12, 0, 0, 123456789, time.UTC),
	} {
		got, err := json.Marshal(hookadmin.Time(in))
		if err != nil || string(got) != want {
			t.Errorf("%v is %s (%v), want %s", in, got, err, want)
		}
	}
}

package hookadmin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/operate"
	"github.com/hookonce/hookonce/internal/test/rig"
)

const (
	replayDead  = "/api/v1/dead-letters/replay"
	discardDead = "/api/v1/dead-letters/discard"
)

// deadIDs returns the event ids of the listed dead letters, sorted.
func (a *api) deadIDs(t *testing.T, query string) []string {
	t.Helper()
	return a.column(t, "/api/v1/dead-letters"+query, "dead_letters", "event_id")
}

func TestDeadLettersHaveTheKeysOfTheContract(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	empty := readJSON[map[string]any](t, g.get(t, "/api/v1/dead-letters"))
	if want := (map[string]any{"dead_letters": []any{}, "next": ""}); !cmp.Equal(empty, want) {
		t.Errorf("an empty store lists %v", empty)
	}
	messages := g.enqueue(t, "e1")
	g.settle(t, driver.MessageDead)
	got := readJSON[map[string]any](t, g.get(t, "/api/v1/dead-letters"))
	letters := got["dead_letters"].([]any)
	if len(letters) != 1 {
		t.Fatalf("got %v", got)
	}
	letter := letters[0].(map[string]any)
	if failed, ok := letter["failed_at"].(string); !ok || !strings.HasSuffix(failed, "Z") {
		t.Errorf("failed_at %v", letter["failed_at"])
	}
	delete(letter, "failed_at")
	want := map[string]any{
		"source": "lab", "event_id": "e1", "type": "invoice.paid", "destination": "billing", "message_id": messages[0],
		"route": "billing", "attempts": 1.0, "generation": 0.0, "status_code": 410.0, "last_error": "answered 410",
		"signature": "answered 410", "received_at": "2026-01-31T12:00:00.000000Z",
	}
	if diff := cmp.Diff(want, letter); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// newDead returns a gateway with dead letters of several kinds.
func newDead(t *testing.T) (*gateway, []string) {
	t.Helper()
	g := newGateway(t)
	for i, ev := range []event{
		{source: "lab", id: "a", typ: "invoice.paid", body: `{"who":"ada"}`},
		{source: "lab", id: "b", typ: "invoice.void", body: `{"who":"bob"}`},
		{source: "shop", id: "a", typ: "invoice.paid", body: `{"who":"eve"}`},
	} {
		ev.routes, ev.at = []string{"billing"}, noon.Add(time.Duration(i)*time.Hour)
		claim(t, g.store, ev)
	}
	g.settle(t, driver.MessageDead)
	g.enqueue(t, "alive")
	know(t, g.store, "shop") // lab is in the settings
	return g, []string{"a", "a", "b"}
}

func TestDeadLetterFilters(t *testing.T) {
	t.Parallel()
	g, all := newDead(t)
	b := driver.MessageID(driver.EventKey("lab", "b"), 0, "billing")
	tests := []struct { // one for each parameter; storetest proves the selections
		query string
		want  []string
	}{
		{"?state=dead", all},
		{"?source=lab", []string{"a", "b"}},
		{"?type=invoice.void", []string{"b"}},
		{"?destination=crm", []string{}},
		{"?note=discarded", []string{}},
		{"?signature=answered+410", all},
		{"?signature=answered+500", []string{}},
		{"?id=a", []string{"a", "a"}},
		{"?message_id=" + b, []string{"b"}},
		{"?q=eve", []string{"a"}},
		{"?since=2026-01-31T13:00:00Z", []string{"a", "b"}},
		{"?until=2026-01-31T13:00:00Z", []string{"a"}},
		{"?source=&type=&state=&destination=&note=&signature=&id=&message_id=&q=&since=&until=&limit=&cursor=", all},
	}
	for _, tt := range tests {
		t.Run(tt.query, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, g.deadIDs(t, tt.query)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	for query, want := range map[string]string{
		"state=pending": `state: "pending" is not a state here; use dead`,
		"state=done":    "state: ",
		"limit=201":     "limit: ",
		"cursor=zzz":    "cursor: ",
		"cursor=" + driver.Cursor{At: noon}.String()[1:]: "cursor: ",
		"ids=a":          `"ids": unknown parameter`,
		"message_id=%00": "message_id: holds a control character",
		"until=x":        "until: ",
	} {
		wantDetail(t, g.get(t, "/api/v1/dead-letters?"+query), http.StatusBadRequest, want)
	}
}

func TestBulkSelections(t *testing.T) {
	t.Parallel()
	_, all := newDead(t)
	lab := func(id string) string { return driver.MessageID(driver.EventKey("lab", id), 0, "billing") }
	tests := []struct {
		body         string
		done, passed int
		left         []string
	}{
		{`{"all":true}`, 3, 0, []string{}},
		{`{"all":true,"rate":"1000/s"}`, 3, 0, []string{}},
		{`{"all":true,"rate":"none"}`, 3, 0, []string{}},
		{`{"source":"lab"}`, 2, 0, []string{"a"}},
		{`{"source":"none"}`, 0, 0, all},
		{`{"type":"invoice.paid"}`, 2, 0, []string{"b"}},
		{`{"source":"lab","ids":["a"]}`, 1, 0, []string{"a", "b"}},
		{`{"source":"lab","ids":["a","none","b","alive"]}`, 2, 2, []string{"a"}},
		{`{"source":"lab","ids":["a"],"type":"invoice.void"}`, 0, 1, all},
		{`{"message_ids":["` + lab("b") + `"]}`, 1, 0, []string{"a", "a"}},
		{`{"message_ids":["` + lab("b") + `","` + lab("alive") + `","none"],"source":"lab"}`, 1, 2, []string{"a", "a"}},
		{`{"destination":"billing","q":"ada"}`, 1, 0, []string{"a", "b"}},
		{`{"destination":"crm","q":"ada"}`, 0, 0, all},
		{`{"since":"2026-01-31T13:00:00Z","until":"2026-01-31T14:00:00Z"}`, 1, 0, []string{"a", "a"}},
		{`{"note":"no such note"}`, 0, 0, all},
		{`{"signature":"answered 410"}`, 3, 0, []string{}},
		{`{"signature":"answered"}`, 0, 0, all},
	}
	for i, tt := range tests {
		for target, key := range map[string]string{replayDead: "replayed", discardDead: "discarded"} {
			if target == replayDead && i > 0 {
				continue // both read the selection in one way
			}
			t.Run(key+tt.body, func(t *testing.T) {
				t.Parallel()
				g, _ := newDead(t)
				got := readJSON[map[string]any](t, g.post(t, target, tt.body))
				want := map[string]any{key: float64(tt.done), "passed": float64(tt.passed), "complete": true}
				if id, named := got["request_id"].(string); named != (target == discardDead) || named && !strings.HasPrefix(id, "job_") {
					t.Errorf("the request id is %v", got["request_id"])
				}
				delete(got, "request_id")
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
				if diff := cmp.Diff(tt.left, g.deadIDs(t, "")); diff != "" {
					t.Errorf("still dead (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestRefusedBulkRequests(t *testing.T) {
	t.Parallel()
	g, all := newDead(t)
	many := strings.Repeat(`"x",`, 1000) + `"x"`
	for i := range 1001 {
		many = strings.Replace(many, `"x"`, fmt.Sprintf(`"%d"`, i), 1)
	}
	tests := []struct {
		body   string
		status int
		detail string
	}{
		{``, 422, "all: must be true"},
		{`{}`, 422, "all: must be true"},
		{`{"all":false}`, 422, "all: must be true"},
		{`{"rate":"1/s"}`, 422, "all: must be true"},
		{`{"state":"done"}`, 422, `state: "done" is not a state here; use dead`},
		{`{"all":true,"source":"lab"}`, 422, "all: must stand alone"},
		{`{"ids":["a"]}`, 422, "source: is required with ids"},
		{`{"source":"lab","ids":["a"],"message_ids":["m"]}`, 422, "message_ids: is not allowed with ids"},
		{`{"source":"lab","since":"yesterday"}`, 422, "since: "},
		{`{"since":"1h","until":"2h"}`, 422, "until: must be later than since"},
		{`{"all":true,"rate":"fast"}`, 422, "rate: "},
		{`{"all":true,"rate":"0/s"}`, 422, "rate: "},
		{`{"all":true,"rate":"1/d"}`, 422, "rate: "},
		// A script with an unset variable sends this; it must not select everything.
		{`{"source":"lab","type":""}`, 400, `"type": must not be empty`},
		{`{"source":"lab","ids":[]}`, 400, `"ids": must not be empty`},
		{`{"source":"lab","ids":[""]}`, 400, `"ids": must not be empty`},
		{`{"source":"lab","ids":null}`, 400, `"ids": must be a list`},
		{`{"source":"lab","destination":null}`, 400, `"destination": must be a string`},
		{`{"source":"lab","ids":["a","a"]}`, 400, `"a" appears twice`},
		{`{"source":"lab","ids":[` + many + `]}`, 400, "at most 1000"},
		{`{"message_ids":[` + many + `]}`, 400, "at most 1000"},
	}
	for _, tt := range tests {
		for _, target := range []string{replayDead, discardDead} {
			wantDetail(t, g.post(t, target, tt.body), tt.status, tt.detail)
		}
	}
	if diff := cmp.Diff(all, g.deadIDs(t, "")); diff != "" {
		t.Errorf("still dead (-want +got):\n%s", diff)
	}
}

func TestDiscardedDeadLettersAreSkipped(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.enqueue(t, "e1")
	g.settle(t, driver.MessageDead)
	readJSON[hookadmin.Worked](t, g.post(t, discardDead, `{"source":"lab","ids":["e1"]}`))
	shown := g.shown(t, "e1")
	message := shown["messages"].([]any)[0].(map[string]any)
	if shown["state"] != "skipped" || message["state"] != "skipped" || message["note"] != "discarded" {
		t.Errorf("event %v, message %v", shown["state"], message)
	}
	if got := g.actions(t, "e1"); !slices.Equal(got, []string{"discarded"}) {
		t.Errorf("history %v", got)
	}
	if again := claim(t, g.store, event{source: "lab", id: "e1", body: "{}"}); again.Claimed {
		t.Error("discarding the dead letter released the identity")
	}
}

// TestSlowBulkIsLeftToAJob replays letters at a pace that takes longer than one request waits. It uses a server
// with timeouts shorter than that, as an embedding program may have.
func TestSlowBulkIsLeftToAJob(t *testing.T) {
	t.Parallel()
	g := running(t)
	g.enqueue(t, "a", "b", "c", "d")
	g.settle(t, driver.MessageDead)
	server := httptest.NewUnstartedServer(g.handler)
	server.Config.ReadTimeout, server.Config.WriteTimeout = time.Second, time.Second
	server.Start()
	t.Cleanup(server.Close)
	resp, err := http.Post(server.URL+replayDead, "application/json", strings.NewReader(`{"all":true,"rate":"1/s"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusAccepted {
		t.Fatalf("answer %d %s, error %v", resp.StatusCode, raw, err)
	}
	accepted := readJSON[hookadmin.Accepted](t, &answer{status: http.StatusOK, body: raw})
	if job := g.ended(t, accepted.Job); job["done"] != "4" || job["skipped"] != "0" {
		t.Errorf("the job is %v, want 4 done", job)
	}
}

// TestRepeatedBulk repeats a request under its Idempotency-Key. Letters that are dead again stay so.
func TestRepeatedBulk(t *testing.T) {
	t.Parallel()
	g, _ := newDead(t)
	const body, key = `{"all":true}`, "Idempotency-Key: k"
	first := g.post(t, replayDead, body, key)
	g.settle(t, driver.MessageDead)
	again := g.post(t, replayDead, body, key)
	if diff := cmp.Diff(readJSON[map[string]any](t, first), readJSON[map[string]any](t, again)); diff != "" {
		t.Errorf("the repeated request (-first +again):\n%s", diff)
	}
	if got := g.actions(t, "b"); !slices.Equal(got, []string{"replayed"}) {
		t.Errorf("history %v, want it replayed once", got)
	}
	wantDetail(t, g.post(t, discardDead, body, key), http.StatusUnprocessableEntity, "This Idempotency-Key was used for another job")
}

// TestBulkOfManyIDs replays a thousand events by their ids. On a busy machine a job does the rest.
func TestBulkOfManyIDs(t *testing.T) {
	t.Parallel()
	g := running(t)
	ids := make([]string, operate.ManyDeadLetters)
	for i := range ids {
		ids[i] = fmt.Sprintf("e%d", i)
	}
	g.enqueue(t, ids...)
	g.settle(t, driver.MessageDead)
	body, err := json.Marshal(map[string]any{"source": "lab", "ids": ids})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	resp := g.post(t, replayDead, string(body))
	t.Logf("answer %d after %v", resp.status, time.Since(began))
	if resp.status == http.StatusAccepted {
		g.ended(t, readJSON[map[string]any](t, resp)["job"])
	} else if diff := cmp.Diff(map[string]any{"replayed": 1000.0, "passed": 0.0, "complete": true}, readJSON[map[string]any](t, resp)); diff != "" {
		t.Errorf("the answer (-want +got):\n%s", diff)
	}
	if got := g.deadIDs(t, ""); len(got) > 0 {
		t.Errorf("%d letters are still dead", len(got))
	}
}

func TestBulkOnAStoreThatFails(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	g := newGatewayOn(t, store)
	if err := errors.Join(store.Reader().Close(), store.Writer().Close()); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{replayDead, discardDead} {
		resp := g.post(t, target, `{"all":true}`)
		if resp.status < 500 {
			t.Errorf("answer %d %s", resp.status, resp.body)
		}
	}
}

// The zero time, as programs write an unset one, is no filter: it must not select everything.
func TestZeroTimeIsRefused(t *testing.T) {
	t.Parallel()
	g, want := newDead(t)
	for _, value := range []string{"0001-01-01T00:00:00Z", "0001-01-01T02:00:00+02:00"} {
		for _, name := range []string{"since", "until"} {
			for _, path := range []string{discardDead, replayDead} {
				if got := g.post(t, path, `{"source":"lab","`+name+`":"`+value+`"}`); got.status != http.StatusUnprocessableEntity {
					t.Errorf("%s %s=%s: status %d, want 422", path, name, value, got.status)
				}
			}
		}
	}
	if got := g.deadIDs(t, ""); len(got) != len(want) {
		t.Errorf("the dead letters are %v, want %v", got, want)
	}
}

package hookadmin_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	hookonce "github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/operate"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

const (
	jobsPath    = "/api/v1/jobs"
	undoDiscard = "/api/v1/dead-letters/undo"
)

// running is a gateway whose engine runs. It knows no destination, so the tests alone send messages.
func running(t *testing.T) *gateway {
	t.Helper()
	store := rig.OpenSQLite(t)
	engine := newEngine(t, store, &hookonce.Config{
		Sources: []hookonce.Source{{Name: "lab", Provider: provider.None, Event: provider.EventRules{ID: "body:id"}}},
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return &gateway{api: newAPI(t, func(cfg *hookadmin.Config) { cfg.Store, cfg.Engine = store, engine }), store: store}
}

// plan plans a job and returns it.
func (g *gateway) plan(t *testing.T, body string, header ...string) map[string]any {
	t.Helper()
	resp := g.post(t, jobsPath, body, header...)
	if resp.status != http.StatusCreated {
		t.Fatalf("POST /jobs %s: answer %d %s", body, resp.status, resp.body)
	}
	return readJSON[map[string]any](t, resp)
}

func (g *gateway) job(t *testing.T, id any) map[string]any {
	t.Helper()
	return readJSON[map[string]any](t, g.get(t, jobsPath+"/"+id.(string)))
}

// ended waits for the end of a job.
func (g *gateway) ended(t *testing.T, id any) map[string]any {
	t.Helper()
	var job map[string]any
	eventually.True(t, fmt.Sprintf("job %v has ended", id), func() bool {
		job = g.job(t, id)
		return job["state"] == "done" || job["state"] == "failed"
	})
	return job
}

func TestJobs(t *testing.T) {
	t.Parallel()
	g := running(t)
	g.enqueue(t, "a", "b", "c")
	g.settle(t, driver.MessageDead)
	job := g.plan(t, `{"action":"replay","rate":"10/s","filter":{"source":"lab","signature":"answered 410"}}`, "Idempotency-Key: k1")
	want := map[string]any{
		"of": "dead_letters", "action": "replay", "mode": "", "rate": "10/s", "filter": map[string]any{"source": "lab", "signature": "answered 410"},
		"state": "planned", "count": "3", "more": false, "oldest": "2026-01-31T12:00:00.000000Z", "newest": "2026-01-31T12:00:00.000000Z",
		"destinations": []any{"billing"}, "sources": []any{"lab"}, "seconds": "0", "done": "0", "skipped": "0", "failed": "0", "last_error": "",
		"owner": "", "request_id": "k1", "started_at": nil, "finished_at": nil, "id": job["id"], "created_at": job["created_at"],
		// Of replays of events alone:
		"to": "", "states": map[string]any{}, "discarded": 0.0, "handled": 0.0, "refused": map[string]any{}, "sends": []any{}, "stays": []any{}, "skips": []any{},
	}
	if diff := cmp.Diff(want, job); diff != "" {
		t.Errorf("the plan (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(job, g.plan(t, `{"action":"replay","rate":"10/s","filter":{"source":"lab","signature":"answered 410"}}`, "Idempotency-Key: k1")); diff != "" {
		t.Errorf("the repeated plan (-want +got):\n%s", diff)
	}
	resp := g.post(t, jobsPath, `{"action":"discard","filter":{"all":true}}`, "Idempotency-Key: k1")
	wantDetail(t, resp, http.StatusUnprocessableEntity, "This Idempotency-Key was used for another job")
	other := g.plan(t, `{"action":"discard","filter":{"destination":"crm"}}`)
	if other["count"] != "0" || other["seconds"] != nil {
		t.Errorf("a plan without letters is %v", other)
	}
	ids := g.column(t, jobsPath, "jobs", "state")
	if diff := cmp.Diff([]string{"planned", "planned"}, ids); diff != "" {
		t.Errorf("listed (-want +got):\n%s", diff)
	}
	if first := readJSON[map[string]any](t, g.get(t, jobsPath+"?limit=1")); first["next"] == "" || first["jobs"].([]any)[0].(map[string]any)["id"] != other["id"] {
		t.Errorf("the first page is %v", first)
	}

	if got := readJSON[map[string]any](t, g.post(t, jobsPath+"/"+job["id"].(string)+"/start", "")); got["state"] != "running" {
		t.Errorf("the started job is %v", got)
	}
	if got := g.ended(t, job["id"]); got["done"] != "3" || got["state"] != "done" || got["finished_at"] == nil {
		t.Errorf("the job is %v", got)
	}
	for _, id := range []string{"a", "b", "c"} {
		g.wantState(t, id, "running")
	}
	wantDetail(t, g.post(t, jobsPath+"/"+job["id"].(string)+"/cancel", ""), http.StatusConflict, "The job has ended")
	if got := readJSON[map[string]any](t, g.post(t, jobsPath+"/"+other["id"].(string)+"/cancel", "{}")); got["state"] != "cancelled" {
		t.Errorf("the cancelled job is %v", got)
	}
	if got := g.column(t, jobsPath+"?state=cancelled", "jobs", "id"); len(got) != 1 {
		t.Errorf("cancelled jobs: %v", got)
	}
}

func TestJobsOfEvents(t *testing.T) {
	t.Parallel()
	g := running(t)
	g.enqueue(t, "a", "b")
	g.settle(t, driver.MessageSent)
	g.enqueue(t, "open")
	job := g.plan(t, `{"of":"events","action":"replay","mode":"as_new","rate":"none","filter":{"source":"lab"},"start":true}`)
	got := g.ended(t, job["id"])
	if got["done"] != "2" || got["failed"] != "1" || !strings.Contains(got["last_error"].(string), "not finished") {
		t.Errorf("the job is %v, want 2 done and 1 refused", got)
	}
	if actions := g.actions(t, "a"); !cmp.Equal(actions, []string{"replayed_as_new"}) {
		t.Errorf("the history is %v", actions)
	}
	g.plan(t, `{"of":"events","action":"replay","mode":"as_new","filter":{"source":"lab","ids":["a"]}}`)
	wantText(t, g.page(t, "/jobs", 200), "only 1 event")
}

func TestBadJobs(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	for body, want := range map[string]string{
		`{}`:                  "action: is missing",
		`{"action":"undo"}`:   `action: "undo" is unknown; use replay or discard`,
		`{"action":"replay"}`: "filter.all: must be true unless",
		`{"of":"x"}`:          `of: "x" is unknown`,
		`{"action":"discard","of":"events","filter":{"all":true}}`:                    "action: must be replay for events",
		`{"action":"replay","mode":"new","filter":{"all":true}}`:                      `mode: "new" is unknown`,
		`{"action":"replay","mode":"as_new","filter":{"all":true}}`:                   "mode: is for events",
		`{"action":"replay","rate":"fast","filter":{"all":true}}`:                     `rate: "fast" is not a pace`,
		`{"action":"replay","filter":{"all":true,"source":"a"}}`:                      "filter.all: must stand alone",
		`{"action":"replay","filter":{"ids":["a"]}}`:                                  "filter.source: is required with ids",
		`{"action":"replay","filter":{"source":"a","ids":["a"],"message_ids":["m"]}}`: "filter.message_ids: is not allowed with ids",
		`{"action":"replay","of":"events","filter":{"signature":"x"}}`:                "filter.signature: is of dead letters",
		`{"action":"replay","of":"events","filter":{"state":"waiting"}}`:              `filter.state: "waiting" is not a state here; use pending`,
		`{"action":"replay","filter":{"state":"done"}}`:                               `filter.state: "done" is not a state here`,
		`{"action":"replay","filter":{"since":"yesterday"}}`:                          `since: "yesterday" is neither`,
	} {
		wantDetail(t, g.post(t, jobsPath, body), http.StatusUnprocessableEntity, want)
	}
	for body, want := range map[string]string{
		`{"action":"replay","filter":[]}`:              `"filter": must be an object`,
		`{"action":"replay","filter":{"x":1}}`:         `in "filter": at byte`,
		`{"filter":{"all":true},"filter":{}}`:          "appears twice",
		`{"action":"replay","filter":{"source":null}}`: "must be a string",
		`{"action":"replay","filter":{"source":""}}`:   "must not be empty",
	} {
		wantDetail(t, g.post(t, jobsPath, body), http.StatusBadRequest, want)
	}
	wantDetail(t, g.get(t, jobsPath+"/job_none"), http.StatusNotFound, "There is no such job.")
	wantDetail(t, g.post(t, jobsPath+"/job_none/start", ""), http.StatusNotFound, "There is no such job.")
	wantDetail(t, g.post(t, jobsPath+"/job_none/cancel", `{"x":1}`), http.StatusBadRequest, "unknown key")
	wantDetail(t, g.get(t, jobsPath+"?state=dead"), http.StatusBadRequest, `state: "dead" is not a state here; use planned`)
	wantDetail(t, g.get(t, jobsPath+"?cursor=x"), http.StatusBadRequest, "cursor: malformed")
	wantDetail(t, g.post(t, jobsPath, `{"action":"replay","filter":{"all":true}}`, "Idempotency-Key: a\x01"), http.StatusBadRequest, "Idempotency-Key")
}

func TestUndo(t *testing.T) {
	t.Parallel()
	g, all := newDead(t)
	before := g.get(t, "/api/v1/dead-letters").body
	named := readJSON[map[string]any](t, g.post(t, discardDead, `{"all":true}`))["request_id"].(string)
	if got := g.deadIDs(t, ""); len(got) != 0 {
		t.Fatalf("still dead: %v", got)
	}
	undone := readJSON[map[string]any](t, g.post(t, undoDiscard, `{"request_id":"`+named+`"}`))
	if diff := cmp.Diff(map[string]any{"undone": 3.0, "skipped": 0.0}, undone); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if after := g.get(t, "/api/v1/dead-letters").body; !bytes.Equal(after, before) {
		t.Errorf("the dead letters of %v are\n%s, want them as before:\n%s", all, after, before)
	}
	if actions := g.actions(t, "b"); !cmp.Equal(actions, []string{"discarded", "undone"}) {
		t.Errorf("the history is %v", actions)
	}
	// By the Idempotency-Key, after one letter was replayed.
	keyed := readJSON[map[string]any](t, g.post(t, discardDead, `{"all":true}`, "Idempotency-Key: mine"))
	if keyed["request_id"] != "mine" {
		t.Errorf("the answer is %v, want the key as the request id", keyed)
	}
	g.post(t, "/api/v1/events/lab/b/replay", "{}")
	undone = readJSON[map[string]any](t, g.post(t, undoDiscard, `{"request_id":"mine"}`))
	if diff := cmp.Diff(map[string]any{"undone": 2.0, "skipped": 1.0}, undone); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	wantDetail(t, g.post(t, undoDiscard, `{"request_id":"none"}`), http.StatusNotFound, "There is no discard with this request_id.")
	wantDetail(t, g.post(t, undoDiscard, `{}`), http.StatusUnprocessableEntity, "request_id: is missing")
	a := driver.DeadLetterRef{Key: driver.EventKey("lab", "a"), MessageID: driver.MessageID(driver.EventKey("lab", "a"), 0, "billing")}
	_, err := g.store.Discard(t.Context(), &driver.DeadLetterParams{
		Letters: []driver.DeadLetterRef{a}, Operation: "old", Now: time.Now().Add(-driver.UndoTime - time.Minute),
	})
	if err != nil {
		t.Fatal(err)
	}
	wantDetail(t, g.post(t, undoDiscard, `{"request_id":"old"}`), http.StatusGone, "more than 10m0s old")
}

// TestManyDeadLettersBecomeAJob discards and replays more letters than one request works on, and takes
// the discard back.
func TestManyDeadLettersBecomeAJob(t *testing.T) {
	t.Parallel()
	g := running(t)
	const n = operate.ManyDeadLetters + 1
	var ids []string
	for i := range n {
		ids = append(ids, "e"+strings.Repeat("x", i%7)+time.Duration(i).String())
	}
	g.enqueue(t, ids...)
	for range (n + 999) / 1000 {
		g.settle(t, driver.MessageDead)
	}
	accepted := func(target, body string) string {
		t.Helper()
		resp := g.post(t, target, body)
		if resp.status != http.StatusAccepted {
			t.Fatalf("POST %s: answer %d %s", target, resp.status, resp.body)
		}
		id := readJSON[map[string]any](t, resp)["job"].(string)
		if got := resp.header.Get("Location"); got != jobsPath+"/"+id {
			t.Errorf("Location is %q", got)
		}
		return id
	}
	discard := accepted(discardDead, `{"all":true}`)
	job := g.ended(t, discard)
	counted := job["count"] == "1001" || job["more"] == true // a busy machine does not count all in the time of a plan
	if job["done"] != "1001" || !counted || len(g.deadIDs(t, "")) != 0 {
		t.Errorf("the job is %v", job)
	}
	if job := g.ended(t, accepted(undoDiscard, `{"request_id":"`+discard+`"}`)); job["done"] != "1001" || job["action"] != "undo" {
		t.Errorf("the job is %v", job)
	}
	if job := g.ended(t, accepted(replayDead, `{"destination":"billing","rate":"none"}`)); job["done"] != "1001" {
		t.Errorf("the job is %v", job)
	}
}

package hookadmin_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/test/rig"
)

func TestReplayOfADeadEvent(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	messages := g.enqueue(t, "e1")
	g.settle(t, driver.MessageDead)
	g.wantState(t, "e1", "dead")

	got := readJSON[map[string]any](t, g.post(t, "/api/v1/events/lab/e1/replay", "{}"))
	want := map[string]any{"source": "lab", "event_id": "e1", "generation": 1.0, "messages": 1.0, "skipped": 0.0, "repeated": false, "stayed": false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	shown := g.shown(t, "e1")
	message := shown["messages"].([]any)[0].(map[string]any)
	if shown["state"] != "running" || message["id"] != messages[0] || message["state"] != "pending" {
		t.Errorf("event is %v, message %v", shown["state"], message)
	}
	history := shown["history"].([]any)
	if len(history) != 1 {
		t.Fatalf("history %v", history)
	}
	entry := history[0].(map[string]any)
	delete(entry, "at")
	want = map[string]any{"action": "replayed", "generation": 1.0, "message_id": "", "request_id": ""}
	if diff := cmp.Diff(want, entry); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

func TestReplayOfADoneEventNeedsAMode(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	messages := g.enqueue(t, "new", "same")
	g.settle(t, driver.MessageSent)
	for _, id := range []string{"new", "same"} {
		p := wantProblem(t, g.post(t, "/api/v1/events/lab/"+id+"/replay", "{}"), http.StatusUnprocessableEntity)
		if !strings.Contains(p.Detail, "as_new") || !strings.Contains(p.Detail, "same_id") {
			t.Errorf("detail %q", p.Detail)
		}
		g.wantState(t, id, "done")
	}
	for id, mode := range map[string]string{"new": "as_new", "same": "same_id"} {
		got := readJSON[hookadmin.Replayed](t, g.post(t, "/api/v1/events/lab/"+id+"/replay", `{"`+mode+`":true}`))
		if want := (hookadmin.Replayed{Source: "lab", EventID: id, Generation: 1, Messages: 1}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	var due []string
	for _, m := range g.lease(t) {
		due = append(due, m.ID)
	}
	slices.Sort(due)
	want := []string{driver.MessageID(driver.EventKey("lab", "new"), 1, "billing"), messages[1]}
	slices.Sort(want)
	if diff := cmp.Diff(want, due); diff != "" {
		t.Errorf("due (-want +got):\n%s", diff)
	}
}

func TestRefusedReplays(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.enqueue(t, "pruned")
	g.settle(t, driver.MessageSent)
	g.prune(t)
	g.enqueue(t, "done", "done, too")
	g.settle(t, driver.MessageSent)
	g.enqueue(t, "dead")
	g.settle(t, driver.MessageDead)
	g.enqueue(t, "sending")
	g.lease(t)
	g.enqueue(t, "open")
	claim(t, g.store, event{source: "lab", id: "no route", typ: "other", body: "{}"})

	tests := []struct {
		name, id, body string
		status         int
		detail         string
	}{
		{"no such event", "none", "{}", 404, "no such event"},
		{"other case", "DEAD", "{}", 404, "no such event"},
		{"pending", "open", "{}", 409, "not finished"},
		{"pending, as new", "open", `{"as_new":true}`, 409, "not finished"},
		{"being sent", "sending", `{"same_id":true}`, 409, "not finished"},
		{"past retention", "pruned", "{}", 410, "retention"},
		{"past retention, as new", "pruned", `{"as_new":true}`, 410, "retention"},
		{"no mode", "done", "{}", 422, `{"same_id":true}`},
		{"no body", "done", "", 422, `{"as_new":true}`},
		{"no mode, spelled out", "done", `{"as_new":false,"same_id":false}`, 422, `{"as_new":true}`},
		{"both modes", "done", `{"as_new":true,"same_id":true}`, 422, "cannot have both new and old ids"},
		{"both modes, of a dead one", "dead", `{"as_new":true,"same_id":true}`, 422, "cannot have both new and old ids"},
		{"no route", "no route", `{"as_new":true}`, 422, "No route"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := g.get(t, "/api/v1/events/lab/"+encodeAll(tt.id)).body
			wantDetail(t, g.post(t, "/api/v1/events/lab/"+encodeAll(tt.id)+"/replay", tt.body), tt.status, tt.detail)
			after := g.get(t, "/api/v1/events/lab/"+encodeAll(tt.id)).body
			if tt.status != 404 && string(before) != string(after) {
				t.Errorf("the event changed from\n%s\nto\n%s", before, after)
			}
		})
	}
}

// TestReplayAfterAHandlerEndedItsTransaction needs the note of the event.
func TestReplayAfterAHandlerEndedItsTransaction(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := driver.Claim{
		Key: driver.EventKey("lab", "e1"), Source: "lab", EventID: "e1", Headers: []byte("{}"), Body: []byte("{}"), Work: driver.WorkQueued,
	}
	if _, err := g.store.Claim(t.Context(), &driver.ClaimParams{Claims: []driver.Claim{c}}); err != nil {
		t.Fatal(err)
	}
	run, err := g.store.(driver.Driver[*sql.Tx]).Take(t.Context(), &driver.TakeParams{
		Source: "lab", Types: []string{"*"}, Limit: 1, HandlerTimeout: time.Second,
	})
	if err != nil || run == nil {
		t.Fatal(run, err)
	}
	if err := run.Tx().Commit(); err != nil {
		t.Fatal(err)
	}
	if err := run.Settle(t.Context(), &driver.FinishParams{Results: []driver.WorkResult{{Key: c.Key, Outcome: driver.WorkEnded}}}); err != nil {
		t.Fatal(err)
	}
	const target = "/api/v1/events/lab/e1/replay"
	for _, body := range []string{"{}", `{"as_new":true}`, `{"same_id":true}`} {
		wantDetail(t, g.post(t, target, body), http.StatusUnprocessableEntity, `{"note":"ended its transaction"}`)
	}
	wantDetail(t, g.post(t, target, `{"note":"no route"}`), http.StatusUnprocessableEntity, "only note")
	wantProblem(t, g.post(t, target, `{"note":""}`), http.StatusBadRequest)
	worked := readJSON[map[string]any](t, g.post(t, "/api/v1/dead-letters/replay", `{"all":true}`))
	if worked["replayed"] != 0.0 || worked["passed"] != 1.0 {
		t.Errorf("a replay of all dead letters did %v, want the event passed over", worked)
	}
	g.wantState(t, "e1", "dead")
	got := readJSON[hookadmin.Replayed](t, g.post(t, target, `{"note":"ended its transaction"}`))
	if got.Generation != 1 {
		t.Errorf("replayed %+v", got)
	}
	g.wantState(t, "e1", "pending")
}

func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.enqueue(t, "e1", "e2")
	g.settle(t, driver.MessageSent)
	replay := func(id, body, key string) *answer {
		return g.post(t, "/api/v1/events/lab/"+id+"/replay", body, "Idempotency-Key: "+key)
	}
	first := readJSON[hookadmin.Replayed](t, replay("e1", `{"as_new":true}`, "k1"))
	if first.Generation != 1 || first.Repeated {
		t.Errorf("first %+v", first)
	}
	again := readJSON[hookadmin.Replayed](t, replay("e1", `{"as_new":true}`, "k1"))
	if want := (hookadmin.Replayed{Source: "lab", EventID: "e1", Generation: 1, Messages: 1, Repeated: true}); again != want {
		t.Errorf("again %+v", again)
	}
	wantProblem(t, replay("e1", `{"as_new":true}`, "k2"), http.StatusConflict)
	g.settle(t, driver.MessageSent)
	// The first request was carried out, even though its event is done again by now.
	if again := readJSON[hookadmin.Replayed](t, replay("e1", `{"as_new":true}`, "k1")); !again.Repeated || again.Generation != 1 {
		t.Errorf("again %+v", again)
	}
	if other := readJSON[hookadmin.Replayed](t, replay("e2", `{"as_new":true}`, "k1")); other.Repeated {
		t.Errorf("the same key for another event is %+v", other)
	}
	if second := readJSON[hookadmin.Replayed](t, replay("e1", `{"same_id":true}`, "k2")); second.Repeated || second.Generation != 2 {
		t.Errorf("second %+v", second)
	}
	for _, key := range []string{"", strings.Repeat("k", 256), "\x00", "a\nb", "\xff", "a\tb"} {
		wantDetail(t, replay("e2", "{}", key), http.StatusBadRequest, "Idempotency-Key")
	}
	if longest := replay("e2", "{}", strings.Repeat("k", 255)); longest.status != http.StatusConflict {
		t.Errorf("a key of 255 bytes is answered %d", longest.status)
	}
	twice := g.send(t, "POST", "/api/v1/events/lab/e2/replay", "{}", func(r *http.Request) {
		r.Header = http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {"a", "b"}}
	})
	wantDetail(t, twice, http.StatusBadRequest, "Idempotency-Key")
}

func TestReplayOfHostileIDs(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	server := httptest.NewServer(g.handler)
	t.Cleanup(server.Close)
	ids := []string{
		"a/b", "/", "..", ".", "replay", "/replay", "a/replay", "a/replay/replay", "%2Freplay", "dead-letters/replay", "?", "#", "a b",
		`"`, "<script>", "é", "\u202e", strings.Repeat("/", 255),
	}
	g.enqueue(t, ids...)
	g.settle(t, driver.MessageDead)
	for _, id := range ids {
		resp, err := http.Post(server.URL+"/api/v1/events/lab/"+encodeAll(id)+"/replay", "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		var got hookadmin.Replayed
		err = json.NewDecoder(resp.Body).Decode(&got)
		resp.Body.Close()
		if want := (hookadmin.Replayed{Source: "lab", EventID: id, Generation: 1, Messages: 1}); err != nil || got != want {
			t.Errorf("id %q: %d %+v (%v)", id, resp.StatusCode, got, err)
		}
		if got := g.actions(t, id); !slices.Equal(got, []string{"replayed"}) {
			t.Errorf("event %q: %v", id, got)
		}
	}
	for _, id := range []string{"%00", "%ff", "%0a", "%1b"} {
		wantProblem(t, g.post(t, "/api/v1/events/lab/"+id+"/replay", "{}"), http.StatusBadRequest)
	}
}

func TestAClientThatHangsUpChangesNothing(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	messages := g.enqueue(t, "e1", "e2")
	g.settle(t, driver.MessageDead)
	ctx, hangUp := context.WithCancel(t.Context())
	hangUp()
	for _, target := range []string{"/api/v1/events/lab/e1/replay", "/api/v1/messages/" + messages[1] + "/retry"} {
		resp := g.send(t, "POST", target, "{}", func(r *http.Request) {
			*r = *r.WithContext(ctx)
			r.Header.Set("Content-Type", "application/json")
		})
		if resp.status != 200 {
			t.Errorf("%s: answer %d %s", target, resp.status, resp.body)
		}
	}
	g.wantState(t, "e1", "running")
	g.wantState(t, "e2", "running")
}

// faultyStore is a store that loses the confirmations of changes.
type faultyStore struct {
	driver.Store
	err  error // the error for the caller
	done bool  // whether the change was made
}

func (s *faultyStore) Replay(ctx context.Context, p *driver.ReplayParams) (*driver.Replayed, error) {
	if s.err == nil {
		return s.Store.Replay(ctx, p)
	}
	if s.done {
		if _, err := s.Store.Replay(ctx, p); err != nil {
			return nil, err
		}
	}
	return nil, s.err
}

func (s *faultyStore) RetryMessage(ctx context.Context, p *driver.RetryMessageParams) error {
	if s.err == nil || s.done {
		if err := s.Store.RetryMessage(ctx, p); err != nil {
			return err
		}
	}
	return s.err
}

func TestAReplayThatWasNotConfirmed(t *testing.T) {
	t.Parallel()
	store := &faultyStore{Store: rig.OpenSQLite(t)}
	g := newGatewayOn(t, store)
	messages := g.enqueue(t, "e1")
	g.settle(t, driver.MessageDead)
	const may = "may have happened"
	tests := []struct {
		err    error
		done   bool
		detail string
	}{
		{driver.ErrUnavailable, false, "cannot be used now"},
		{driver.ErrLockTimeout, false, "held a lock for too long"},
		{driver.ErrSerialization, false, "was in the way"},
		{fmt.Errorf("%w: %w", driver.ErrUnavailable, context.DeadlineExceeded), false, "did not answer in time"},
		{context.DeadlineExceeded, false, may},
		{fmt.Errorf("%w: %w", driver.ErrCommitUnknown, context.DeadlineExceeded), false, may},
		{driver.ErrCommitUnknown, true, may},
	}
	for _, tt := range tests {
		store.err, store.done = tt.err, tt.done
		for _, target := range []string{"/api/v1/events/lab/e1/replay", "/api/v1/messages/" + messages[0] + "/retry"} {
			wantDetail(t, g.post(t, target, "{}", "Idempotency-Key: k"), http.StatusServiceUnavailable, tt.detail)
			if strings.HasSuffix(target, "/replay") {
				wantDetail(t, g.post(t, target, "{}", "Idempotency-Key: k"), http.StatusServiceUnavailable, "same Idempotency-Key")
			}
		}
	}
	store.err = nil
	got := readJSON[hookadmin.Replayed](t, g.post(t, "/api/v1/events/lab/e1/replay", "{}", "Idempotency-Key: k"))
	if want := (hookadmin.Replayed{Source: "lab", EventID: "e1", Generation: 1, Messages: 1, Repeated: true}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

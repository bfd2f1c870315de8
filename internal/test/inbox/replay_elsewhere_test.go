package inbox_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/operate"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/provider"
)

// An operator's process, such as a command or a gateway, has no handlers. The work of an event does
// not depend on it.

// slowRoute is a setting with the route "slow" from every source, whose condition is err.
func slowRoute(err error) func(*hookonce.Config) {
	return func(cfg *hookonce.Config) {
		sendBy(cfg, newSent().Send)
		cfg.Routes[0].Name, cfg.Routes[0].Where = "slow", func(*hookonce.Event) (bool, error) { return err == nil, err }
	}
}

func TestUndecidedEventRunsItsHandlerAfterAReplay(t *testing.T) {
	t.Parallel()
	l := onSQLite(t)
	mux := handling(effectOf(l))
	in := inbox(t, l, mux, slowRoute(fmt.Errorf("%w: too long", hookonce.ErrUndecided)))
	deliverAll(t, in, "1", "2")
	wantUndecided(t, l.db, "1")
	wantUndecided(t, l.db, "2")

	// Without routes the process would drop the messages too.
	_, err := newEngine(t, l.db, nil).Replay(t.Context(), &hookonce.ReplayRequest{Source: "gh", EventID: "1"})
	if !errors.Is(err, driver.ErrNoRoute) {
		t.Errorf("Replay by a process that knows nothing of the source: got the error %v, want %v", err, driver.ErrNoRoute)
	}
	_, err = newEngine(t, l.db, func(c *hookonce.Config) { c.Sources[0].Name = "other" }).
		Replay(t.Context(), &hookonce.ReplayRequest{Source: "gh", EventID: "1"})
	if !errors.Is(err, driver.ErrNoRoute) {
		t.Errorf("Replay by a process without the source: got the error %v, want %v", err, driver.ErrNoRoute)
	}
	wantUndecided(t, l.db, "1")

	elsewhere := newEngine(t, l.db, slowRoute(nil))
	if _, err := elsewhere.Replay(t.Context(), &hookonce.ReplayRequest{Source: "gh", EventID: "1"}); err != nil {
		t.Fatal(err)
	}
	if worked, err := elsewhere.ReplayDead(t.Context(), &hookonce.DeadLetters{}); err != nil || worked.Done != 1 {
		t.Fatalf("ReplayDead: %+v, %v, want one done", worked, err)
	}
	for _, id := range []string{"1", "2"} {
		if ev := eventState(t, l.db, id); ev.State != driver.StatePending || len(ev.Messages) != 1 {
			t.Errorf("after the replay event %s is %s with %d messages, want pending with one", id, ev.State, len(ev.Messages))
		}
	}
	run(t, in)
	for _, id := range []string{"1", "2"} {
		wantOutcome(t, l, id, outcome{State: driver.StateDone, Attempts: 1, Generation: 1})
	}
	wantEffects(t, l, "1", "2")
}

// wantHandledElsewhere retries a request in a process that has routes and no handlers.
func wantHandledElsewhere(t *testing.T, store driver.Store, settings func(*hookonce.Config)) {
	t.Helper()
	before := oneQuarantined(t, store)
	in := newEngine(t, store, func(c *hookonce.Config) { settings(c); routePushes(c) })
	if got, err := in.Operator().RetryQuarantined(t.Context(), before.Key); !errors.Is(err, operate.ErrHandledElsewhere) {
		t.Errorf("a retry without the handler: %+v and the error %v, want %v", got, err, operate.ErrHandledElsewhere)
	}
	if diff := cmp.Diff(before, oneQuarantined(t, store)); diff != "" {
		t.Errorf("the request in the quarantine (-want +got):\n%s", diff)
	}
}

func TestQuarantinedRequestWaitsForItsHandler(t *testing.T) {
	t.Parallel()
	l := onSQLite(t)
	mux := handling(effectOf(l))
	if got := deliver(inbox(t, l, mux, idAt("body:id")), delivery("h", `{"uid":"e1"}`)); got.Code != http.StatusBadRequest {
		t.Fatalf("answer %+v, want 400", got)
	}
	wantHandledElsewhere(t, l.db, idAt("body:uid"))
	in := inbox(t, l, mux, idAt("body:uid"))
	if _, err := in.Operator().RetryQuarantined(t.Context(), oneQuarantined(t, l.db).Key); err != nil {
		t.Fatal(err)
	}
	run(t, in)
	wantDone(t, l, "e1")
	wantEffects(t, l, "e1")
}

// A batch is retried where its handlers are. An item that stays keeps that fact.
func TestPartOfARetriedRequestWaitsForItsHandler(t *testing.T) {
	t.Parallel()
	l := onSQLite(t)
	mux := handling(effectOf(l))
	deliver(inbox(t, l, mux, items), delivery("b", `{"events":[{"id":"a"},{}]}`))
	right := rules(provider.EventRules{ID: "item:id", Batch: "body:events"})
	got, err := inbox(t, l, mux, right).Operator().RetryQuarantined(t.Context(), oneQuarantined(t, l.db).Key)
	if err != nil || got.Claimed != 1 || got.Kept != 1 {
		t.Fatalf("retried %+v and the error %v, want one event and one item", got, err)
	}
	wantHandledElsewhere(t, l.db, right)
}

func TestQuarantinedRequestOfVerifyWaitsForItsCaller(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	d, err := newEngine(t, store, idAt("body:id")).Verify(httptest.NewRecorder(), delivery("h", `{"uid":"e1"}`))
	if err == nil {
		t.Fatalf("Verify returned %+v, want an error", d)
	}
	wantHandledElsewhere(t, store, idAt("body:uid"))
}

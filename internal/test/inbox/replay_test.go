package inbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/rig"
	"github.com/hookonce/hookonce/observe"
)

func TestReplay(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		statuses []int // of the answers before the replay
		state    string
		mode     driver.ReplayMode
		id       string // of the message that is sent again
	}{
		{"done, as new", nil, driver.StateDone, driver.ReplayAsNew, messageID("1", 1)},
		{"done, same id", nil, driver.StateDone, driver.ReplaySameID, messageID("1", 0)},
		{"dead", []int{500, 500}, driver.StateDead, driver.ReplayPlain, messageID("1", 0)},
		{"dead, as new", []int{410}, driver.StateDead, driver.ReplayAsNew, messageID("1", 1)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store, s := rig.OpenSQLite(t), newSink(t, tt.statuses...)
			in := forwarding(t, store, s.URL, quick)
			deliver(in, delivery("1", `{"n":1}`))
			settled(t, store, "1", tt.state)
			before := len(s.got())

			got, err := in.Replay(t.Context(), &hookonce.ReplayRequest{Source: "gh", EventID: "1", Mode: tt.mode})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&driver.Replayed{Generation: 1, Messages: 1}, got); diff != "" {
				t.Errorf("Replay (-want +got):\n%s", diff)
			}
			if ev := settled(t, store, "1", driver.StateDone); ev.Generation != 1 {
				t.Errorf("generation %d, want 1", ev.Generation)
			}
			want := []received{{ID: tt.id, Key: tt.id, Attempt: "1", Replay: "1", Body: `{"n":1}`}}
			if diff := cmp.Diff(want, s.got()[before:]); diff != "" {
				t.Errorf("after the replay the destination got (-want +got):\n%s", diff)
			}
		})
	}
}

// Replay sends an event by a route that was added after the event.
func TestReplayByANewRoute(t *testing.T) {
	t.Parallel()
	store, s := rig.OpenSQLite(t), newSink(t)
	deliver(newEngine(t, store, nil), delivery("1", `{"n":1}`))
	if ev := eventState(t, store, "1"); ev.State != driver.StateDone || ev.Note != driver.NoteNoRoute {
		t.Fatalf("state %q, note %q, want done without a route", ev.State, ev.Note)
	}
	in := forwarding(t, store, s.URL, quick)
	if _, err := in.Replay(t.Context(), &hookonce.ReplayRequest{Source: "gh", EventID: "1", Mode: driver.ReplaySameID}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the message is sent", func() bool { return len(s.got()) == 1 })
	id := messageID("1", 0) // the id that the message has if the route is older than the event
	want := []received{{ID: id, Key: id, Attempt: "1", Replay: "1", Body: `{"n":1}`}}
	if diff := cmp.Diff(want, s.got()); diff != "" {
		t.Errorf("the destination got (-want +got):\n%s", diff)
	}
	if ev := settled(t, store, "1", driver.StateDone); ev.Note != "" {
		t.Errorf("note %q, want none", ev.Note)
	}
}

func TestDeadLettersInBulk(t *testing.T) {
	t.Parallel()
	const events = 450 // more than two pages
	store, o := rig.OpenSQLite(t), &observed{}
	in := newEngine(t, store, func(c *hookonce.Config) {
		items(c)
		routed(c)
		c.Observer = o.observer()
	}) // not running: the test does the work of the relay
	var list []string
	for i := range events {
		list = append(list, fmt.Sprintf(`{"id":%d}`, i))
	}
	deliver(in, delivery("", `{"items":[`+strings.Join(list, ",")+`]}`))
	bury(t, store, events)

	some := &hookonce.DeadLetters{Filter: driver.MessageFilter{Source: "gh"}, EventIDs: []string{"7", "8", "no such"}}
	worked, err := in.Discard(t.Context(), some)
	if diff := cmp.Diff(hookonce.Worked{Done: 2, Passed: 1}, worked); diff != "" || err != nil {
		t.Errorf("Discard: error %v (-want +got):\n%s", err, diff)
	}
	if ev := eventState(t, store, "7"); ev.State != driver.StateSkipped || ev.Note != driver.NoteDiscarded {
		t.Errorf("the discarded event: state %q, note %q", ev.State, ev.Note)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if worked, err := in.ReplayDead(ended, &hookonce.DeadLetters{}); err == nil || worked.Done != 0 {
		t.Errorf("ReplayDead with an ended context: %+v, error %v", worked, err)
	}
	worked, err = in.ReplayDead(t.Context(), &hookonce.DeadLetters{Rate: hookonce.Rate{Count: 1_000_000, Per: time.Second}})
	if diff := cmp.Diff(hookonce.Worked{Done: events - 2}, worked); diff != "" || err != nil {
		t.Errorf("ReplayDead: error %v (-want +got):\n%s", err, diff)
	}
	page, err := store.DeadLetters(t.Context(), &driver.MessageFilter{})
	if err != nil || len(page.DeadLetters) != 0 {
		t.Errorf("%d dead letters left, error %v, want none", len(page.DeadLetters), err)
	}
	counts := map[string]int{}
	for _, one := range take(o, &o.operated, func(*observe.Operated) {}) {
		counts[one.Action+" of "+one.Source] += one.Count
	}
	if diff := cmp.Diff(map[string]int{"discarded of gh": 2, "replayed of gh": events - 2}, counts); diff != "" {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
}

// A replay whose context ends says how far it came. A repeated one goes on there, and replays nothing twice.
func TestInterruptedBulk(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	ctx, cancel := context.WithCancel(t.Context())
	in := newEngine(t, store, func(c *hookonce.Config) {
		items(c)
		routed(c)
		c.Observer = &observe.Observer{Operated: func(observe.Operated) { cancel() }}
	})
	deliver(in, delivery("", `{"items":[{"id":1},{"id":2},{"id":3}]}`))
	bury(t, store, 3)
	which := &hookonce.DeadLetters{Operation: "op", Rate: hookonce.Rate{Count: 1, Per: time.Second}}
	worked, err := in.ReplayDead(ctx, which)
	if !errors.Is(err, context.Canceled) || worked.Done == 0 || worked.Done == 3 {
		t.Errorf("the interrupted replay: %+v, error %v", worked, err)
	}
	bury(t, store, worked.Done)
	worked, err = in.ReplayDead(t.Context(), which)
	if diff := cmp.Diff(hookonce.Worked{Done: 3}, worked); diff != "" || err != nil {
		t.Errorf("the repeated replay: error %v (-want +got):\n%s", err, diff)
	}
	for _, id := range []string{"1", "2", "3"} {
		if ev, err := store.Event(t.Context(), "gh", id); err != nil || len(ev.History) != 1 {
			t.Errorf("event %s: history %+v, error %v, want one replay", id, ev.History, err)
		}
	}
	if worked, err := in.Discard(t.Context(), which); !errors.Is(err, driver.ErrRequestReused) {
		t.Errorf("another change with the id: %+v, error %v", worked, err)
	}
}

func TestUndo(t *testing.T) {
	t.Parallel()
	store := rig.OpenSQLite(t)
	in := newEngine(t, store, func(c *hookonce.Config) { items(c); routed(c) })
	deliver(in, delivery("", `{"items":[{"id":1},{"id":2}]}`))
	bury(t, store, 2)
	which := &hookonce.DeadLetters{Filter: driver.MessageFilter{Source: "gh", EventID: "1"}, Operation: "op"}
	worked, err := in.Discard(t.Context(), which)
	if diff := cmp.Diff(hookonce.Worked{Done: 1}, worked); diff != "" || err != nil {
		t.Fatalf("Discard: error %v (-want +got):\n%s", err, diff)
	}
	for _, both := range []hookonce.DeadLetters{
		{Filter: driver.MessageFilter{EventID: "2", MessageID: messageID("1", 0)}},
		{Filter: driver.MessageFilter{EventID: "1"}, EventIDs: []string{"2"}},
		{Filter: driver.MessageFilter{MessageID: messageID("1", 0)}, EventIDs: []string{"2"}},
	} {
		if worked, err := in.Discard(t.Context(), &both); err == nil || worked.Done > 0 {
			t.Errorf("Discard of %+v: %+v and no error", both, worked)
		}
	}
	for i, want := range []hookonce.Worked{{Done: 1}, {Passed: 1}} {
		worked, err := in.Undo(t.Context(), "op")
		if diff := cmp.Diff(want, worked); diff != "" || err != nil {
			t.Errorf("Undo %d: error %v (-want +got):\n%s", i, err, diff)
		}
	}
	if ev := eventState(t, store, "1"); ev.State != driver.StateDead {
		t.Errorf("the event is %s, want it dead again", ev.State)
	}
	if worked, err := in.Undo(t.Context(), "none"); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("Undo of nothing: %+v, error %v", worked, err)
	}
}

// bury leases the n due messages and completes them as dead.
func bury(t *testing.T, store driver.Store, n int) {
	t.Helper()
	leased, err := store.Lease(t.Context(), &driver.LeaseParams{Destination: "app", Limit: n, For: time.Minute, MaxAttempts: 1})
	if err != nil || len(leased.Messages) != n {
		t.Fatalf("leased %d messages, error %v", len(leased.Messages), err)
	}
	var p driver.CompleteParams
	for _, m := range leased.Messages {
		p.Completions = append(p.Completions, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageDead, Error: "answered 410"})
	}
	if _, err := store.Complete(t.Context(), &p); err != nil {
		t.Fatal(err)
	}
}

package lifecycle

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookonce/hookonce/driver"
)

var testKey = driver.EventKey("stripe", "evt_1")

// message returns a message of route. Its id comes from the generation made; it is in the
// generation now.
func message(route, state string, made, now int) Message {
	return Message{ID: driver.MessageID(testKey, made, route), Route: route, Destination: "to-" + route, State: state, Generation: now}
}

// added returns the messages that a replay adds for routes, with ids of the generation.
func added(generation int, routes ...string) []driver.NewMessage {
	var all []driver.NewMessage
	for _, route := range routes {
		all = append(all, driver.NewMessage{ID: driver.MessageID(testKey, generation, route), Route: route, Destination: "to-" + route})
	}
	return all
}

// ids returns the ids of the routes' messages in the generation.
func ids(generation int, routes ...string) []string {
	var all []string
	for _, route := range routes {
		all = append(all, driver.MessageID(testKey, generation, route))
	}
	return all
}

// replays plans the replay of e in every mode, in the order of the constants.
func replays(e *Event, routes []driver.NewMessage) (plans [3]*Plan, errs [3]error) {
	for i, mode := range []driver.ReplayMode{driver.ReplayPlain, driver.ReplayAsNew, driver.ReplaySameID} {
		plans[i], errs[i] = Replay(e, mode, "", &Now{Routes: routes})
	}
	return plans, errs
}

// TestReplay covers events whose parts differ in state or generation.
func TestReplay(t *testing.T) {
	t.Parallel()
	const (
		sent, dead, skipped = driver.StateSent, driver.StateDead, driver.StateSkipped
		done                = driver.StateDone
	)
	for _, c := range []struct {
		name                 string
		state                string
		generation           int
		messages             []Message
		routes               []driver.NewMessage
		plain, asNew, sameID *Plan // nil means ErrModeNeeded for plain, ErrNoRoute for the others
	}{
		{
			name: "all sent", messages: []Message{message("a", sent, 0, 0), message("b", sent, 0, 0)}, routes: added(0, "x"),
			asNew: &Plan{Generation: 1, Add: added(1, "a", "b")}, sameID: &Plan{Generation: 1, Reset: ids(0, "a", "b")},
		},
		{
			name: "one dead", messages: []Message{message("a", sent, 0, 0), message("b", dead, 0, 0)},
			plain:  &Plan{Generation: 1, Reset: ids(0, "b")},
			asNew:  &Plan{Generation: 1, Add: added(1, "b"), Replace: ids(0, "b")},
			sameID: &Plan{Generation: 1, Reset: ids(0, "b")},
		},
		{
			name: "all discarded", messages: []Message{message("a", skipped, 0, 0)},
			plain: &Plan{Generation: 1, Reset: ids(0, "a")}, asNew: &Plan{Generation: 1, Add: added(1, "a"), Replace: ids(0, "a")},
			sameID: &Plan{Generation: 1, Reset: ids(0, "a")},
		},
		{
			name:     "sent, then replayed as new and discarded",
			messages: []Message{message("a", sent, 0, 0), message("a", skipped, 1, 1)},
			asNew:    &Plan{Generation: 2, Add: added(2, "a")}, sameID: &Plan{Generation: 2, Reset: ids(0, "a")},
		},
		{
			name:     "due again in a later generation, then sent",
			messages: []Message{message("a", sent, 0, 5)},
			asNew:    &Plan{Generation: 6, Add: added(6, "a")}, sameID: &Plan{Generation: 6, Reset: ids(0, "a")},
		},
		{
			name:     "each route by its own generation",
			messages: []Message{message("a", sent, 0, 0), message("b", skipped, 0, 0), message("b", sent, 1, 1)},
			asNew:    &Plan{Generation: 2, Add: added(2, "a", "b")},
			sameID:   &Plan{Generation: 2, Reset: slices.Concat(ids(0, "a"), ids(1, "b"))},
		},
		{
			name:     "replaced, then dead again",
			messages: []Message{message("a", dead, 0, 2), message("a", sent, 1, 1)},
			plain:    &Plan{Generation: 3, Reset: ids(0, "a")},
			asNew:    &Plan{Generation: 3, Add: added(3, "a"), Replace: ids(0, "a")},
			sameID:   &Plan{Generation: 3, Reset: ids(0, "a")},
		},
		{
			name:     "two dead of one route",
			messages: []Message{message("a", dead, 0, 2), message("a", dead, 1, 1)},
			plain:    &Plan{Generation: 3, Reset: []string{ids(0, "a")[0], ids(1, "a")[0]}},
			asNew:    &Plan{Generation: 3, Add: added(3, "a"), Replace: []string{ids(0, "a")[0], ids(1, "a")[0]}},
			sameID:   &Plan{Generation: 3, Reset: []string{ids(0, "a")[0], ids(1, "a")[0]}},
		},
		{
			name:     "two sent of one route and generation",
			messages: []Message{message("a", sent, 0, 3), message("a", sent, 1, 3)},
			asNew:    &Plan{Generation: 4, Add: added(4, "a")},
			sameID:   &Plan{Generation: 4, Reset: []string{ids(0, "a")[0], ids(1, "a")[0]}},
		},
		{name: "no route at the claim or now"},
		{
			name: "no route at the claim", routes: added(0, "x", "y"),
			asNew: &Plan{Generation: 1, Add: added(1, "x", "y")}, sameID: &Plan{Generation: 1, Add: added(0, "x", "y")},
		},
		{
			name: "own row has a higher generation", state: done, generation: 7, messages: []Message{message("a", dead, 0, 2)}, routes: added(0, "x"),
			plain:  &Plan{Generation: 8, Reset: ids(0, "a")},
			asNew:  &Plan{Generation: 8, Add: added(8, "a"), Replace: ids(0, "a")},
			sameID: &Plan{Generation: 8, Reset: ids(0, "a")},
		},
		{
			name: "own row dead, message sent", state: dead, messages: []Message{message("a", sent, 0, 2)},
			plain: &Plan{Generation: 3, Event: true}, asNew: &Plan{Generation: 3, Event: true}, sameID: &Plan{Generation: 3, Event: true},
		},
		{
			name: "own row done", state: done, routes: added(0, "x"),
			asNew: &Plan{Generation: 1, Event: true}, sameID: &Plan{Generation: 1, Event: true},
		},
		{
			name: "own row skipped", state: skipped, routes: added(0, "x"),
			plain: &Plan{Generation: 1, Event: true}, asNew: &Plan{Generation: 1, Event: true}, sameID: &Plan{Generation: 1, Event: true},
		},
		{
			name: "own row skipped, message sent", state: skipped, messages: []Message{message("a", sent, 0, 0)},
			asNew: &Plan{Generation: 1, Event: true, Add: added(1, "a")}, sameID: &Plan{Generation: 1, Event: true, Reset: ids(0, "a")},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := &Event{Key: testKey, State: c.state, Generation: c.generation, Messages: c.messages}
			before := slices.Clone(c.messages)
			plans, errs := replays(e, c.routes)
			for i, want := range []*Plan{c.plain, c.asNew, c.sameID} {
				if want != nil {
					filled := *want
					filled.Action = actions[i]
					want = &filled
				}
				if diff := cmp.Diff(want, plans[i], cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%s (-want +got):\n%s", actions[i], diff)
				}
				wantErr := driver.ErrModeNeeded
				if i > 0 {
					wantErr = driver.ErrNoRoute
				}
				if want == nil && !errors.Is(errs[i], wantErr) || want != nil && errs[i] != nil {
					t.Errorf("%s: got the error %v, want %v", actions[i], errs[i], map[bool]error{true: wantErr}[want == nil])
				}
			}
			if diff := cmp.Diff(before, e.Messages); diff != "" {
				t.Errorf("the event was changed (-before +after):\n%s", diff)
			}
		})
	}
}

var actions = [3]string{driver.ActionReplayed, driver.ActionReplayedAsNew, driver.ActionReplayedSameID}

// TestReplayEveryCombination covers all states of an event's own row and of up to two messages, in
// all modes, with and without body and routes.
func TestReplayEveryCombination(t *testing.T) {
	t.Parallel()
	const none = ""
	messageStates := append([]string{none}, driver.MessageStates()...)
	seen := map[string]int{}
	for _, state := range append([]string{none}, driver.EventStates()...) {
		for _, a := range messageStates {
			for _, b := range messageStates {
				for _, pruned := range []bool{false, true} {
					for _, routes := range [][]driver.NewMessage{nil, added(0, "x")} {
						e := &Event{Key: testKey, State: state, BodyPruned: pruned}
						if a != none {
							e.Messages = append(e.Messages, message("a", a, 0, 0))
						}
						if b != none {
							e.Messages = append(e.Messages, message("b", b, 0, 0))
						}
						checkCombination(t, seen, e, routes, strings.Join([]string{"row " + state, a, b, fmt.Sprint(pruned), fmt.Sprint(len(routes))}, ","))
					}
				}
			}
		}
	}
	for _, what := range []error{nil, driver.ErrOpen, driver.ErrBodyPruned, driver.ErrModeNeeded, driver.ErrNoRoute} {
		if seen[fmt.Sprint(what)] == 0 {
			t.Errorf("no combination ended with %v", what)
		}
	}
}

// checkCombination checks the plans for e against the words of the contract.
func checkCombination(t *testing.T, seen map[string]int, e *Event, routes []driver.NewMessage, name string) {
	t.Helper()
	states := []string{e.State}
	for i := range e.Messages {
		states = append(states, e.Messages[i].State)
	}
	has := func(list ...string) bool {
		return slices.ContainsFunc(states, func(s string) bool { return slices.Contains(list, s) })
	}
	isOpen := has(driver.StatePending, driver.StateRunning, driver.StateSending)
	isDead := has(driver.StateDead)
	wasDone := has(driver.StateDone, driver.StateSent)
	noWork := e.State == "" && len(e.Messages) == 0
	plans, errs := replays(e, routes)
	for i, plan := range plans {
		var want error
		switch {
		case isOpen:
			want = driver.ErrOpen
		case e.BodyPruned:
			want = driver.ErrBodyPruned
		case i == 0 && !isDead && (wasDone || noWork):
			want = driver.ErrModeNeeded
		case noWork && len(routes) == 0:
			want = driver.ErrNoRoute
		}
		seen[fmt.Sprint(want)]++
		if !errors.Is(errs[i], want) || (plan == nil) != (want != nil) {
			t.Errorf("%s, %s: got the plan %+v and the error %v, want the error %v", name, actions[i], plan, errs[i], want)
			continue
		}
		if plan != nil {
			checkPlan(t, plan, e, isDead, wasDone, routes, i == 1, name)
		}
	}
}

func checkPlan(t *testing.T, plan *Plan, e *Event, isDead, wasDone bool, routes []driver.NewMessage, asNew bool, name string) {
	t.Helper()
	want := Plan{Action: plan.Action, Generation: 1, Event: e.State == driver.StateDead || !isDead && e.State != ""}
	for _, m := range e.Messages {
		switch {
		case isDead && m.State != driver.StateDead, !isDead && wasDone && m.State != driver.StateSent:
			continue
		case !asNew:
			want.Reset = append(want.Reset, m.ID)
			continue
		case m.State != driver.StateSent:
			want.Replace = append(want.Replace, m.ID)
		}
		want.Add = append(want.Add, added(1, m.Route)...)
	}
	if e.State == "" && len(e.Messages) == 0 {
		want.Add = slices.Clone(routes)
		if asNew {
			want.Add = added(1, "x")
		}
	}
	if diff := cmp.Diff(&want, plan, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s, %s (-want +got):\n%s", name, plan.Action, diff)
	}
}

// A message of its own beside the undecided routes would make a later replay take them for decided.
func TestSendToOfAnUndecidedEvent(t *testing.T) {
	t.Parallel()
	plan, err := SendTo(&Event{Key: testKey, State: driver.StateDead, Undecided: true}, "billing")
	if !errors.Is(err, driver.ErrUndecided) {
		t.Errorf("got %+v and the error %v, want %v", plan, err, driver.ErrUndecided)
	}
}

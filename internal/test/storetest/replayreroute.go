package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func rerouteCases() []testCase {
	return []testCase{
		{"Sent", rerouteSent},
		{"Open", rerouteOpen},
		{"BeingSent", rerouteBeingSent},
		{"DeadOfTwoDestinations", rerouteDead},
		{"ThereAndBack", rerouteBack},
		{"AfterAsNew", rerouteAfterAsNew},
		{"FirstRoutes", rerouteFirst},
		{"Discarded", rerouteDiscarded},
		{"BesideHandler", rerouteBesideHandler},
		{"Refused", rerouteRefused},
		{"SendTo", sendTo},
		{"SendToRequestID", sendToRequestID},
		{"Parts", eventParts},
		{"FilterDestination", filterDestination},
	}
}

// routed is an event under test. A message is written as "route>destination".
type routed struct {
	*fixture
	c  driver.Claim
	at time.Time
}

func (f *fixture) routed(id, messages string) *routed {
	f.Helper()
	r := &routed{fixture: f, c: newClaim("stripe", id, "{}"), at: t0}
	r.c.Messages = r.routes(messages)
	f.claimNew(t0, r.c)
	return r
}

// routes returns messages as a claim would write them.
func (r *routed) routes(list string) (all []driver.NewMessage) {
	for _, m := range strings.Fields(list) {
		route, destination, _ := strings.Cut(m, ">")
		all = append(all, driver.NewMessage{ID: driver.MessageID(r.c.Key, 0, route), Route: route, Destination: destination})
	}
	return all
}

// replays replays the event, and fails unless the result and then its messages are as wanted: each with
// its state and its note.
func (r *routed) replays(p driver.ReplayParams, want driver.Replayed, messages ...string) {
	r.Helper()
	r.at = r.at.Add(time.Second)
	p.Key, p.Now = r.c.Key, r.at
	same(r, "Replay", want, r.replay(&p))
	r.has(messages...)
}

// reroutes replays the event twice with present routes. The second time must change nothing.
func (r *routed) reroutes(routes string, want driver.Replayed, messages ...string) {
	r.Helper()
	p := driver.ReplayParams{Mode: driver.ReplayReroute, Routes: r.routes(routes)}
	r.replays(p, want, messages...)
	before := r.event("stripe", r.c.EventID)
	r.replays(p, driver.Replayed{Generation: before.Generation, Stayed: true}, messages...)
	r.sameEvent(before)
}

func (r *routed) has(messages ...string) {
	r.Helper()
	var got []string
	for _, m := range r.event("stripe", r.c.EventID).Messages {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s>%s %s %s", m.Route, m.Destination, m.State, m.Note)))
	}
	slices.Sort(got)
	slices.Sort(messages)
	same(r, "messages", messages, got)
}

func (r *routed) sent(destinations ...string) {
	r.Helper()
	for _, destination := range destinations {
		r.sendOne(r.at, destination)
	}
}

// idOf returns the id of the newest message to a destination.
func (r *routed) idOf(destination string) string {
	r.Helper()
	var found driver.MessageDetail
	for _, m := range r.event("stripe", r.c.EventID).Messages {
		if m.Destination == destination && !m.CreatedAt.Before(found.CreatedAt) {
			found = m
		}
	}
	return found.ID
}

func rerouteSent(f *fixture) {
	r := f.routed("evt_1", "r>ci kept>audit")
	r.sent("ci", "audit")
	r.reroutes("r>billing kept>audit", driver.Replayed{Generation: 1, Messages: 1},
		"r>ci sent rerouted", "kept>audit sent", "r>billing pending")
	want := []driver.HistoryEntry{{At: t0.Add(time.Second), Action: driver.ActionRerouted, Generation: 1}}
	same(f, "history", want, f.event("stripe", "evt_1").History)
	m := f.leaseOne(r.at, "billing")
	if m.ID != driver.MessageIDTo(r.c.Key, 0, "r", "billing") || !m.Replayed || m.Generation != 1 {
		f.Errorf("leased %+v, want the message of the route to its new destination, replayed", m)
	}
	f.mustComplete(r.at, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent})
	r.reroutes("r>billing kept>audit", driver.Replayed{Generation: 1, Stayed: true},
		"r>ci sent rerouted", "kept>audit sent", "r>billing sent")
	// Later replays leave the wrong destination alone.
	r.replays(driver.ReplayParams{Mode: driver.ReplaySameID}, driver.Replayed{Generation: 2, Messages: 2},
		"r>ci sent rerouted", "kept>audit pending", "r>billing pending")
	r.sent("billing", "audit")
	r.replays(driver.ReplayParams{Mode: driver.ReplayAsNew}, driver.Replayed{Generation: 3, Messages: 2},
		"r>ci sent rerouted", "kept>audit sent", "r>billing sent", "kept>audit pending", "r>billing pending")
	f.noneDue(r.at, "ci", "after a replay as new")
	r.reroutes("r>billing kept>audit", driver.Replayed{Generation: 3, Stayed: true},
		"r>ci sent rerouted", "kept>audit sent", "r>billing sent", "kept>audit pending", "r>billing pending")
}

func rerouteOpen(f *fixture) {
	r := f.routed("evt_1", "r>ci kept>audit")
	r.reroutes("kept>audit", driver.Replayed{Skipped: 1}, "r>ci skipped rerouted", "kept>audit pending")
	f.noneDue(r.at, "ci", "after a reroute")
	r.sent("audit")
	if got := f.event("stripe", "evt_1"); got.State != driver.StateDone {
		f.Errorf("the event is %s, want it done", got.State)
	}
}

func rerouteBeingSent(f *fixture) {
	r := f.routed("evt_1", "r>ci kept>audit")
	kept, m := f.leaseOne(t0, "audit"), f.leaseOne(t0, "ci")
	p := driver.ReplayParams{Key: r.c.Key, Mode: driver.ReplayReroute, Routes: r.routes("r>billing kept>audit"), RequestID: "r1"}
	before := f.event("stripe", "evt_1")
	p.Now = t0.Add(leaseFor - time.Second)
	_, err := f.s.Replay(f.Context(), &p)
	f.refused("reroute while a message is being sent", driver.ErrSending, err)
	f.sameEvent(before)
	// The process that sent it is gone. A message that is right may be under way.
	p.Now = t0.Add(leaseFor)
	same(f, "reroute", driver.Replayed{Generation: 1, Messages: 1, Skipped: 1}, f.replay(&p))
	r.has("r>ci skipped rerouted", "r>billing pending", "kept>audit sending")
	same(f, "late outcome", []bool{false, true}, f.complete(p.Now,
		driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent},
		driver.Completion{ID: kept.ID, Token: kept.Token, Outcome: driver.MessageSent}))
	r.has("r>ci skipped rerouted", "r>billing pending", "kept>audit sent")
	same(f, "repeated request", driver.Replayed{Generation: 1, Messages: 1, Repeated: true}, f.replay(&p))
}

// rerouteDead makes messages of one route to two destinations dead. A replay as new sends both again.
func rerouteDead(f *fixture) {
	r := f.routed("evt_1", "r>ci")
	f.kill(t0, "ci")
	ci := r.idOf("ci")
	r.reroutes("r>billing", driver.Replayed{Generation: 1, Messages: 1, Skipped: 1}, "r>ci skipped rerouted", "r>billing pending")
	f.retry(r.at, ci)
	f.kill(r.at, "ci")
	f.kill(r.at, "billing")
	r.replays(driver.ReplayParams{Mode: driver.ReplayAsNew}, driver.Replayed{Generation: 3, Messages: 2},
		"r>ci skipped replayed as new", "r>billing skipped replayed as new", "r>ci pending", "r>billing pending")
	r.sent("ci", "billing")
}

func rerouteBack(f *fixture) {
	r := f.routed("evt_1", "r>ci")
	r.reroutes("r>billing", driver.Replayed{Generation: 1, Messages: 1, Skipped: 1}, "r>ci skipped rerouted", "r>billing pending")
	r.reroutes("r>ci", driver.Replayed{Generation: 2, Messages: 1, Skipped: 1}, "r>ci pending", "r>billing skipped rerouted")
	r.sent("ci")
	r.reroutes("r>billing", driver.Replayed{Generation: 3, Messages: 1}, "r>ci sent rerouted", "r>billing pending")
	r.sent("billing")
	r.reroutes("r>ci", driver.Replayed{Generation: 3, Stayed: true}, "r>ci sent", "r>billing sent rerouted")
	r.replays(driver.ReplayParams{Mode: driver.ReplayAsNew}, driver.Replayed{Generation: 4, Messages: 1},
		"r>ci sent", "r>billing sent rerouted", "r>ci pending")
	// The message that replaced another one was itself rerouted.
	f.kill(r.at, "ci")
	r.replays(driver.ReplayParams{Mode: driver.ReplayAsNew}, driver.Replayed{Generation: 5, Messages: 1},
		"r>ci sent", "r>billing sent rerouted", "r>ci skipped replayed as new", "r>ci pending")
}

func rerouteAfterAsNew(f *fixture) {
	r := f.routed("evt_1", "r>ci")
	f.kill(t0, "ci")
	r.replays(driver.ReplayParams{Mode: driver.ReplayAsNew}, driver.Replayed{Generation: 1, Messages: 1},
		"r>ci skipped replayed as new", "r>ci pending")
	r.reroutes("r>billing", driver.Replayed{Generation: 2, Messages: 1, Skipped: 1},
		"r>ci skipped replayed as new", "r>ci skipped rerouted", "r>billing pending")
	same(f, "id", driver.MessageIDTo(r.c.Key, 1, "r", "billing"), r.idOf("billing"))
	// It is not lost, although an older message of the route to this destination is skipped.
	r.reroutes("r>ci", driver.Replayed{Generation: 3, Messages: 1, Skipped: 1},
		"r>ci skipped replayed as new", "r>ci pending", "r>billing skipped rerouted")
	r.sent("ci")
}

func rerouteFirst(f *fixture) {
	r := f.routed("evt_1", "")
	r.reroutes("", driver.Replayed{Stayed: true})
	r.reroutes("x>ci", driver.Replayed{Generation: 1, Messages: 1}, "x>ci pending")
	same(f, "id", driver.MessageID(r.c.Key, 0, "x"), r.idOf("ci"))

	c := newClaim("stripe", "evt_2", "{}")
	c.Undecided = driver.NoteUndecided + "x"
	f.claimNew(t0, c)
	second := &routed{f, c, t0}
	second.reroutes("x>audit", driver.Replayed{Generation: 1, Messages: 1}, "x>audit pending")
	if got := f.event("stripe", "evt_2"); got.State != driver.StateDone {
		f.Errorf("the event that was undecided is %s, want it done", got.State)
	}
}

func rerouteDiscarded(f *fixture) {
	r := f.routed("evt_1", "r>ci kept>audit")
	f.kill(t0, "ci")
	f.kill(t0, "audit")
	f.discard(t0, letter(&r.c, 0), letter(&r.c, 1))
	r.reroutes("kept>audit", driver.Replayed{Stayed: true}, "r>ci skipped discarded", "kept>audit skipped discarded")
	r.reroutes("kept>audit r>billing", driver.Replayed{Generation: 1, Messages: 1},
		"r>ci skipped discarded", "kept>audit skipped discarded", "r>billing pending")
}

func rerouteBesideHandler(f *fixture) {
	r := &routed{f, newClaim("stripe", "evt_1", "{}"), t0}
	r.c.Work, r.c.Messages = driver.WorkQueued, r.routes("r>ci")
	f.claimNew(t0, r.c)
	r.reroutes("r>billing", driver.Replayed{Generation: 1, Messages: 1, Skipped: 1}, "r>ci skipped rerouted", "r>billing pending")
	if got := f.event("stripe", "evt_1"); got.State != driver.StatePending {
		f.Errorf("the event is %s, want its handler to wait as before", got.State)
	}
}

func rerouteRefused(f *fixture) {
	r := f.routed("evt_1", "r>ci")
	r.sent("ci")
	refused := func(what string, want error, p driver.ReplayParams) {
		f.Helper()
		p.Key, p.Now = r.c.Key, r.at
		_, err := f.s.Replay(f.Context(), &p)
		f.refused(what, want, err)
	}
	refused("undecided routes", driver.ErrUndecided, driver.ReplayParams{Mode: driver.ReplayReroute, Undecided: true})
	refused("unknown routes", driver.ErrNoRoute, driver.ReplayParams{Mode: driver.ReplayReroute, Unknown: true})
	r.reroutes("", driver.Replayed{Stayed: true}, "r>ci sent rerouted")
	refused("the wrong destination as new", driver.ErrNoRoute, driver.ReplayParams{Mode: driver.ReplayAsNew})
	r.reroutes("r>ci", driver.Replayed{Stayed: true}, "r>ci sent")
	f.prune(&driver.PruneParams{DedupeWindow: 30 * day, Retention: day, Now: t0.Add(2 * day)})
	refused("reroute without a body", driver.ErrBodyPruned, driver.ReplayParams{Mode: driver.ReplayReroute, Routes: r.routes("r>billing")})
	refused("send without a body", driver.ErrBodyPruned, driver.ReplayParams{Mode: driver.ReplayTo, To: "billing"})
	r.has("r>ci sent")
}

func sendTo(f *fixture) {
	r := f.routed("evt_1", "r>ci")
	to := func(destination string) driver.ReplayParams {
		return driver.ReplayParams{Mode: driver.ReplayTo, To: destination}
	}
	r.replays(to("billing"), driver.Replayed{Generation: 1, Messages: 1}, "r>ci pending", ">billing pending")
	r.replays(to("billing"), driver.Replayed{Generation: 1, Stayed: true}, "r>ci pending", ">billing pending")
	r.replays(to("ci"), driver.Replayed{Generation: 2, Messages: 1}, "r>ci pending", ">billing pending", ">ci pending")
	id := r.idOf("billing")
	same(f, "id", driver.MessageIDTo(r.c.Key, 0, "", "billing"), id)
	want := driver.HistoryEntry{At: t0.Add(time.Second), Action: driver.ActionSentTo, Generation: 1, MessageID: id}
	same(f, "history", want, f.event("stripe", "evt_1").History[0])
	// Dead or skipped, it is due again.
	f.kill(r.at, "billing")
	r.replays(to("billing"), driver.Replayed{Generation: 3, Messages: 1}, "r>ci pending", ">billing pending", ">ci pending")
	r.sent("billing")
	r.replays(to("billing"), driver.Replayed{Generation: 3, Stayed: true}, "r>ci pending", ">billing sent", ">ci pending")
	// A reroute leaves it alone, and after a replay as new there is another one.
	r.reroutes("", driver.Replayed{Generation: 3, Skipped: 1}, "r>ci skipped rerouted", ">billing sent", ">ci pending")
	f.kill(r.at, "ci")
	r.replays(driver.ReplayParams{Mode: driver.ReplayAsNew}, driver.Replayed{Generation: 4, Messages: 1},
		"r>ci skipped rerouted", ">billing sent", ">ci skipped replayed as new", ">ci pending")
	r.replays(to("ci"), driver.Replayed{Generation: 4, Stayed: true},
		"r>ci skipped rerouted", ">billing sent", ">ci skipped replayed as new", ">ci pending")
	r.replays(to("billing"), driver.Replayed{Generation: 5, Messages: 1},
		"r>ci skipped rerouted", ">billing sent", ">billing pending", ">ci skipped replayed as new", ">ci pending")
}

func sendToRequestID(f *fixture) {
	r := f.routed("evt_1", "")
	p := driver.ReplayParams{Mode: driver.ReplayTo, To: "billing", RequestID: "r1"}
	r.replays(p, driver.Replayed{Generation: 1, Messages: 1}, ">billing pending")
	r.sent("billing")
	r.replays(driver.ReplayParams{Mode: driver.ReplayAsNew}, driver.Replayed{Generation: 2, Messages: 1}, ">billing sent", ">billing pending")
	r.replays(p, driver.Replayed{Generation: 1, Messages: 1, Repeated: true}, ">billing sent", ">billing pending")
	for _, other := range []driver.ReplayParams{
		{Mode: driver.ReplayTo, To: "ci"}, {Mode: driver.ReplayAsNew}, {Mode: driver.ReplayReroute},
	} {
		other.Key, other.RequestID = r.c.Key, "r1"
		_, err := f.s.Replay(f.Context(), &other)
		f.refused(fmt.Sprintf("the request with %+v", other), driver.ErrRequestReused, err)
	}
	r.has(">billing sent", ">billing pending")
}

func eventParts(f *fixture) {
	r := f.routed("evt_1", "a>ci b>billing")
	f.kill(t0, "ci")
	r.sent("billing")
	r.replays(driver.ReplayParams{Mode: driver.ReplayAsNew}, driver.Replayed{Generation: 1, Messages: 1},
		"a>ci skipped replayed as new", "a>ci pending", "b>billing sent")
	queued := newClaim("stripe", "evt_2", "{}")
	queued.Work = driver.WorkQueued
	f.claimNew(t0, queued)
	part := func(generation int, route, destination, state, note string) driver.EventPart {
		return driver.EventPart{
			ID: driver.MessageID(r.c.Key, generation, route), Route: route, Destination: destination, State: state, Note: note, Generation: generation,
		}
	}
	want := []driver.EventParts{
		{Key: r.c.Key, AsNew: 1, Messages: []driver.EventPart{
			part(0, "a", "ci", driver.StateSkipped, driver.NoteReplacedByNew), part(1, "a", "ci", driver.StatePending, ""),
			part(0, "b", "billing", driver.StateSent, ""),
		}},
		{Key: queued.Key, State: driver.StatePending},
	}
	got, err := f.s.EventParts(f.Context(), []driver.Key{queued.Key, driver.EventKey("stripe", "unknown"), r.c.Key})
	if err != nil {
		f.Fatal(err)
	}
	byKey := func(a, b driver.EventParts) int { return compareKeys(a.Key, b.Key) }
	slices.SortFunc(want, byKey)
	slices.SortFunc(got, byKey)
	for _, e := range slices.Concat(want, got) {
		slices.SortFunc(e.Messages, func(a, b driver.EventPart) int { return strings.Compare(a.ID, b.ID) })
	}
	same(f, "parts", want, got)
}

func filterDestination(f *fixture) {
	for i := range 30 {
		f.routed(fmt.Sprintf("evt_%02d", i), []string{"r>ci", "r>billing s>ci", "", "r>billing"}[i%4])
	}
	for destination, want := range map[string]int{"ci": 16, "billing": 15, "other": 0} {
		n := 0
		filter := &driver.EventFilter{Destination: destination, Limit: 4, Source: "stripe"}
		for {
			page := f.events(filter)
			n += len(page.Events)
			if filter.After = page.Next; filter.After.IsZero() {
				break
			}
		}
		same(f, "events to "+destination, want, n)
	}
	page := f.events(&driver.EventFilter{Source: "stripe", Destination: "billing", ID: "evt_01", State: driver.StateRunning, Limit: 4})
	same(f, "one event", 1, len(page.Events))
}

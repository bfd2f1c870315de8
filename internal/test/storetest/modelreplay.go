package storetest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/hookonce/hookonce/driver"
)

// refusals maps the errors that Replay and RetryMessage must return in every run to their names.
var refusals = map[error]string{
	driver.ErrNotFound: "not found", driver.ErrOpen: "open", driver.ErrBodyPruned: "body gone",
	driver.ErrRequestReused: "request reused", driver.ErrModeNeeded: "mode needed", driver.ErrNoRoute: "no route", driver.ErrSent: "sent already",
}

// modelRequest is a replay with a RequestID.
type modelRequest struct {
	mode driver.ReplayMode
	did  driver.Replayed
}

// replay is the contract of Store.Replay for an event that exists.
func (e *modelEvent) replay(p *driver.ReplayParams) (driver.Replayed, error) {
	if before, ok := e.requests[p.RequestID]; ok && p.RequestID != "" {
		if before.mode != p.Mode {
			return driver.Replayed{}, driver.ErrRequestReused
		}
		before.did.Repeated = true
		return before.did, nil
	}
	chosen, ended := e.chosen()
	switch {
	case !ended:
		return driver.Replayed{}, driver.ErrOpen
	case e.pruned:
		return driver.Replayed{}, driver.ErrBodyPruned
	case p.Mode == driver.ReplayPlain && e.state() == driver.StateDone:
		return driver.Replayed{}, driver.ErrModeNeeded
	case len(e.messages)+len(p.Routes) == 0:
		return driver.Replayed{}, driver.ErrNoRoute
	}
	done := driver.Replayed{Generation: e.generation() + 1}
	routes := map[string]string{} // the routes to add, with their destinations
	for _, m := range chosen {
		if p.Mode != driver.ReplayAsNew {
			m.owe(done.Generation, p.Now, true)
			done.Messages++
			continue
		}
		if m.detail.State != driver.StateSent {
			m.skip(driver.NoteReplacedByNew)
		}
		routes[m.detail.Route] = m.detail.Destination
	}
	of := done.Generation
	if len(e.messages) == 0 {
		for _, m := range p.Routes {
			routes[m.Route] = m.Destination
		}
		if p.Mode != driver.ReplayAsNew {
			of = 0
		}
	}
	for route, destination := range routes {
		e.messages = append(e.messages, &modelMessage{event: e, replayed: true, detail: driver.MessageDetail{
			ID: driver.MessageID(e.claim.Key, of, route), Route: route, Destination: destination, State: driver.StatePending,
			Generation: done.Generation, DueAt: p.Now, CreatedAt: p.Now,
		}})
	}
	// A fixed order, so that a seed repeats a run.
	slices.SortStableFunc(e.messages, func(a, b *modelMessage) int {
		return compareListed(b.detail.CreatedAt, a.detail.CreatedAt, e.claim.Key, e.claim.Key, a.detail.ID, b.detail.ID)
	})
	done.Messages += len(routes)
	e.requests[p.RequestID] = modelRequest{p.Mode, done}
	e.tell(driver.HistoryEntry{At: p.Now, Action: replayModes[p.Mode].action, Generation: done.Generation, RequestID: p.RequestID})
	return done, nil
}

// chosen returns the messages of a replay: the dead ones; or else, per route, the sent one of the
// highest generation; or if none was sent, any one of the highest generation. ended reports whether
// no message is open.
func (e *modelEvent) chosen() (chosen []*modelMessage, ended bool) {
	in := map[string][]*modelMessage{}
	for _, m := range e.messages {
		in[m.detail.State] = append(in[m.detail.State], m)
	}
	switch {
	case len(in[driver.StatePending])+len(in[driver.StateSending]) > 0:
		return nil, false
	case len(in[driver.StateDead]) > 0:
		return in[driver.StateDead], true
	}
	chosen = in[driver.StateSent]
	if len(chosen) == 0 {
		chosen = slices.Clone(e.messages)
	}
	highest := map[string]int{}
	for _, m := range chosen {
		highest[m.detail.Route] = max(highest[m.detail.Route], m.detail.Generation)
	}
	return slices.DeleteFunc(chosen, func(m *modelMessage) bool { return m.detail.Generation < highest[m.detail.Route] }), true
}

func (w *world) stepReplay() string {
	p := driver.ReplayParams{
		Key: driver.EventKey("stripe", "unknown"), Mode: driver.ReplayMode(w.rand.IntN(3)), Now: w.now,
		RequestID: []string{"", "", "r1", "r2"}[w.rand.IntN(4)],
	}
	all := w.sortedEvents()
	if len(all) == 0 || w.rand.IntN(20) == 0 {
		_, err := w.s.Replay(w.Context(), &p)
		w.refusedLike(driver.ErrNotFound, err)
		return "replay of an unknown event"
	}
	e := all[w.rand.IntN(len(all))]
	for try := 0; try < 5 && e.state() == driver.StateRunning; try++ { // prefer an event that has ended
		e = all[w.rand.IntN(len(all))]
	}
	if w.rand.IntN(4) == 0 {
		e = w.requested(e, &p)
	}
	e.touched = true
	p.Key = e.claim.Key
	p.Routes = newClaim(e.claim.Source, e.claim.EventID, "", []string{"audit", "billing"}[:w.rand.IntN(3)]...).Messages
	first := len(e.messages) == 0
	want, wantErr := e.replay(&p)
	got, err := w.s.Replay(w.Context(), &p)
	if wantErr != nil || err != nil {
		w.refusedLike(wantErr, err)
		return fmt.Sprintf("replay of %s in mode %d, refused", e.claim.EventID, p.Mode)
	}
	same(w, "Replay", want, *got)
	switch {
	case want.Repeated:
		w.seen["replay repeated"] = true
	case first:
		w.seen["first routes"] = true
	default:
		w.seen[[]string{"replayed", "replayed as new", "replayed under the same id"}[p.Mode]] = true
	}
	return fmt.Sprintf("replay of %s in mode %d with the request %q", e.claim.EventID, p.Mode, p.RequestID)
}

// requested sets an earlier request and returns its event; without one it returns e. Random steps alone would hardly ever repeat
// a request.
func (w *world) requested(e *modelEvent, p *driver.ReplayParams) *modelEvent {
	all := w.sortedEvents()
	for _, i := range w.rand.Perm(len(all)) {
		for _, id := range []string{"r1", "r2"} {
			if before, ok := all[i].requests[id]; ok {
				p.RequestID, p.Mode = id, before.mode
				return all[i]
			}
		}
	}
	return e
}

// refusedLike compares an error with the model's.
func (w *world) refusedLike(want, got error) {
	w.Helper()
	if want == nil || !errors.Is(got, want) {
		w.Errorf("got the error %v, want %v", got, want)
	}
	w.seen[refusals[want]] = true
}

// stepLetters replays or discards some messages, dead or not.
func (w *world) stepLetters() string {
	var letters []driver.DeadLetterRef
	var want []bool
	discard := w.rand.IntN(2) == 0
	generations := map[*modelEvent]int{} // the generation that one call gives the messages of one event
	for _, m := range w.messages(func(m *modelMessage) bool { return m.detail.State == driver.StateDead || w.rand.IntN(10) == 0 }) {
		if w.rand.IntN(3) == 0 {
			continue
		}
		dead := m.detail.State == driver.StateDead
		letters = append(letters, driver.DeadLetterRef{Key: m.event.claim.Key, MessageID: m.detail.ID})
		want = append(want, dead)
		m.event.touched = true
		switch {
		case !dead:
			w.seen["no letter"] = true
			continue
		case discard:
			m.skip(driver.NoteDiscarded)
			w.seen["letter discarded"] = true
		default:
			if generations[m.event] == 0 {
				generations[m.event] = m.event.generation() + 1
			}
			m.owe(generations[m.event], w.now, true)
			w.seen["letter replayed"] = true
		}
		m.event.tell(driver.HistoryEntry{
			At: w.now, Action: map[bool]string{true: driver.ActionDiscarded, false: driver.ActionReplayed}[discard],
			Generation: m.detail.Generation, MessageID: m.detail.ID,
		})
	}
	if discard {
		same(w, "Discard", want, w.discard(w.now, letters...))
	} else {
		same(w, "ReplayDead", want, w.replayDead(w.now, letters...))
	}
	return fmt.Sprintf("dead letters %+v, discarded: %v", letters, discard)
}

// retry is the contract of Store.RetryMessage.
func (m *modelMessage) retry(p *driver.RetryMessageParams) error {
	action := driver.ActionReplayed
	switch {
	case m.detail.State == driver.StateSending:
		return driver.ErrOpen
	case m.detail.State == driver.StateSent:
		return driver.ErrSent
	case m.event.pruned:
		return driver.ErrBodyPruned
	case m.detail.State == driver.StatePending:
		action = driver.ActionRetried
		if p.Now.Before(m.detail.DueAt) {
			m.detail.DueAt = p.Now
		}
	default:
		m.owe(m.event.generation()+1, p.Now, true)
	}
	m.event.tell(driver.HistoryEntry{At: p.Now, Action: action, Generation: m.detail.Generation, MessageID: m.detail.ID})
	return nil
}

func (w *world) stepRetry() string {
	waits := func(m *modelMessage) bool {
		return m.detail.State == driver.StatePending && m.detail.DueAt.After(w.now)
	}
	all := w.messages(func(m *modelMessage) bool { return waits(m) || w.rand.IntN(4) == 0 })
	if len(all) == 0 {
		return "no message to retry"
	}
	m := all[w.rand.IntN(len(all))]
	m.event.touched = true
	p := driver.RetryMessageParams{ID: m.detail.ID, Now: w.now}
	early := waits(m)
	want := m.retry(&p)
	err := w.s.RetryMessage(w.Context(), &p)
	if want != nil || err != nil {
		w.refusedLike(want, err)
		return "retry of " + m.detail.ID + ", refused"
	}
	w.seen["retried"] = true
	w.seen["retried early"] = w.seen["retried early"] || early
	return "retry of " + m.detail.ID
}

// compareListings compares the listings of messages and the numbers.
func (w *world) compareListings() {
	w.Helper()
	var all scene
	var stats driver.Stats
	at := map[string]*driver.DestinationStats{}
	for _, e := range w.sortedEvents() {
		all.add(e.detail(), false)
		for _, m := range e.messages {
			if slices.Contains([]string{driver.StatePending, driver.StateSending, driver.StateDead}, m.detail.State) {
				m.countInto(at)
			}
		}
	}
	sortListed(all.messages)
	sortLetters(all.letters)
	for _, name := range []string{"to-audit", "to-billing"} {
		if d := at[name]; d != nil {
			stats.Destinations = append(stats.Destinations, *d)
			stats.DeadLetters += d.Dead
		}
	}
	answer := cmp.Options{lastAnswer(), cmpopts.IgnoreFields(driver.DeadLetter{}, "StatusCode", "LastError", "Signature")}
	same(w, "messages", all.messages, w.listMessages(&driver.MessageFilter{Limit: driver.MaxLimit}).Messages, answer)
	same(w, "dead letters", all.letters, w.deadLetters(&driver.MessageFilter{Limit: driver.MaxLimit}).DeadLetters, answer)
	same(w, "stats", stats, w.stats())
}

func (m *modelMessage) countInto(at map[string]*driver.DestinationStats) {
	d := at[m.detail.Destination]
	if d == nil {
		d = &driver.DestinationStats{Destination: m.detail.Destination}
		at[m.detail.Destination] = d
	}
	switch m.detail.State {
	case driver.StateSending:
		d.Sending++
	case driver.StateDead:
		d.Dead++
	case driver.StatePending:
		if d.Pending++; d.OldestDueAt.IsZero() || m.detail.DueAt.Before(d.OldestDueAt) {
			d.OldestDueAt = m.detail.DueAt
		}
	}
}

package storetest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hookonce/hookonce/driver"
)

func replayRequestID(f *fixture) {
	c, other := newClaim("stripe", "evt_1", "{}", "a", "b"), newClaim("stripe", "evt_2", "{}", "c")
	f.claimNew(t0, c, other)
	f.kill(t0, "to-a")
	f.kill(t0, "to-b")
	f.kill(t0, "to-c")
	p := driver.ReplayParams{Key: c.Key, RequestID: "it's r1", Now: t0}
	first := driver.Replayed{Generation: 1, Messages: 2}
	same(f, "first request", first, f.replay(&p))
	repeated := driver.Replayed{Generation: 1, Messages: 2, Repeated: true}
	// The later state of the event does not matter.
	for _, state := range []string{"open", "dead", "replayed", "done", "pruned"} {
		switch state {
		case "dead":
			f.kill(t0, "to-a")
			f.kill(t0, "to-b")
		case "replayed":
			second := driver.ReplayParams{Key: c.Key, RequestID: "r2", Now: t0}
			same(f, "another request", driver.Replayed{Generation: 2, Messages: 2}, f.replay(&second))
			second.Now = t0.Add(day)
			same(f, "another request, repeated", driver.Replayed{Generation: 2, Messages: 2, Repeated: true}, f.replay(&second))
		case "done":
			for _, destination := range []string{"to-a", "to-b"} {
				m := f.leaseOne(t0, destination)
				f.mustComplete(t0, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent})
			}
		case "pruned":
			f.prune(&driver.PruneParams{DedupeWindow: 30 * day, Retention: day, Now: t0.Add(2 * day)})
		}
		before := f.event("stripe", "evt_1")
		for _, m := range replayModes {
			again := p
			again.Mode, again.Now = m.mode, t0.Add(day)
			if m.mode == p.Mode {
				same(f, "repeated request while "+state, repeated, f.replay(&again))
				continue
			}
			_, err := f.s.Replay(f.Context(), &again)
			f.refused("request in another mode while "+state, driver.ErrRequestReused, err)
		}
		f.sameEvent(before)
	}
	// The same request id on another event is another request, and so is each request without an
	// id.
	p.Key = other.Key
	same(f, "request for another event", driver.Replayed{Generation: 1, Messages: 1}, f.replay(&p))
	want := []driver.HistoryEntry{{At: t0, Action: driver.ActionReplayed, Generation: 1, RequestID: "it's r1"}}
	same(f, "history", want, f.event("stripe", "evt_2").History)
	f.kill(t0, "to-c")
	for generation := 2; generation < 4; generation++ {
		same(f, "request without an id", driver.Replayed{Generation: generation, Messages: 1}, f.replay(&driver.ReplayParams{Key: other.Key, Now: t0}))
		f.kill(t0, "to-c")
	}
	// The requests are forgotten with the identity.
	f.prune(windows(day, t0.Add(30*day)))
	f.absent("stripe", "evt_1")
	f.claimNew(t0, c)
	f.kill(t0, "to-a")
	f.kill(t0, "to-b")
	p.Key = c.Key
	same(f, "request after the identity was pruned", first, f.replay(&p))
}

// replayRequestRefused repeats refused requests. A refused request is not remembered.
func replayRequestRefused(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "a")
	p := driver.ReplayParams{Key: c.Key, RequestID: "r1", Now: t0}
	refused := func(want error) {
		f.Helper()
		got, err := f.s.Replay(f.Context(), &p)
		f.refused(fmt.Sprintf("Replay returned %+v", got), want, err)
	}
	refused(driver.ErrNotFound)
	f.claimNew(t0, c)
	refused(driver.ErrOpen)
	f.sendOne(t0, "to-a")
	refused(driver.ErrModeNeeded)
	refused(driver.ErrModeNeeded)
	p.Mode = driver.ReplaySameID
	same(f, "request with a mode", driver.Replayed{Generation: 1, Messages: 1}, f.replay(&p))
	same(f, "repeated", driver.Replayed{Generation: 1, Messages: 1, Repeated: true}, f.replay(&p))
	same(f, "entries", 1, len(f.event("stripe", "evt_1").History))
}

// replayRequestTexts uses request ids that a database might confuse. None repeats another, and an
// id that is not valid text is refused.
func replayRequestTexts(f *fixture) {
	c := newClaim("stripe", "evt_1", "{}", "a")
	f.claimNew(t0, c)
	f.kill(t0, "to-a")
	var want []string
	for i, id := range ids() {
		p := driver.ReplayParams{Key: c.Key, RequestID: id, Now: t0}
		same(f, "request "+id, driver.Replayed{Generation: i + 1, Messages: 1}, f.replay(&p))
		f.kill(t0, "to-a")
		want = append(want, id)
	}
	for i, id := range ids() {
		p := driver.ReplayParams{Key: c.Key, RequestID: id, Now: t0}
		same(f, "repeated request "+id, driver.Replayed{Generation: i + 1, Messages: 1, Repeated: true}, f.replay(&p))
	}
	var got []string
	for _, entry := range f.event("stripe", "evt_1").History {
		got = append(got, entry.RequestID)
	}
	same(f, "ids of the history", want, got)

	before := f.event("stripe", "evt_1")
	for _, id := range []string{"a\x00b", "\x00", "\xff", strings.Repeat("x", 254) + "\xc3"} {
		got, err := f.s.Replay(f.Context(), &driver.ReplayParams{Key: c.Key, RequestID: id, Now: t0})
		if err == nil || errors.Is(err, driver.ErrCommitUnknown) {
			f.Errorf("request %q: Replay returned %+v and the error %v, want it refused", id, got, err)
		}
	}
	f.sameEvent(before)
}

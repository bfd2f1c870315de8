package storetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// orderReplayPassed replays a version below a sent one.
func orderReplayPassed(f *fixture) {
	first, second := newOrdered("x", 1, true), newOrdered("x", 2, true)
	f.claimNew(t0, first)
	f.ends(t0, f.goes(t0, "x_1"), driver.MessageSent)
	f.claimNew(t0, second)
	f.ends(t0, f.goes(t0, "x_2"), driver.MessageSent)
	before := f.event("stripe", "x_1")
	for _, mode := range []driver.ReplayMode{driver.ReplaySameID, driver.ReplayAsNew} {
		_, err := f.s.Replay(f.Context(), &driver.ReplayParams{Key: first.Key, Mode: mode, Now: t0})
		f.refused("replay of a passed version", driver.ErrPassed, err)
	}
	f.sameEvent(before)
	f.replay(&driver.ReplayParams{Key: second.Key, Mode: driver.ReplaySameID, Now: t0}) // the highest one is not passed
	f.ends(t0, f.goes(t0, "x_2"), driver.MessageSent)
	for _, mode := range []driver.ReplayMode{driver.ReplaySameID, driver.ReplayAsNew} {
		f.replay(&driver.ReplayParams{Key: first.Key, Mode: mode, Stale: true, Now: t0})
		f.ends(t0, f.goes(t0, "x_1"), driver.MessageSent)
	}
	_, err := f.s.Replay(f.Context(), &driver.ReplayParams{Key: first.Key, Mode: driver.ReplaySameID, Now: t0})
	f.refused("a later replay", driver.ErrPassed, err)
	versions, err := f.s.Versions(f.Context(), []driver.Key{placed("x", 1, true).Line.Object})
	if err != nil || versions[placed("x", 1, true).Line.Object].Shown != "2" {
		f.Errorf("versions: %+v, %v, want 2: a stale replay takes nothing back", versions, err)
	}
}

// orderReplayAsNew replays a dead letter as new: the new message takes its place.
func orderReplayAsNew(f *fixture) {
	first := newOrdered("x", 1, true)
	f.claimNew(t0, first, newOrdered("x", 2, true))
	f.ends(t0, f.goes(t0, "x_1"), driver.MessageDead)
	f.replayAt(t0, first.Key, driver.ReplayAsNew)
	f.ends(t0, f.goes(t0, "x_1"), driver.MessageSent)
	f.goes(t0, "x_2")
}

func orderReopened(f *fixture) {
	first := newOrdered("x", 1, true)
	f.claimNew(t0, first, newOrdered("x", 2, true))
	f.ends(t0, f.goes(t0, "x_1"), driver.MessageDead)
	same(f, "reopened", []driver.Key{first.Key}, f.reopen(t0, first.Key))
	got := f.goes(t0, "x_1")
	f.heldLines(0)
	f.ends(t0, got, driver.MessageSent)
	f.goes(t0, "x_2")
}

// orderBackInLine lets a line pass a dead letter, and makes that one due again before a later version is sent. From then on it comes
// first, also where only the later one is leased.
func orderBackInLine(f *fixture) {
	for object, again := range map[string]func(at time.Time, c *driver.Claim) error{
		"reopened": func(at time.Time, c *driver.Claim) error {
			_, _, err := f.s.Reopen(f.Context(), &driver.ReopenParams{Keys: []driver.Key{c.Key}, Now: at})
			return err
		},
		"letter": func(at time.Time, c *driver.Claim) error {
			_, err := f.s.ReplayDead(f.Context(), &driver.DeadLetterParams{Letters: []driver.DeadLetterRef{letter(c, 0)}, Now: at})
			return err
		},
		"retried": func(at time.Time, c *driver.Claim) error {
			return f.s.RetryMessage(f.Context(), &driver.RetryMessageParams{ID: c.Messages[0].ID, Now: at})
		},
		"replayed": func(at time.Time, c *driver.Claim) error {
			_, err := f.s.Replay(f.Context(), &driver.ReplayParams{Key: c.Key, Mode: driver.ReplayPlain, Now: at})
			return err
		},
	} {
		first := newOrdered(object, 1, false)
		f.claimNew(t0, first, newOrdered(object, 2, false))
		f.ends(t0, f.goes(t0, object+"_1"), driver.MessageDead)
		retry := outcomeOf(&f.goes(t0, object+"_2")[0], driver.MessageRetry)
		retry.RetryIn = time.Second
		f.mustComplete(t0, retry)
		now := t0.Add(leaseFor)
		if err := again(now, &first); err != nil {
			f.Fatalf("%s: %v", object, err)
		}
		leased := f.lease(now, "to-a", 1)
		if len(leased) != 1 || leased[0].EventID != object+"_2" {
			f.Fatalf("leased %+v, want the later version alone, which was due first", leased)
		}
		admitted, _ := f.admit(now, &driver.AdmitParams{Messages: []driver.OrderedMessage{{MessageLease: leaseOf(&leased[0])}}}, leased)
		same(f, object+": let go", []string(nil), eventsOf(admitted))
		f.ends(now, f.goes(now, object+"_1"), driver.MessageSent)
		f.ends(now, f.goes(now, object+"_2"), driver.MessageSent)
	}
}

// orderJoinsLate claims messages without their places, as a process with older settings does. They join at their first
// lease.
func orderJoinsLate(f *fixture) {
	f.claimNew(t0, newClaim("stripe", "x_2", "{}", "a"), newClaim("stripe", "x_1", "{}", "a"))
	places := map[string]*driver.Order{"x_1": placed("x", 1, true), "x_2": placed("x", 2, true)}
	same(f, "let go", []string{"x_1"}, eventsOf(f.join(t0, places)))
}

// join leases all that is due, and admits it with places from the settings.
func (f *fixture) join(at time.Time, places map[string]*driver.Order) []ordered {
	f.Helper()
	leased := f.lease(at, "to-a", 10)
	p := &driver.AdmitParams{}
	for i := range leased {
		p.Messages = append(p.Messages, driver.OrderedMessage{MessageLease: leaseOf(&leased[i]), Order: places[leased[i].EventID]})
	}
	admitted, _ := f.admit(at, p, leased)
	return admitted
}

// orderOtherLine changes the settings, so that messages belong into another line. Each stays in its line until its turn,
// also while the one before it is sent, waits for a retry, or may have arrived.
func orderOtherLine(f *fixture) {
	f.claimNew(t0, newOrdered("x", 1, true))
	first := f.goes(t0, "x_1")
	f.claimNew(t0, newOrdered("x", 2, true), newOrdered("x", 3, true))
	moved := map[string]*driver.Order{}
	for v := 1; v <= 3; v++ {
		moved[fmt.Sprint("x_", v)] = placed("z", v, false)
	}
	same(f, "let go while the first is sent", []string(nil), eventsOf(f.join(t0, moved)))
	retry := outcomeOf(&first[0], driver.MessageRetry)
	retry.RetryIn = time.Hour
	f.mustComplete(t0, retry)
	f.retry(t0, driver.MessageID(driver.EventKey("stripe", "x_3"), 0, "a"))
	same(f, "let go while the first waits for its retry", []string(nil), eventsOf(f.join(t0, moved)))
	now := t0.Add(time.Hour)
	for _, id := range []string{"x_1", "x_2", "x_3"} {
		got := f.join(now, moved)
		same(f, "let go", []string{id}, eventsOf(got))
		for i := range got {
			if got[i].Line.Object != moved[id].Line.Object {
				f.Errorf("%s goes in its old line", id)
			}
		}
		f.ends(now, got, driver.MessageSent)
		if id == "x_1" { // a lower one of the new line comes first, and the next one of the old line waits for it there
			c := newClaim("stripe", "low", "{}", "a")
			c.Messages[0].Order = placed("z", 1, false)
			f.claimNew(now.Add(-time.Minute), c)
			low := f.join(now, moved)
			same(f, "let go", []string{"low"}, eventsOf(low))
			f.ends(now, low, driver.MessageSent)
		}
	}
	if seen, _, err := f.s.SweepLines(f.Context(), driver.Key{}, 10); seen != 0 || err != nil {
		f.Errorf("swept %d lines, %v, want none after all have ended", seen, err)
	}
}

// orderUnansweredStays keeps a message that may have arrived in its line, where others wait for it.
func orderUnansweredStays(f *fixture) {
	f.claimNew(t0, newOrdered("x", 2, true))
	f.goes(t0, "x_2")
	f.claimNew(t0, newOrdered("x", 1, true))
	now := t0.Add(leaseFor)
	got := f.join(now, map[string]*driver.Order{"x_2": placed("z", 2, true), "x_1": placed("z", 1, true)})
	same(f, "let go", []string{"x_2"}, eventsOf(got))
	f.ends(now, got, driver.MessageSent)
	_, passed := f.letGo(now)
	same(f, "stale", []string{"x_1"}, eventsOf(passed))
}

// orderReplayJoins replays an event whose dead letter let its line go on: the line waits for it again at once.
func orderReplayJoins(f *fixture) {
	for i, mode := range []driver.ReplayMode{driver.ReplayPlain, driver.ReplayAsNew} {
		object := fmt.Sprint("x", i)
		first := newOrdered(object, 1, false)
		f.claimNew(t0, first, newOrdered(object, 2, false))
		f.ends(t0, f.goes(t0, object+"_1"), driver.MessageDead)
		f.ends(t0, f.goes(t0, object+"_2"), driver.MessageRetry)
		f.replayAt(t0, first.Key, mode)
		leased := f.lease(t0, "to-a", 10)
		p := &driver.AdmitParams{}
		leased = slices.DeleteFunc(leased, func(m driver.Message) bool { return m.EventID == object+"_1" })
		for i := range leased {
			p.Messages = append(p.Messages, driver.OrderedMessage{MessageLease: leaseOf(&leased[i])})
		}
		admitted, _ := f.admit(t0, p, leased)
		same(f, "let go before the replayed one", []string(nil), eventsOf(admitted))
		now := t0.Add(leaseFor)
		f.ends(now, f.goes(now, object+"_1"), driver.MessageSent)
		f.ends(now, f.goes(now, object+"_2"), driver.MessageSent)
	}
}

// orderDuplicate claims again an event that was claimed without its place.
func orderDuplicate(f *fixture) {
	f.claimNew(t0, newClaim("stripe", "x_1", "{}", "a"))
	f.claim(t0, newOrdered("x", 1, true))
	f.claimNew(t0, newOrdered("x", 2, true))
	same(f, "duplicates", duplicates(2), f.claim(t0, newOrdered("x", 1, true), newOrdered("x", 2, true)))
	leased := f.lease(t0, "to-a", 10)
	p := &driver.AdmitParams{}
	for i := range leased {
		p.Messages = append(p.Messages, driver.OrderedMessage{MessageLease: leaseOf(&leased[i])})
		if leased[i].EventID == "x_1" { // SQLite does not look for the messages of duplicates
			p.Messages[i].Order = placed("x", 1, true)
		}
	}
	admitted, _ := f.admit(t0, p, leased)
	same(f, "let go", []string{"x_1"}, eventsOf(admitted))
}

func orderSweep(f *fixture) {
	for v := 1; v <= 2; v++ {
		for _, object := range []string{"x", "y", "z"} {
			f.claimNew(t0, newOrdered(object, v, true))
		}
	}
	got := f.goes(t0, "x_1", "y_1", "z_1")
	for i := range got { // without its line, as a process does that knows of no lines
		m := outcomeOf(&got[i], driver.MessageSent)
		m.Line = nil
		f.mustComplete(t0, m)
	}
	f.noneDue(t0.Add(day), "to-a", "before a sweep of the lines")
	swept := 0
	for after := (driver.Key{}); ; {
		seen, last, err := f.s.SweepLines(f.Context(), after, 2)
		if err != nil {
			f.Fatalf("SweepLines: %v", err)
		}
		swept += seen
		if seen < 2 {
			break
		}
		if compareKeys(last, after) <= 0 {
			f.Fatal("the sweep does not go on")
		}
		after = last
	}
	if swept != 3 {
		f.Errorf("swept %d lines, want 3", swept)
	}
	now := f.clock().Add(time.Second)
	f.ends(now, f.goes(now, "x_2", "y_2", "z_2"), driver.MessageSent)
	if seen, _, err := f.s.SweepLines(f.Context(), driver.Key{}, 10); seen != 0 || err != nil {
		f.Errorf("swept %d lines, %v, want none after all have ended", seen, err)
	}
}

// orderSweepRefused sweeps past a line whose row the database refuses to change.
func orderSweepRefused(f *fixture) {
	for v := 1; v <= 2; v++ {
		for _, object := range []string{"x", "y", "z"} {
			f.claimNew(t0, newOrdered(object, v, true))
		}
	}
	got := f.goes(t0, "x_1", "y_1", "z_1")
	slices.SortFunc(got, func(a, b ordered) int { return compareKeys(a.Line.Object, b.Line.Object) })
	for i := range got {
		m := outcomeOf(&got[i], driver.MessageSent)
		m.Line = nil
		f.mustComplete(t0, m)
	}
	allow := f.with.Refuse(f.T, f.s, "ordered_message", got[0].Line.Object)
	seen, last, err := f.s.SweepLines(f.Context(), driver.Key{}, 10)
	if seen != 3 || last != got[2].Line.Object || !errors.Is(err, driver.ErrBadRow) {
		f.Errorf("SweepLines: %d lines up to %x, %v, want 3, all, and %v", seen, last, err, driver.ErrBadRow)
	}
	now := f.clock().Add(time.Second)
	var want []string
	for _, m := range got[1:] {
		want = append(want, m.EventID[:1]+"_2")
	}
	slices.Sort(want)
	f.goes(now, want...)
	allow()
	if _, _, err := f.s.SweepLines(f.Context(), driver.Key{}, 10); err != nil {
		f.Errorf("SweepLines without the refusal: %v", err)
	}
	now = f.clock().Add(time.Second)
	f.goes(now, got[0].EventID[:1]+"_2")
}

// orderPullBack leaves messages alone that wait for their turn, however far ahead they are due.
func orderPullBack(f *fixture) {
	f.claimNew(t0, newOrdered("x", 1, true), newOrdered("x", 2, true))
	f.goes(t0, "x_1")
	if _, n, err := f.s.PullBack(f.Context(), &driver.PullBackParams{
		Destinations: []string{"to-a"}, Limit: 10, Ahead: day, Now: t0,
	}); n != 0 || err != nil {
		f.Errorf("pulled %d messages back, %v, want none", n, err)
	}
	stats, err := f.s.Stats(f.Context())
	if err != nil || len(stats.Destinations) != 1 || !stats.Destinations[0].OldestDueAt.IsZero() {
		f.Errorf("stats: %+v, %v, want no due time of a message that waits for its turn", stats, err)
	}
}

// orderPruned prunes an event and its place, and claims it again.
func orderPruned(f *fixture) {
	first := newOrdered("x", 1, true)
	f.claimNew(t0, first)
	f.ends(t0, f.goes(t0, "x_1"), driver.MessageSent)
	later := t0.Add(100 * day)
	if got := f.prune(windows(day, later)); got.Events != 1 {
		f.Fatalf("pruned %+v, want the event", got)
	}
	f.claimNew(later, first, newOrdered("x", 2, true))
	f.ends(later, f.goes(later, "x_1"), driver.MessageSent)
	f.goes(later, "x_2")
	f.prune(windows(day, later.Add(100*day))) // the line has an open message
	versions, err := f.s.Versions(f.Context(), []driver.Key{first.Messages[0].Order.Line.Object})
	if err != nil || len(versions) != 1 {
		f.Errorf("versions: %+v, %v, want that of the line with an open message", versions, err)
	}
}

func orderPaused(f *fixture) {
	f.claimNew(t0, newOrdered("x", 1, true), newOrdered("x", 2, true))
	got := f.goes(t0, "x_1")
	f.pause(t0, "to-a")
	f.ends(t0, got, driver.MessageSent)
	f.noneDue(t0.Add(day), "to-a", "while paused")
	f.resume("to-a", true)
	f.goes(t0, "x_2")
}

// orderUnordered admits messages that are in no line.
func orderUnordered(f *fixture) {
	f.claimNew(t0, newClaim("stripe", "evt_1", "{}", "a"))
	m := f.leaseOne(t0, "to-a")
	got, err := f.s.Admit(f.Context(), &driver.AdmitParams{Messages: []driver.OrderedMessage{{MessageLease: leaseOf(&m)}}, Now: t0})
	if err != nil || len(got) != 1 || got[0].Verdict != driver.Unordered {
		f.Errorf("Admit: %+v, %v, want a message in no line", got, err)
	}
	f.mustComplete(t0, driver.Completion{ID: m.ID, Token: m.Token, Outcome: driver.MessageSent})
	if err := errors.Join(f.s.SettleLines(f.Context(), []string{m.ID}), f.s.SettleLines(f.Context(), nil)); err != nil {
		f.Error(err)
	}
}

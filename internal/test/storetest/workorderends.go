package storetest

import (
	"context"
	"time"

	"github.com/hookonce/hookonce/driver"
)

func eventsReplayPassed[T any](w *bench[T]) {
	first, second := newInLine("x", 1, true), newInLine("x", 2, true)
	w.claimNew(t0, first, second)
	w.runs(t0, w.turn(t0, "x_1"), succeeded)
	w.runs(t0, w.turn(t0, "x_2"), succeeded)
	for _, mode := range []driver.ReplayMode{driver.ReplaySameID, driver.ReplayAsNew} {
		_, err := w.d.Replay(w.Context(), &driver.ReplayParams{Key: first.Key, Mode: mode, Now: t0})
		w.refused("replay of a passed version", driver.ErrPassed, err)
		w.replay(&driver.ReplayParams{Key: first.Key, Mode: mode, Stale: true, Now: t0})
		// An operation that names it and does not change it leaves it as it is.
		for _, on := range []func(context.Context, *driver.DeadLetterParams) ([]bool, error){w.d.Discard, w.d.ReplayDead} {
			done, err := on(w.Context(), &driver.DeadLetterParams{Letters: []driver.DeadLetterRef{{Key: first.Key}}, Now: t0})
			same(w, "not dead", []bool{false}, done)
			if err != nil {
				w.Error(err)
			}
		}
		w.runs(t0, w.turn(t0, "x_1"), succeeded)
	}
	w.replay(&driver.ReplayParams{Key: second.Key, Mode: driver.ReplaySameID, Now: t0}) // the highest one is not passed
	w.runs(t0, w.turn(t0, "x_2"), succeeded)
}

// eventsTwoForced replays two versions below the applied one. They run one at a time, the lower one first.
func eventsTwoForced[T any](w *bench[T]) {
	claims := []driver.Claim{newInLine("x", 1, true), newInLine("x", 2, true), newInLine("x", 3, true)}
	w.claimNew(t0, claims...)
	for _, id := range []string{"x_1", "x_2", "x_3"} {
		w.runs(t0, w.turn(t0, id), succeeded)
	}
	w.replay(&driver.ReplayParams{Key: claims[1].Key, Mode: driver.ReplaySameID, Stale: true, Now: t0})
	second := w.turn(t0, "x_2")
	w.replay(&driver.ReplayParams{Key: claims[0].Key, Mode: driver.ReplaySameID, Stale: true, Now: t0})
	w.claimNew(t0, newInLine("y", 1, true))
	at := t0.Add(reservedFor)
	both := w.turn(at, "x_1", "y_1") // 2 is due, too
	if run := w.inRun(at, second); run != nil {
		w.Fatal("2 runs while it waits for 1")
	}
	w.runs(at, both, succeeded)
	w.runs(at, w.turn(at, "x_2"), succeeded)
	w.turn(at.Add(day))
}

// eventsBackInLine makes an event due again that its line has passed, before a later version was applied. It comes first again.
func eventsBackInLine[T any](w *bench[T]) {
	for object, again := range map[string]func(c *driver.Claim){
		"reopened": func(c *driver.Claim) { w.reopen(t0, c.Key) },
		"letter":   func(c *driver.Claim) { w.replayDead(t0, driver.DeadLetterRef{Key: c.Key}) },
		"replayed": func(c *driver.Claim) { w.replayAt(t0, c.Key, driver.ReplayPlain) },
	} {
		first := newInLine(object, 1, false)
		w.claimNew(t0, first, newInLine(object, 2, true))
		w.runs(t0, w.turn(t0, object+"_1"), failed)
		later := w.turn(t0, object+"_2")
		again(&first)
		got := w.turn(t0, object+"_1")
		if run := w.inRun(t0, later); run != nil {
			w.Fatalf("%s: the later version runs before the one that is due again", object)
		}
		w.runs(t0, got, succeeded)
		at := t0.Add(reservedFor)
		w.runs(at, w.turn(at, object+"_2"), succeeded)
	}
}

func eventsDiscardAndUndo[T any](w *bench[T]) {
	first := newInLine("x", 1, true)
	w.claimNew(t0, first, newInLine("x", 2, true))
	w.runs(t0, w.turn(t0, "x_1"), failed)
	w.turn(t0)
	ref := driver.DeadLetterRef{Key: first.Key}
	w.discardAs("op", t0, ref)
	w.heldEvents(0)
	got := w.turn(t0, "x_2")
	undo := &driver.UndiscardParams{Operation: "op", Limit: 10, Now: t0}
	same(w, "undone", 1, w.undiscard(undo).Undone)
	w.heldEvents(1)
	w.discardAs("op", t0, ref)
	w.runs(t0, got, succeeded)
	same(w, "undone", 1, w.undiscard(undo).Undone)
	w.heldEvents(0)
	same(w, "replayed", []bool{true}, w.replayDead(t0, ref))
	_, passed := w.letEventsGo(t0)
	same(w, "stale", []string{"x_1"}, turnIDs(passed))
}

// withoutOrder runs the event of the only line as a process without order does: its end wakes no other.
func (w *bench[T]) withoutOrder(id string) {
	w.Helper()
	p := w.takeParams(t0, 1, false)
	p.Keys = []driver.Key{w.turn(t0, id)[0].Key}
	w.succeed(t0, w.takeWith(p))
	w.turn(t0.Add(day))
}

func eventsSweep[T any](w *bench[T]) {
	w.claimNew(t0, newInLine("x", 1, true), newInLine("x", 2, true))
	w.withoutOrder("x_1")
	if seen, _, err := w.d.SweepLines(w.Context(), driver.Key{}, 10); seen != 1 || err != nil {
		w.Fatalf("SweepLines saw %d lines, %v, want 1", seen, err)
	}
	w.turn(time.Now().Add(time.Minute), "x_2")
}

// eventsSettledByAdmit parks an event behind one that was forgotten. Its admission wakes that one.
func eventsSettledByAdmit[T any](w *bench[T]) {
	w.claimNew(t0, newInLine("x", 1, true), newInLine("x", 2, true))
	w.withoutOrder("x_1")
	w.claimNew(t0, newInLine("x", 3, true))
	w.turn(t0)
	at := time.Now().Add(time.Minute)
	w.runs(at, w.turn(at, "x_2"), succeeded)
	w.turn(at, "x_3")
}

// eventsJoinLate lets events join their line by Admit: they were claimed without order.
func eventsJoinLate[T any](w *bench[T]) {
	w.claimNew(t0, newQueued("x_2"))
	w.claimNew(t0.Add(time.Second), newQueued("x_1"))
	at := t0.Add(time.Minute)
	reserved := w.reserve(at, reservedFor)
	p := &driver.AdmitParams{Now: at}
	for i := range reserved {
		version := int(reserved[i].EventID[2] - '0')
		p.Messages = append(p.Messages, driver.OrderedMessage{MessageLease: driver.Reserved(&reserved[i]), Order: placedEvent("x", version, true)})
	}
	got, err := w.d.Admit(w.Context(), p)
	if err != nil {
		w.Fatalf("Admit: %v", err)
	}
	same(w, "verdicts of x_2 and x_1", []driver.Verdict{driver.Parked, driver.Admitted}, []driver.Verdict{got[0].Verdict, got[1].Verdict})
	w.runs(at, []inTurn{{reserved[1], got[1]}}, succeeded)
	w.turn(at.Add(time.Second), "x_2")
	// A reservation that is over admits nothing.
	got, err = w.d.Admit(w.Context(), p)
	if err != nil || got[0].Verdict != driver.Parked || got[1].Verdict != driver.Parked {
		w.Errorf("a late Admit: %+v, %v, want no turn", got, err)
	}
}

func eventsPullBack[T any](w *bench[T]) {
	w.claimNew(t0, newInLine("x", 1, true), newInLine("x", 2, true))
	got := w.turn(t0, "x_1")
	same(w, "pulled", [2]int{0, 0}, w.pullBack(t0, []string{"stripe"}, nil))
	w.runs(t0, got, succeeded)
	w.turn(t0, "x_2")
	b, err := w.d.Backlog(w.Context(), &driver.BacklogParams{Sources: []string{"stripe"}, Limit: 10})
	if err != nil || b.Sources["stripe"].OldestDueAt.Equal(driver.ParkedUntil) {
		w.Errorf("backlog: %+v, %v", b, err)
	}
}

func eventsPruned[T any](w *bench[T]) {
	first := newInLine("x", 1, true)
	w.claimNew(t0, first)
	w.runs(t0, w.turn(t0, "x_1"), succeeded)
	later := t0.Add(100 * day)
	if got := w.prune(windows(day, later)); got.Events != 1 {
		w.Fatalf("pruned %+v, want the event", got)
	}
	w.claimNew(later, first, newInLine("x", 2, true))
	w.runs(later, w.turn(later, "x_1"), succeeded)
	w.turn(later, "x_2")
}

// eventsUnordered admits an event that is in no line, and takes it beside one that is.
func eventsUnordered[T any](w *bench[T]) {
	free, inLine := newQueued("evt_1"), newInLine("x", 1, true)
	w.claimNew(t0, free, inLine)
	reserved := w.reserveThese(t0, reservedFor, "evt_1", "x_1")
	p := &driver.AdmitParams{Now: t0}
	for i := range reserved {
		p.Messages = append(p.Messages, driver.OrderedMessage{MessageLease: driver.Reserved(&reserved[i])})
	}
	got, err := w.d.Admit(w.Context(), p)
	if err != nil || got[0].Verdict != driver.Unordered || got[1].Verdict != driver.Admitted {
		w.Fatalf("Admit: %+v, %v, want one in no line, and one admitted", got, err)
	}
	take := w.takeParams(t0, 10, false)
	take.Keys, take.Lines = []driver.Key{free.Key, inLine.Key}, []driver.Key{{}, inLine.Order.Line.Object}
	run := w.takeWith(take)
	same(w, "taken", 2, len(run.Events()))
	w.succeed(t0, run)
}

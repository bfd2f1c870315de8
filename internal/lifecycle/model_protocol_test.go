package lifecycle_test

import (
	"maps"
	"slices"
	"testing"
)

// bug is a way to break the protocol.
type bug int

const (
	none bug = iota
	completeByID
	completeByState
	blindSweep
	blindLease
	noTakeover
	noLimit
	ackEarly
	ackUnknown
	earlyPrune
	pruneAny
	pruneEventOnly
	emptyBySnapshot
	tokenReset
	replayUnlocked
	replayOpen
	replayAll
	asNewSameID
	reopenNewID
	discardFrees
	tokenRestart
)

// TestModel tries every step in each of a few worlds. It checks that no rule is ever broken, and
// that from every moment all work can still end. A world with many messages for one event has one
// attempt for each, to stay small.
func TestModel(t *testing.T) {
	t.Parallel()
	seen := make(map[happening]int)
	for _, w := range []world{
		{name: "copies", relays: 2, copies: 3, oldest: pastWindow},
		{name: "a relay that stops", relays: 2, copies: 2, releases: 1},
		{name: "a double click", relays: 2, copies: 1, clicks: 2, releases: 1},
		{name: "an operator", copies: 1, replays: 2, letters: 1},
		{name: "an operator, copies and zombies", relays: 2, attempts: 1, copies: 2, replays: 1, letters: 1},
		{name: "an operator and old bodies", copies: 1, replays: 1, letters: 1, oldest: pastRetention},
		{name: "an operator and old events", copies: 2, replays: 1, oldest: pastWindow},
		{name: "two routes", routes: 2, relays: 2, attempts: 1, copies: 1, replays: 1},
		{name: "two routes and dead letters", routes: 2, attempts: 1, copies: 1, replays: 1, letters: 1},
		{name: "a route that came later", later: true, copies: 1, clicks: 2, replays: 1, oldest: pastWindow},
		{name: "two events", events: 2, relays: 2, copies: 2},
		{name: "two events and an operator", events: 2, relays: 2, attempts: 1, copies: 2, letters: 1},
	} {
		t.Run(w.name, func(t *testing.T) {
			x, broken, story := explore(t, &w, true, rules...)
			t.Logf("%d moments, %d steps", len(x.moments), len(x.next))
			if broken != "" {
				t.Fatalf("broken: %s\n%s", broken, story)
			}
			if story := x.stuck(); story != "" {
				t.Errorf("broken: %s\n%s", reachesEnd, story)
			}
			for h, n := range x.seen {
				seen[h] += n
			}
		})
	}
	for _, st := range steps {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(seen)), func(h happening) bool { return h.step == st.name }) {
			t.Errorf("the step %q never changed anything", st.name)
		}
	}
	for h, n := range seen {
		t.Logf("%s, %s: %d times", h.step, h.note, n)
	}
}

// TestModelFindsBrokenProtocols shows that the model can be trusted: it finds each of these
// protocol faults, and each of its rules finds one.
func TestModelFindsBrokenProtocols(t *testing.T) {
	t.Parallel()
	broken := make(map[string]bool)
	for _, v := range []struct {
		name  string
		rule  string
		bug   bug
		world world
	}{
		{"complete by id alone", finishedStays, completeByID, world{relays: 2, copies: 1}},
		{"complete by state, without the token", fenced, completeByState, world{relays: 2, copies: 1}},
		{"complete by state, into a replay", sentIsSent, completeByState, world{relays: 2, copies: 1, replays: 1}},
		{"a sweep that reads and then writes", finishedStays, blindSweep, world{copies: 1}},
		{"a sweep under a new lease", undisturbed, blindSweep, world{relays: 2, copies: 1}},
		{"a lease that reads and then writes", oneHolder, blindLease, world{relays: 2, copies: 1}},
		{"an expired lease that is never taken over", reachesEnd, noTakeover, world{relays: 2, copies: 1}},
		{"attempts without limit", limited, noLimit, world{copies: 1}},
		{"200 before the commit", nothingLost, ackEarly, world{copies: 1}},
		{"200 after an unknown commit", nothingLost, ackUnknown, world{copies: 1}},
		{"identities pruned within their window", claimedOnce, earlyPrune, world{copies: 2, oldest: pastWindow}},
		{"events pruned in any state", nothingLost, pruneAny, world{copies: 1, oldest: pastWindow}},
		{"events pruned without their messages", ownEvent, pruneEventOnly, world{copies: 1, oldest: pastWindow}},
		{"bodies pruned by a snapshot", bodyKept, emptyBySnapshot, world{copies: 1, replays: 1, oldest: pastRetention}},
		{"a replay that resets tokens", onlyGrow, tokenReset, world{copies: 1, replays: 1}},
		{"a replay that resets tokens, and a zombie", fenced, tokenReset, world{relays: 2, copies: 1, replays: 1}},
		{"a replay that reads and then writes", oneGeneration, replayUnlocked, world{copies: 1, clicks: 2}},
		{"a replay of an open event", undisturbed, replayOpen, world{copies: 1, replays: 1}},
		{"a replay of replaced messages", rightReplay, replayAll, world{copies: 1, replays: 2}},
		{"a replay as new under the old id", stableID, asNewSameID, world{copies: 1, replays: 1}},
		{"a reopening under a new id", stableID, reopenNewID, world{attempts: 1, copies: 2}},
		{"a discard that frees the identity", claimedOnce, discardFrees, world{copies: 2, letters: 1}},
		{"tokens that start again when an event is claimed again", fenced, tokenRestart, world{relays: 2, copies: 2, oldest: pastWindow}},
	} {
		broken[v.rule] = true
		t.Run(v.name, func(t *testing.T) {
			v.world.name, v.world.bug = v.name, v.bug
			only := rules
			if v.rule != reachesEnd {
				only = slices.DeleteFunc(slices.Clone(rules), func(r rule) bool { return r.name != v.rule })
			}
			x, _, story := explore(t, &v.world, v.rule == reachesEnd, only...)
			if v.rule == reachesEnd {
				story = x.stuck()
			}
			if story == "" {
				t.Fatalf("in %d moments nothing broke the rule: %s", len(x.moments), v.rule)
			}
			t.Logf("%d moments until it breaks: %s\n%s", len(x.moments), v.rule, story)
		})
	}
	for _, r := range rules {
		if !broken[r.name] {
			t.Errorf("no case shows that the model can find a break of the rule: %s", r.name)
		}
	}
}
